"""The behaviour that made OGBench's PointMaze datasets, played on the same physics without the Gym overhead.

The policy walks towards the centre of the next cell on a shortest path to its goal, with Gaussian noise. It knows the
maze's layout, exists to make data, and nothing that learns may import it.
"""

from __future__ import annotations

from functools import cache
from math import hypot

import mujoco
import numpy as np

from zoo.data.maze import Maze

CONTACT_MARGIN = 1e-3  # slack around the ball, far above rounding, far below a step


class PointMaze(Maze):
    """
    One OGBench PointMaze: a ball that is put somewhere and pushed out of the walls.

    :param name: one of ``medium``, ``large``, ``giant``, ``teleport``
    """

    def __init__(self, name: str):
        super().__init__(f"pointmaze-{name}-v0")
        self._free_rows: list[list[bool]] = self.free.tolist()  # plain lists: read four times a step
        self._ball_radius: float = float(self.model.geom("pointbody").size[0]) + CONTACT_MARGIN

    def may_touch_wall(self, x: float, y: float) -> bool:
        """Whether the square around the ball overlaps a wall; a ball smaller than a cell is tested by its corners."""
        free, r = self._free_rows, self._ball_radius
        (i0, j0), (i1, j1) = self.cell(x - r, y - r), self.cell(x + r, y + r)
        return not (free[i0][j0] and free[i0][j1] and free[i1][j0] and free[i1][j1])

    def reset(self) -> None:
        """Forget the last episode's contacts."""
        mujoco.mj_resetData(self.model, self.data)

    def settle(self, x: float, y: float) -> tuple[float, float, float, float]:
        """
        Let the physics push the ball out of the walls, after it was put at a position at rest.

        A ball that touches no wall stays where it is, so MuJoCo is asked only near walls: about one step in a
        hundred, with the same result.

        :param x: position before
        :param y: position before
        :return: position and velocity after
        """
        data = self.data
        if not self.may_touch_wall(x, y):
            data.qacc_warmstart[:] = 0.0  # what a step in the open leaves behind for the contact solver
            return x, y, 0.0, 0.0
        data.qpos[:] = x, y
        data.qvel[:] = 0.0
        mujoco.mj_step(self.model, data, nstep=self.frame_skip)
        return (*data.qpos.tolist(), *data.qvel.tolist())


@cache
def get_maze(name: str) -> PointMaze:
    """Build a maze once a process; compiling its MuJoCo model takes longer than an episode."""
    return PointMaze(name)


def play(dataset_id: str, rows: int, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Play one episode of a dataset, see :func:`rollout`."""
    _, name, kind, _ = dataset_id.split("-")
    return rollout(get_maze(name), kind, rows, noise, rng)


def rollout(maze: PointMaze, kind: str, rows: int, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """
    Play one episode of the behaviour policy.

    :param maze: the maze to play in
    :param kind: ``navigate`` (a new goal whenever one is reached) or ``stitch`` (one goal, a few cells away)
    :param rows: length of the episode in rows, one more than its transitions
    :param noise: standard deviation of the Gaussian noise on each axis of the action
    :param rng: source of every random number of the episode
    :return: the rows of the episode under the official file's keys
    """
    start, x, y = maze.random_point(maze.free_cells, rng)
    goals = maze.goal_cells if kind == "navigate" else maze.stitch_goals(start)
    goal, goal_x, goal_y = maze.random_point(goals, rng)
    noises = rng.normal(0.0, noise, size=(rows, 2)).tolist()

    maze.reset()
    seen_x, seen_y = x, y  # differs from the position only right after a jump
    vx = vy = 0.0
    observations, actions, positions, velocities = np.empty((4, rows, 2), dtype=np.float32)
    for t in range(rows):
        observations[t] = seen_x, seen_y
        positions[t] = x, y
        velocities[t] = vx, vy
        target_x, target_y = maze.next_centre(maze.cell(x, y), goal)
        dx, dy = target_x - x, target_y - y
        length = hypot(dx, dy) + 1e-6
        noise_x, noise_y = noises[t]
        action = actions[t]
        action[0] = min(max(dx / length + noise_x, -1.0), 1.0)
        action[1] = min(max(dy / length + noise_y, -1.0), 1.0)
        # From the stored float32 action, as the environment does it: the file replays to the same states.
        move_x, move_y = (0.2 * action).tolist()
        x, y, vx, vy = maze.settle(x + move_x, y + move_y)
        seen_x, seen_y = x, y
        if kind == "navigate" and hypot(x - goal_x, y - goal_y) <= maze.goal_tolerance:
            goal, goal_x, goal_y = maze.random_point(goals, rng)
        x, y = maze.exit_of_portal(x, y, rng) or (x, y)
    terminals = np.zeros(rows, dtype=bool)
    terminals[-1] = True
    return {
        "observations": observations,
        "actions": actions,
        "terminals": terminals,
        "qpos": positions,
        "qvel": velocities,
    }
