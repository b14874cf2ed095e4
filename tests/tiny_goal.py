"""The smallest goal environment, dataset and agent, for tests of what is around the algorithm."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from proq_agent import GoalDataset, ProQ

TINY: dict[str, Any] = {
    "batch_size": 16,
    "keypoints": {"n": 5, "start": 4},
    "policy_kwargs": {"hidden_sizes": [16], "latent_dim": 4, "n_components": 4, "component_size": 2},
}

# For the commands.
ENV = "tiny_goal:TinyGoal-v0"
NAME = "tiny_goal-TinyGoal-v0"
TINY_PARAMS = (
    "batch_size:16", "keypoints.n:5", "keypoints.start:4", "policy_kwargs.hidden_sizes:[16]",
    "policy_kwargs.latent_dim:4", "policy_kwargs.n_components:4", "policy_kwargs.n_fourier_features:8",
)  # fmt: skip


class TinyGoalEnv(gym.Env):
    """A point in the unit square that moves by a tenth of the action; near the goal is success."""

    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, task_id: int | None = None, limit: int = 6, reach: float = 0.5) -> None:
        box = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = spaces.Dict(observation=box, achieved_goal=box, desired_goal=box)
        self.task_id, self.limit, self.reach = task_id, limit, reach

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.position, self.goal = self.np_random.uniform(size=(2, 2)).astype(np.float32)
        self.t = 0
        return self._observation(), {}

    def step(self, action: np.ndarray) -> Any:
        self.position = (self.position + 0.1 * action).clip(0.0, 1.0).astype(np.float32)
        self.t += 1
        success = bool(np.linalg.norm(self.position - self.goal) < self.reach)
        return self._observation(), float(success), success, self.t >= self.limit, {"is_success": success}

    def _observation(self) -> dict[str, np.ndarray]:
        position = self.position.copy()
        return {"observation": position, "achieved_goal": position.copy(), "desired_goal": self.goal.copy()}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, _: Any) -> Any:
        return (np.linalg.norm(achieved_goal - desired_goal, axis=-1) < self.reach).astype(np.float64)


def tiny_arrays(trajectories: int = 10, rows: int = 30, seed: int = 0) -> dict[str, np.ndarray]:
    """Random walks in the unit square, in the form of OGBench's files."""
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1.0, 1.0, size=(trajectories, rows, 2)).astype(np.float32)
    observations = np.empty_like(actions)
    observations[:, 0] = rng.uniform(size=(trajectories, 2))
    for t in range(1, rows):
        observations[:, t] = (observations[:, t - 1] + 0.1 * actions[:, t - 1]).clip(0.0, 1.0)
    terminals = np.zeros((trajectories, rows), dtype=bool)
    terminals[:, -1] = True
    return {
        "observations": observations.reshape(-1, 2),
        "actions": actions.reshape(-1, 2),
        "terminals": terminals.ravel(),
    }


def tiny_model(seed: int = 0, **kwargs: Any) -> ProQ:
    return ProQ(dataset=GoalDataset(**tiny_arrays()), device="cpu", seed=seed, **TINY | kwargs)


gym.register("TinyGoal-v0", entry_point=TinyGoalEnv)  # as tiny_goal:TinyGoal-v0 known to other processes too
