"""Readers of Stable-Baselines3 and RL Zoo find their way in the folder of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from stable_baselines3.common.monitor import load_results
from stable_baselines3.common.results_plotter import X_TIMESTEPS, ts2xy
from tiny_goal import TinyGoalEnv, tiny_model

from proq_agent.common.callbacks import TaskEvalCallback
from zoo.runs.monitor import MonitorFile


def test_episodes_of_evaluations_are_read_as_monitored_ones(tmp_path: Path) -> None:
    monitor = MonitorFile(tmp_path, "TinyGoal-v0")
    evaluation = TaskEvalCallback(TinyGoalEnv, (1, 2), 3, 2, log_path=tmp_path, callback_after_eval=monitor)
    tiny_model().learn(6, callback=evaluation)
    episodes = load_results(str(tmp_path))
    assert episodes["updates"].tolist() == [3] * 4 + [6] * 4
    assert episodes["task"].tolist() == [1, 1, 2, 2] * 2
    with np.load(tmp_path / "evaluations.npz") as file:
        for column, name in (("r", "results"), ("l", "ep_lengths"), ("is_success", "successes")):
            np.testing.assert_allclose(episodes[column], file[name].ravel().astype(float))
        steps, rewards = ts2xy(episodes, X_TIMESTEPS)
        assert steps.tolist() == np.cumsum(file["ep_lengths"]).tolist()
        np.testing.assert_allclose(rewards, file["results"].ravel())


def test_without_an_evaluation_there_is_no_file(tmp_path: Path) -> None:
    evaluation = TaskEvalCallback(TinyGoalEnv, (1,), 5, callback_after_eval=MonitorFile(tmp_path, "TinyGoal-v0"))
    tiny_model().learn(3, callback=evaluation)
    assert not list(tmp_path.iterdir())
