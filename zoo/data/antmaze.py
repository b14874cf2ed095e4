"""The behaviour that made OGBench's AntMaze datasets, played on the same physics without the Gym overhead.

A walker that was trained to move in any direction (:mod:`zoo.data.ant`) is told to walk to the centre of the next cell
on a shortest path to its goal, or in random directions, and its actions get Gaussian noise. It knows the maze's layout,
exists to make data, and nothing that learns may import it.
"""

from __future__ import annotations

from functools import cache
from math import hypot

import mujoco
import numpy as np

from zoo.data.ant import ACTION_DIM, Walker
from zoo.data.maze import Maze

EXPLORE_STEPS = 10  # in which an exploring ant keeps its direction
RESET_NOISE = 0.1  # of the environment: half the range for positions, standard deviation for velocities


class AntMaze(Maze):
    """
    One OGBench AntMaze with a walker in it.

    :param name: one of ``medium``, ``large``, ``giant``, ``teleport``
    :param walker: moves the ant; the shipped one by default
    """

    def __init__(self, name: str, walker: Walker | None = None):
        super().__init__(f"antmaze-{name}-v0")
        self.walker = walker or Walker.load()

    def reset(self, x: float, y: float, rng: np.random.Generator) -> None:
        """
        Let an ant fall from a little height, as the environment does at the start of an episode.

        :param x: where it starts
        :param y: where it starts
        :param rng: source of the random pose
        """
        model, data = self.model, self.data
        mujoco.mj_resetData(model, data)
        # Rounded to what the file holds, from which the episode can be played once more.
        data.qpos[:] = (model.qpos0 + rng.uniform(-RESET_NOISE, RESET_NOISE, size=model.nq)).astype(np.float32)
        data.qvel[:] = (RESET_NOISE * rng.standard_normal(model.nv)).astype(np.float32)
        data.qpos[:2] = x, y

    def step(self, action: np.ndarray) -> None:
        """Exactly what the environment does to the ant in a step."""
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, nstep=self.frame_skip)


@cache
def get_maze(name: str) -> AntMaze:
    """Build a maze once a process; compiling its MuJoCo model takes longer than an episode."""
    return AntMaze(name)


def play(dataset_id: str, rows: int, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Play one episode of a dataset, see :func:`rollout`."""
    _, name, kind, _ = dataset_id.split("-")
    return rollout(get_maze(name), kind, rows, noise, rng)


def rollout(maze: AntMaze, kind: str, rows: int, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """
    Play one episode of the behaviour policy.

    :param maze: the maze to play in
    :param kind: ``navigate`` (a new goal whenever one is reached), ``stitch`` (one goal, a few cells away) or
        ``explore`` (a new random direction every few steps)
    :param rows: length of the episode in rows, one more than its transitions
    :param noise: standard deviation of the Gaussian noise on each axis of the action
    :param rng: source of every random number of the episode
    :return: the rows of the episode under the official file's keys
    """
    start, x, y = maze.random_point(maze.free_cells, rng)
    goals = maze.stitch_goals(start) if kind == "stitch" else maze.goal_cells
    goal, goal_x, goal_y = maze.random_point(goals, rng)
    maze.reset(x, y, rng)
    noises = rng.normal(0.0, noise, size=(rows, ACTION_DIM))

    data = maze.data
    direction = np.empty(2)
    positions, velocities = np.empty((rows, data.qpos.size)), np.empty((rows, data.qvel.size))
    observations = np.empty((rows, data.qpos.size + data.qvel.size), dtype=np.float32)
    actions = np.empty((rows, ACTION_DIM), dtype=np.float32)
    seen = np.concatenate((data.qpos, data.qvel))  # differs from the state only right after a jump
    for t in range(rows):
        observations[t], positions[t], velocities[t] = seen, data.qpos, data.qvel
        if kind != "explore":
            target_x, target_y = maze.next_centre(maze.cell(x, y), goal)
            length = hypot(target_x - x, target_y - y) + 1e-6
            direction[:] = (target_x - x) / length, (target_y - y) / length
        elif t % EXPLORE_STEPS == 0:
            direction[:] = rng.standard_normal(2)
            direction /= np.sqrt((direction**2).sum()) + 1e-6
        actions[t] = np.clip(maze.walker.act(data.qpos, data.qvel, direction) + noises[t], -1.0, 1.0)
        maze.step(actions[t])  # the stored float32 action: the file replays to the same states
        seen = np.concatenate((data.qpos, data.qvel))
        x, y = data.qpos[:2].tolist()
        if kind == "navigate" and hypot(x - goal_x, y - goal_y) <= maze.goal_tolerance:
            goal, goal_x, goal_y = maze.random_point(goals, rng)
        if (place := maze.exit_of_portal(x, y, rng)) is not None:
            x, y = place
            data.qpos[:2] = place  # the ant as it is, in another place
    terminals = np.zeros(rows, dtype=bool)
    terminals[-1] = True
    return {
        "observations": observations,
        "actions": actions,
        "terminals": terminals,
        "qpos": positions.astype(np.float32),
        "qvel": velocities.astype(np.float32),
    }
