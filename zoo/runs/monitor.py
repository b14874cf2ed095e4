"""The episodes that were played to evaluate an agent, in the form of SB3's ``Monitor``: what plots of RL Zoo read."""

from __future__ import annotations

import time
from pathlib import Path

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import ResultsWriter

from proq_agent.common.callbacks import TaskEvalCallback

COLUMNS = ("is_success", "task", "updates")  # beside Monitor's r, l and t


class MonitorFile(BaseCallback):
    """
    Writes ``0.monitor.csv`` after each evaluation: a row an episode with sampled actions, task by task.

    To be the ``callback_after_eval`` of a :class:`~proq_agent.common.callbacks.TaskEvalCallback`.

    :param folder: of the run
    :param env_id: for the file's header
    """

    parent: TaskEvalCallback

    def __init__(self, folder: Path, env_id: str) -> None:
        super().__init__()
        self._file = str(folder / "0.monitor.csv")
        self._header: dict[str, float | str] = {"t_start": time.time(), "env_id": env_id}
        self._written = False

    def _on_step(self) -> bool:
        results, begun = self.parent.sampled, self._header["t_start"]
        assert results is not None and isinstance(begun, float)
        writer = ResultsWriter(self._file, self._header, COLUMNS, override_existing=not self._written)
        seconds = round(time.time() - begun, 3)
        for task, *episodes in zip(results.tasks, results.returns, results.lengths, results.success, strict=True):
            for reward, length, success in zip(*episodes, strict=True):
                told = {"is_success": int(success), "task": task, "updates": self.num_timesteps}
                writer.write_row({"r": float(reward), "l": int(length), "t": seconds} | told)
        writer.close()
        self._written = True
        return True
