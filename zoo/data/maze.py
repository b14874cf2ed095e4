"""The layout of OGBench's mazes and the shortest ways through them, for the behaviours that make data.

Only those behaviours may know a maze's layout: nothing that learns or acts may import this module.
"""

from __future__ import annotations

from math import hypot
from typing import Any

import gymnasium
import numpy as np
import ogbench  # noqa: F401  (registers the environments)

Cell = tuple[int, int]

STITCH_CELLS = 4  # path length, in cells, from the start of a stitch episode to its goal


class Maze:
    """
    One of OGBench's mazes, its physics and the tables that a behaviour reads.

    :param env_id: id of the environment, such as ``pointmaze-giant-v0``
    """

    def __init__(self, env_id: str):
        env: Any = gymnasium.make(env_id).unwrapped
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
        self.free_cells: list[Cell] = [(int(i), int(j)) for i, j in np.argwhere(self.free)]
        self.goal_cells = [cell for cell in self.free_cells if not self._is_corridor(cell)]
        self._distances = {goal: self._distances_to(goal) for goal in self.free_cells}
        self._next_centre: dict[tuple[Cell, Cell], tuple[float, float]] = {}

    def centre(self, cell: Cell) -> tuple[float, float]:
        return cell[1] * self.unit - self.offset, cell[0] * self.unit - self.offset

    def cell(self, x: float, y: float) -> Cell:
        shift = self.offset + 0.5 * self.unit
        return int((y + shift) / self.unit), int((x + shift) / self.unit)

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

    def stitch_goals(self, start: Cell) -> list[Cell]:
        """Cells at the path length of a stitch episode; the start itself where there is none."""
        distances = self._distances[start]
        return [cell for cell in self.free_cells if distances.get(cell) == STITCH_CELLS] or [start]

    def random_point(self, cells: list[Cell], rng: np.random.Generator) -> tuple[Cell, float, float]:
        """
        A place around the centre of a random cell.

        :param cells: to choose from
        :param rng: source of the random numbers
        :return: the cell and a position within a quarter of a cell on each axis, one that a file can hold
        """
        cell = cells[rng.integers(len(cells))]
        x, y = self.centre(cell)
        dx, dy = rng.uniform(-1.0, 1.0, size=2) * self.unit / 4
        return cell, float(np.float32(x + dx)), float(np.float32(y + dy))

    def exit_of_portal(self, x: float, y: float, rng: np.random.Generator) -> tuple[float, float] | None:
        """
        Where a portal takes an agent, one exit as likely as the other; None away from the entrances.

        :param x: position of the agent
        :param y: position of the agent
        :param rng: source of the random numbers
        """
        if any(hypot(x - in_x, y - in_y) <= self.portal_reach for in_x, in_y in self.entrances):
            return self.exits[rng.integers(len(self.exits))]
        return None

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
