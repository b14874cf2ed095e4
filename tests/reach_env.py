"""A drone with momentum among boxes in three dimensions: nothing in it is a maze, a plane or a grid."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from proq_agent import GoalDataset

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


class DroneReach(gym.Env[dict[str, np.ndarray], np.ndarray]):
    """Fly from a random place to another: 9 observed numbers, 3 of them are the goal's."""

    def __init__(self, max_steps: int = 200) -> None:
        box = {n: spaces.Box(-2.0, 2.0, (n,), np.float32) for n in (3, 9)}
        self.observation_space = spaces.Dict(observation=box[9], achieved_goal=box[3], desired_goal=box[3])
        self.action_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
        self.max_steps = max_steps

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        start, self.goal = free_points(2, self.np_random)
        self.state, self.steps = at_rest(start[None]), 0
        return self._observation(), {"is_success": False}

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        self.state = advance(self.state, np.asarray(action)[None])
        self.steps += 1
        success = bool(np.linalg.norm(self.state[0, :3] - self.goal) <= TOLERANCE)
        return self._observation(), float(success), success, self.steps >= self.max_steps, {"is_success": success}

    def _observation(self) -> dict[str, np.ndarray]:
        observation, goal = self.state[0].astype(np.float32), self.goal.astype(np.float32)
        return {"observation": observation, "achieved_goal": observation[:3].copy(), "desired_goal": goal}


def fly_to_waypoints(drones: int, rows: int, noise: float = 0.5, seed: int = 0) -> GoalDataset:
    """
    A noisy controller flies straight at random waypoints, a new one when it arrives or has tried for long enough.

    It plans nothing: that there is a way through the window is in the data only because some waypoints lie behind it.
    """
    rng = np.random.default_rng(seed)
    states, waypoints = at_rest(free_points(drones, rng)), free_points(drones, rng)
    observations, actions = np.empty((drones, rows, 9)), np.empty((drones, rows, 3))
    for t in range(rows):
        way = waypoints - states[:, :3]
        new = (np.linalg.norm(way, axis=1) < 0.1) | (rng.uniform(size=drones) < 1 / 40)
        waypoints[new] = free_points(int(new.sum()), rng)
        wanted_velocity = (0.3 * (waypoints - states[:, :3])).clip(-0.1, 0.1)
        action = 20.0 * (wanted_velocity - states[:, 3:6]) + rng.normal(0.0, noise, size=(drones, 3))
        observations[:, t], actions[:, t] = states, action.clip(-1.0, 1.0)
        states = advance(states, actions[:, t])
    terminals = np.zeros((drones, rows), dtype=bool)
    terminals[:, -1] = True
    flat = observations.reshape(-1, 9)
    return GoalDataset(flat, actions.reshape(-1, 3), terminals.ravel(), flat[:, :3])
