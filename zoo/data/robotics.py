"""A waypoint controller for Gymnasium-Robotics' PointMaze, played on the same physics without the Gym overhead.

The ball is driven by forces and keeps its momentum. The controller steers towards the centre of the next cell on a
shortest path to a random goal, with Gaussian noise, and takes a new goal whenever one is reached. It knows the maze's
layout, exists to make data, and nothing that learns may import it.
"""

from __future__ import annotations

from functools import cache
from math import hypot
from typing import Any

import mujoco
import numpy as np
from scipy.sparse.csgraph import dijkstra

from wrappers import make_goal_env

SPEED_LIMIT = 5.0  # of the environment, on each axis
SPEEDS = (1.5, 4.5)  # range of the controller's pace, drawn anew with each goal
APPROACH = 6.0  # wanted speed for each unit of distance to the waypoint, up to the pace
VELOCITY_GAIN = 0.5  # action for each unit of speed that is missing
POSITION_NOISE = 0.25  # of starts and goals, on each axis, in cells: the environment's
GOAL_RADIUS = 0.45  # the environment's


class RoboticsMaze:
    """
    One Gymnasium-Robotics PointMaze: its physics, and the next cell on the way from each cell to each.

    :param env_id: ``PointMaze_UMaze-v3``, ``PointMaze_Medium-v3`` or ``PointMaze_Large-v3``
    """

    def __init__(self, env_id: str) -> None:
        env: Any = make_goal_env(env_id).unwrapped
        self.model, self.data = env.model, env.data
        layout = np.array(env.maze.maze_map)
        cells = np.argwhere(layout == 0)
        self.centres: list[tuple[float, float]] = [tuple(env.maze.cell_rowcol_to_xy(c).tolist()) for c in cells]
        self._corner = float(env.maze.x_map_center), float(env.maze.y_map_center)
        self._numbers = np.full(layout.shape, -1)
        self._numbers[tuple(cells.T)] = np.arange(len(cells))
        beside = np.abs(cells[:, None] - cells[None]).sum(axis=-1) == 1
        # The cell before the last on the way from the goal is the next one on the way to it.
        _, before = dijkstra(beside, unweighted=True, return_predecessors=True)
        self.next_cell: np.ndarray = np.where(before < 0, np.arange(len(cells)), before)  # [goal, cell]

    def cell(self, x: float, y: float) -> int:
        """Number of the free cell at a position; cells have size one, rows are counted from the top."""
        return int(self._numbers[int(self._corner[1] - y), int(x + self._corner[0])])

    def reset(self, x: float, y: float) -> None:
        """Put the ball somewhere, at rest."""
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = x, y
        mujoco.mj_forward(self.model, self.data)

    def step(self, action: np.ndarray) -> None:
        """Exactly what the environment does to the ball in a step."""
        self.data.qvel.clip(-SPEED_LIMIT, SPEED_LIMIT, out=self.data.qvel)
        mujoco.mj_forward(self.model, self.data)  # for its effect on the contact solver's starting point
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data)


@cache
def get_maze(env_id: str) -> RoboticsMaze:
    """Build a maze once a process."""
    return RoboticsMaze(env_id)


def play(dataset_id: str, rows: int, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Play one episode of a dataset, see :func:`rollout`."""
    return rollout(get_maze(dataset_id), rows, noise, rng)


def rollout(maze: RoboticsMaze, rows: int, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """
    Play one episode of the controller.

    :param maze: the maze to play in
    :param rows: length of the episode in rows, one more than its transitions
    :param noise: standard deviation of the Gaussian noise on each axis of the action
    :param rng: source of every random number of the episode
    :return: ``observations`` (position and velocity), ``achieved_goals`` (position), ``actions``, ``terminals``
    """

    def random_point() -> tuple[int, float, float]:
        dx, dy = rng.uniform(-POSITION_NOISE, POSITION_NOISE, size=2).tolist()
        return int(rng.integers(len(maze.centres))), dx, dy

    start, dx, dy = random_point()
    # A start that the file can hold: its actions replay to the same states.
    maze.reset(*(float(np.float32(c + d)) for c, d in zip(maze.centres[start], (dx, dy), strict=True)))
    goal, offset_x, offset_y = random_point()
    pace = rng.uniform(*SPEEDS)
    noises = rng.normal(0.0, noise, size=(rows, 2)).tolist()
    observations = np.empty((rows, 4), dtype=np.float32)
    actions = np.empty((rows, 2), dtype=np.float32)
    for t in range(rows):
        x, y = maze.data.qpos.tolist()
        vx, vy = maze.data.qvel.tolist()
        observations[t] = x, y, vx, vy
        goal_x, goal_y = maze.centres[goal]
        if hypot(goal_x + offset_x - x, goal_y + offset_y - y) <= GOAL_RADIUS:
            goal, offset_x, offset_y = random_point()
            pace = rng.uniform(*SPEEDS)
        # The whole way is walked as far off the centres as its goal lies: the data fill the corridors.
        centre_x, centre_y = maze.centres[maze.next_cell[goal, maze.cell(x, y)]]
        dx, dy = centre_x + offset_x - x, centre_y + offset_y - y
        speed = min(pace, APPROACH * hypot(dx, dy)) / (hypot(dx, dy) + 1e-6)
        noise_x, noise_y = noises[t]
        actions[t, 0] = min(max(VELOCITY_GAIN * (speed * dx - vx) + noise_x, -1.0), 1.0)
        actions[t, 1] = min(max(VELOCITY_GAIN * (speed * dy - vy) + noise_y, -1.0), 1.0)
        maze.step(actions[t])
    terminals = np.zeros(rows, dtype=bool)
    terminals[-1] = True
    return {
        "observations": observations,
        "achieved_goals": observations[:, :2].copy(),
        "actions": actions,
        "terminals": terminals,
    }
