"""The behaviour that made OGBench's PointMaze datasets, played on the same physics without the Gym overhead.

The policy walks towards the centre of the next cell on a shortest path to its goal, with Gaussian noise. This is
the only module that knows the maze's layout; it exists to make data, and nothing that learns may import it.
"""

from __future__ import annotations

from functools import cache
from math import hypot
from typing import Any

import gymnasium
import mujoco
import numpy as np
import ogbench  # noqa: F401  (registers the environments)

Cell = tuple[int, int]

STITCH_CELLS = 4  # path length, in cells, from the start of a stitch episode to its goal
CONTACT_MARGIN = 1e-3  # slack around the ball, far above rounding, far below a step


class PointMaze:
    """
    One OGBench PointMaze: its physics, its layout and the tables that the behaviour reads.

    :param name: one of ``medium``, ``large``, ``giant``, ``teleport``
    """

    def __init__(self, name: str):
        env: Any = gymnasium.make(f"pointmaze-{name}-v0").unwrapped
        self.model, self.data = env.model, env.data
        self.frame_skip: int = env.frame_skip
        self.unit: float = env._maze_unit
        self.offset: float = env._offset_x
        self.goal_tolerance: float = env._goal_tol
        portals = env._teleport_info or {"teleport_in_xys": [], "teleport_out_xys": [], "teleport_radius": 0.0}
        self.entrances: list[tuple[float, float]] = portals["teleport_in_xys"]
        self.exits: list[tuple[float, float]] = portals["teleport_out_xys"]
        self.portal_reach: float = 1.5 * portals["teleport_radius"]
        self.free: np.ndarray = env.maze_map == 0
        self._free_rows: list[list[bool]] = self.free.tolist()  # plain lists: read four times a step
        self._ball_radius: float = float(self.model.geom("pointbody").size[0]) + CONTACT_MARGIN
        self.free_cells: list[Cell] = [(int(i), int(j)) for i, j in np.argwhere(self.free)]
        self.goal_cells = [cell for cell in self.free_cells if not self._is_corridor(cell)]
        self._distances = {goal: self._distances_to(goal) for goal in self.free_cells}
        self._next_centre: dict[tuple[Cell, Cell], tuple[float, float]] = {}

    def centre(self, cell: Cell) -> tuple[float, float]:
        return cell[1] * self.unit - self.offset, cell[0] * self.unit - self.offset

    def cell(self, x: float, y: float) -> Cell:
        shift = self.offset + 0.5 * self.unit
        return int((y + shift) / self.unit), int((x + shift) / self.unit)

    def may_touch_wall(self, x: float, y: float) -> bool:
        """Whether the square around the ball overlaps a wall; a ball smaller than a cell is tested by its corners."""
        free, r = self._free_rows, self._ball_radius
        (i0, j0), (i1, j1) = self.cell(x - r, y - r), self.cell(x + r, y + r)
        return not (free[i0][j0] and free[i0][j1] and free[i1][j0] and free[i1][j1])

    def neighbours(self, cell: Cell) -> list[Cell]:
        """The free cells beside a cell, in the order in which OGBench's planner breaks ties."""
        i, j = cell
        return [c for c in ((i - 1, j), (i, j - 1), (i + 1, j), (i, j + 1)) if self.free[c]]

    def next_centre(self, cell: Cell, goal: Cell) -> tuple[float, float]:
        """
        Centre of the cell to walk to: the next on a shortest path, or the own cell at, or cut off from, the goal.

        :param cell: where the agent is
        :param goal: the goal's cell
        """
        key = (cell, goal)
        if key not in self._next_centre:
            distances = self._distances[goal]
            best = cell
            if cell in distances:
                best = min((cell, *self.neighbours(cell)), key=distances.__getitem__)
            self._next_centre[key] = self.centre(best)
        return self._next_centre[key]

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

    def stitch_goals(self, start: Cell) -> list[Cell]:
        """Cells at the path length of a stitch episode; the start itself where there is none."""
        distances = self._distances[start]
        return [cell for cell in self.free_cells if distances.get(cell) == STITCH_CELLS] or [start]

    def _is_corridor(self, cell: Cell) -> bool:
        i, j = cell
        vertical = (bool(self.free[i - 1, j]), bool(self.free[i + 1, j]))
        horizontal = (bool(self.free[i, j - 1]), bool(self.free[i, j + 1]))
        return (vertical, horizontal) in (((True, True), (False, False)), ((False, False), (True, True)))

    def _distances_to(self, goal: Cell) -> dict[Cell, int]:
        distances = {goal: 0}
        queue = [goal]
        for cell in queue:  # grows while it is read: breadth first
            for neighbour in self.neighbours(cell):
                if neighbour not in distances:
                    distances[neighbour] = distances[cell] + 1
                    queue.append(neighbour)
        return distances


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

    def random_point(cells: list[Cell]) -> tuple[Cell, float, float]:
        cell = cells[rng.integers(len(cells))]
        x, y = maze.centre(cell)
        dx, dy = rng.uniform(-1.0, 1.0, size=2) * maze.unit / 4
        return cell, float(np.float32(x + dx)), float(np.float32(y + dy))  # a start that the file can hold

    start, x, y = random_point(maze.free_cells)
    goals = maze.goal_cells if kind == "navigate" else maze.stitch_goals(start)
    goal, goal_x, goal_y = random_point(goals)
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
            goal, goal_x, goal_y = random_point(goals)
        if any(hypot(x - in_x, y - in_y) <= maze.portal_reach for in_x, in_y in maze.entrances):
            x, y = maze.exits[rng.integers(len(maze.exits))]
    terminals = np.zeros(rows, dtype=bool)
    terminals[-1] = True
    return {
        "observations": observations,
        "actions": actions,
        "terminals": terminals,
        "qpos": positions,
        "qvel": velocities,
    }
