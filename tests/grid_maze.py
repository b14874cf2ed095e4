"""A small deterministic maze whose true shortest paths are known, for tests."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from scipy.sparse.csgraph import dijkstra

from proq_agent import GoalDataset

ROOMS = """
#######
#..#..#
#..#..#
#.....#
####..#
#.....#
#######
"""

# The only way from the cell right of the door back to the cell left of it is all around the ring.
ONE_WAY_RING = """
#######
#.>...#
#.###.#
#.###.#
#.....#
#######
"""


# A portal beside the start leads to the goal's room or to a sealed cell; the goal can also be walked to.
PORTAL_AND_DETOUR = """
#########
#A..#..a#
#...#...#
#...#...#
#.......#
#########
###a#####
#########
"""

# The same rooms without the passage: the portal is the only way.
PORTAL_ONLY = """
#########
#A..#..a#
#...#...#
#...#...#
#...#...#
#########
###a#####
#########
"""

# Two portals in the left room: A reaches the right room with 1/4, B with 3/4; otherwise a sealed cell.
TWO_PORTALS = """
###########
#A...#a.bb#
#....#...b#
#....#....#
#B...#....#
###########
#aaa#b#####
###########
"""


# Settings of ProQ with which a map of such a maze is learned in seconds.
SMALL: dict[str, Any] = {
    "learning_rate": 2e-3,
    "batch_size": 128,
    "n_keypoints": 24,
    "max_hop": 5.0,
    "reach": 1.5,
    "temperature": 10.0,
    "discount": 0.9,
    "value_near_share": 0.3,
    "far_offset": 30.0,
    "far_scale": 0.1,
    "repel_range": 10.0,
    "keypoint_start": 500,
    "keypoint_freq": 4,
    "keypoint_learning_rate": 1e-2,
    "seed": 1,
    "device": "cpu",
    "policy_kwargs": {
        "hidden_sizes": [64, 64],
        "n_components": 16,
        "dropout": 0.0,
        "n_fourier_features": 32,
        "fourier_scale": 2.0,
    },
}


class GridMaze(gym.Env[dict[str, np.ndarray], np.ndarray]):
    """
    A point that moves by at most half a cell a step on each axis, and not into walls.

    ``#`` is a wall, ``.`` is free, ``>`` is free but can be entered from the left and left to the right alone.
    Whoever stands on an upper-case letter finds itself at one of that letter's lower-case cells, drawn evenly, after
    the next step. Positions are ``(column, row)``, cell centres are whole numbers.
    """

    STEP = 0.5
    TOLERANCE = 0.5

    def __init__(self, layout: str = ROOMS, max_steps: int = 100) -> None:
        self.rows = layout.split()
        self.cells = np.array(
            [(x, y) for y, row in enumerate(self.rows) for x, tile in enumerate(row) if tile != "#"], dtype=np.float32
        )
        self.max_steps = max_steps
        box = spaces.Box(-1.0, float(max(len(self.rows), len(self.rows[0]))), (2,), np.float32)
        self.observation_space = spaces.Dict(observation=box, achieved_goal=box, desired_goal=box)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def tile(self, position: np.ndarray) -> str:
        x, y = np.rint(position).astype(int)
        return self.rows[y][x]

    def exits(self, letter: str) -> np.ndarray:
        """Centres of the cells that an entrance leads to."""
        return np.array([cell for cell in self.cells if self.tile(cell) == letter.lower()])

    def advance(self, position: np.ndarray, action: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if self.tile(position).isupper():
            return rng.choice(self.exits(self.tile(position))) + rng.uniform(-0.2, 0.2, 2).astype(np.float32)
        return self.move(position, action)

    def move(self, position: np.ndarray, action: np.ndarray) -> np.ndarray:
        for axis in (0, 1):
            moved = position.copy()
            moved[axis] += self.STEP * float(np.clip(action[axis], -1.0, 1.0))
            if self.allowed(position, moved):
                position = moved
        return position

    def allowed(self, start: np.ndarray, end: np.ndarray) -> bool:
        if self.tile(end) == "#":
            return False
        crosses = not np.array_equal(np.rint(start), np.rint(end))
        return not (crosses and ">" in (self.tile(start), self.tile(end)) and end[0] <= start[0])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        start, goal = self.np_random.choice(len(self.cells), 2, replace=False)
        self.position, self.goal, self.steps = self.cells[start].copy(), self.cells[goal].copy(), 0
        return self._observation(), {"is_success": False}

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        self.position = self.advance(self.position, action, self.np_random)
        self.steps += 1
        success = bool(np.abs(self.position - self.goal).max() <= self.TOLERANCE)
        return self._observation(), float(success), success, self.steps >= self.max_steps, {"is_success": success}

    def _observation(self) -> dict[str, np.ndarray]:
        position = self.position.astype(np.float32)
        return {"observation": position.copy(), "achieved_goal": position, "desired_goal": self.goal.copy()}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        return (np.abs(achieved_goal - desired_goal).max(axis=-1) <= self.TOLERANCE).astype(np.float64)

    def true_steps(self) -> np.ndarray:
        """``[cells, cells]`` steps of the shortest path along rows and columns between cell centres."""
        n = len(self.cells)
        graph = np.zeros((n, n))
        for i, a in enumerate(self.cells):
            for j, b in enumerate(self.cells):
                if np.abs(a - b).sum() == 1 and self.allowed(a, b):
                    graph[i, j] = 1 / self.STEP
        return dijkstra(graph)

    def random_walks(self, trajectories: int, length: int, seed: int = 0) -> GoalDataset:
        """Walks that keep a direction for a few steps at a time."""
        rng = np.random.default_rng(seed)
        observations, actions = [], []
        for _ in range(trajectories):
            position = self.cells[rng.integers(len(self.cells))] + rng.uniform(-0.4, 0.4, 2)
            for t in range(length):
                if t % 4 == 0:
                    heading = rng.uniform(-1.5, 1.5, 2)
                action = np.clip(heading + rng.normal(0.0, 0.3, 2), -1.0, 1.0)
                observations.append(position)
                actions.append(action)
                position = self.advance(position, action, rng)
        terminals = np.arange(len(observations)) % length == length - 1
        return GoalDataset(np.array(observations), np.array(actions), terminals, action_space=self.action_space)
