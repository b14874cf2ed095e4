"""A drone with momentum among boxes in three dimensions: nothing in it is a maze, a plane or a grid."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

# Corners of boxes in the cube [-1, 1]³: a wall with a window in its upper far corner, and a pillar behind it.
OBSTACLES = np.array(
    [
        [[-0.1, -1.0, -1.0], [0.1, 0.2, 1.0]],
        [[-0.1, 0.2, -1.0], [0.1, 1.0, 0.2]],
        [[0.4, -0.6, -1.0], [0.7, 0.2, 0.5]],
    ]
)
LAG, DRAG, ACCELERATION = 0.5, 0.2, 0.02  # a tenth of a unit a step at most
TOLERANCE = 0.2


def is_free(positions: np.ndarray) -> np.ndarray:
    """Which of the positions ``[N, 3]`` lie in the cube and in no box."""
    low, high = OBSTACLES[:, 0], OBSTACLES[:, 1]
    blocked = ((positions[:, None] > low) & (positions[:, None] < high)).all(axis=-1).any(axis=-1)
    return (np.abs(positions) <= 1.0).all(axis=-1) & ~blocked


def advance(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """
    One step of many drones. The thrust follows the action with a lag; a wall stops the motion along its axis.

    :param states: ``[N, 9]`` position, velocity and thrust
    :param actions: ``[N, 3]``
    """
    position, velocity, thrust = (part.copy() for part in np.split(states, 3, axis=1))
    thrust += LAG * (actions.clip(-1.0, 1.0) - thrust)
    velocity += ACCELERATION * thrust - DRAG * velocity
    for axis in range(3):
        moved = position.copy()
        moved[:, axis] += velocity[:, axis]
        free = is_free(moved)
        position[free] = moved[free]
        velocity[~free, axis] = 0.0
    return np.concatenate([position, velocity, thrust], axis=1)


def free_points(n: int, rng: np.random.Generator) -> np.ndarray:
    """``[n, 3]`` uniform over the free space."""
    points = rng.uniform(-1.0, 1.0, size=(4 * n + 64, 3))
    return points[is_free(points)][:n]


def at_rest(positions: np.ndarray) -> np.ndarray:
    return np.concatenate([positions, np.zeros((len(positions), 6))], axis=1)


class DroneReach(gym.Env):
    """
    Fly from a random place to another: 9 observed numbers, 3 of them are the goal's. ``reset`` takes both places as
    options, ``start`` and ``goal``.
    """

    def __init__(self) -> None:
        box = {n: spaces.Box(-2.0, 2.0, (n,), np.float32) for n in (3, 9)}
        self.observation_space = spaces.Dict(observation=box[9], achieved_goal=box[3], desired_goal=box[3])
        self.action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        start, goal = free_points(2, self.np_random)
        chosen = {name: np.asarray(place) for name, place in (options or {}).items()}
        self.goal = chosen.get("goal", goal)
        self.state = at_rest(chosen.get("start", start)[None])
        return self._observation(), {"is_success": False}

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        self.state = advance(self.state, np.asarray(action)[None])
        success = bool(self.compute_reward(self.state[0, :3], self.goal, {}))
        return self._observation(), float(success), success, False, {"is_success": success}

    def _observation(self) -> dict[str, np.ndarray]:
        observation, goal = self.state[0].astype(np.float32), self.goal.astype(np.float32)
        return {"observation": observation, "achieved_goal": observation[:3].copy(), "desired_goal": goal}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> Any:
        """One within a distance of the goal, else zero; for one goal or a batch of them."""
        return (np.linalg.norm(np.asarray(achieved_goal) - desired_goal, axis=-1) <= TOLERANCE).astype(np.float64)
