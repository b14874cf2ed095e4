"""The part of a training that all of its processes have: each learns, stops with the others, saves what they leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stable_baselines3.common.callbacks import BaseCallback

from proq_agent.common.callbacks import StopOnSignal
from proq_agent.common.distributed import ProcessLost, greatest
from zoo.runs.folder import RunFolder

if TYPE_CHECKING:
    from proq_agent.common.offline import OfflineAlgorithm


class Learning:
    """
    A training as far as all of its processes have it.

    :param model: an agent with its dataset
    :param total: number of updates that it is to have had in the end
    :param folder: of the run
    """

    def __init__(self, model: OfflineAlgorithm, total: int, folder: RunFolder) -> None:
        self.model, self.total, self.folder = model, total, folder
        self.finished = False
        self.ended_by: int | None = None  #: number of the signal that ended it early

    def learn(self, callbacks: Sequence[BaseCallback] = (), log_interval: int | None = None) -> None:
        """
        Train and save the agent; ``finished`` stays ``False`` if a signal ended it early.

        :param callbacks: besides the one that stops
        :param log_interval: as of the agent
        :raises ProcessLost: with the agent to go on with, if another process has ended
        """
        model, stop = self.model, StopOnSignal()
        with stop.listening():  # until it is saved: when a process ends, torchrun ends the others
            try:
                model.learn(
                    self.total - model.num_timesteps,
                    callback=[*callbacks, stop],
                    log_interval=log_interval,
                    reset_num_timesteps=False,
                )
                self.ended_by = greatest(stop.number or 0) or None  # whichever process was told to stop
            except ProcessLost as error:
                self._save_for_all(error)
                raise
            self.save()
        self.ended_by = self.ended_by or stop.number
        self.finished = model.num_timesteps >= self.total and self.ended_by is None

    def save(self) -> None:
        """Keep what was learned, where that is this process's part."""

    def _save_for_all(self, error: ProcessLost) -> None:
        """Any process has the whole agent, as it was after the last update that all have finished."""
        if self.model.device.type == "cpu":
            self.model.save(self.folder.agent)
            error.agent, updates = self.folder.agent, self.model.num_timesteps
        else:  # what a GPU was told to do after the exchange that was cut short, it may have done
            error.agent, updates = self.folder.last_checkpoint()
        kept = f"saved after {updates} of {self.total} updates" if error.agent else "nothing was saved before"
        error.args = (f"{error}; {kept}",)
