"""The whole way on a real maze: a small generated dataset, the tuned settings, a short training, all five tasks."""

from __future__ import annotations

import pytest

from proq_agent import GoalDataset, ProQ
from proq_agent.common.evaluation import evaluate_both
from wrappers import make_goal_env
from zoo.config import load_hyperparams
from zoo.data.generation import generate

ID = "pointmaze-medium-navigate-v0"


@pytest.mark.slow
def test_two_minutes_of_training_solve_the_medium_maze() -> None:
    arrays = generate(ID, seed=0, episodes=150, val_episodes=1)["train"]
    env = make_goal_env(ID)
    dataset = GoalDataset(arrays["observations"], arrays["actions"], arrays["terminals"], action_space=env.action_space)
    settings, n_updates = load_hyperparams(ID, overrides=["n_timesteps:3000", "keypoint_start:800"])
    model = ProQ(env=env, dataset=dataset, seed=1, device="cpu", **settings).learn(n_updates, log_interval=None)
    for results in evaluate_both(model, lambda k: make_goal_env(ID, task_id=k), range(1, 6), 5, seed=0):
        assert results.success_rate >= 0.8
