"""The layout of a maze, for pictures of what was learned and for the length of the shortest walk.

Nothing that learns or acts may import this module: ProQ sees trajectories only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import gymnasium as gym
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import KDTree

NODES_PER_STEP = 2  # resolution of the grid that walks are measured on


@dataclass(frozen=True, eq=False)
class MazeGeometry:
    """
    Square cells, walls among them.

    :param walls: ``[rows, columns]``, true where a cell is wall
    :param unit: side of a cell
    :param first: x and y of the centre of the cell in row 0, column 0
    :param row_step: by how much y grows from one row to the next, ``unit`` or ``-unit``
    :param step: the farthest that the agent moves in a step along each axis; None if it has inertia or legs
    :param radius: of the agent
    :param tolerance: distance from the goal that counts as success
    :param entrances: x and y of each portal's centre
    :param exits: where they lead
    :param portal_reach: distance from an entrance at which the agent is taken away
    """

    walls: np.ndarray
    unit: float
    first: tuple[float, float]
    row_step: float
    step: float | None = None
    radius: float = 0.0
    tolerance: float = 0.0
    entrances: tuple[tuple[float, float], ...] = ()
    exits: tuple[tuple[float, float], ...] = ()
    portal_reach: float = 0.0

    @classmethod
    def of_env(cls, env: gym.Env) -> MazeGeometry | None:
        """
        Read the layout from an environment of OGBench or Gymnasium-Robotics.

        :param env: wrapped or not
        :return: None if it is no maze
        """
        base: Any = env.unwrapped
        if hasattr(base, "maze_map"):  # OGBench
            portals = base._teleport_info or {}
            names = {base.model.geom(i).name for i in range(base.model.ngeom)}
            is_point = "pointbody" in names
            return cls(
                walls=np.asarray(base.maze_map) == 1,
                unit=float(base._maze_unit),
                first=(-float(base._offset_x), -float(base._offset_y)),
                row_step=float(base._maze_unit),
                step=0.2 if is_point else None,
                radius=float(base.model.geom("pointbody").size[0]) if is_point else 0.0,
                tolerance=float(base._goal_tol),
                entrances=tuple(portals.get("teleport_in_xys", ())),
                exits=tuple(portals.get("teleport_out_xys", ())),
                portal_reach=1.5 * portals.get("teleport_radius", 0.0),
            )
        if hasattr(base, "maze"):  # Gymnasium-Robotics; its maps also hold letters that mark starts and goals
            x, y = base.maze.cell_rowcol_to_xy(np.zeros(2, dtype=int))
            unit = float(base.maze.maze_size_scaling)
            walls = np.array([[cell == 1 for cell in row] for row in base.maze.maze_map])
            return cls(walls=walls, unit=unit, first=(float(x), float(y)), row_step=-unit)
        if hasattr(base, "layout"):  # ours; its doors and belts are not walls, so that walks are not measured
            walls = np.array([[tile == "#" for tile in row] for row in base.layout.rows])
            unit = base.layout.unit
            return cls(walls=walls, unit=unit, first=(-unit, -unit), row_step=unit)
        return None

    @classmethod
    def of_spare_env(cls, env: gym.Env | None) -> MazeGeometry | None:
        """
        The layout of an environment that was made for this alone, and is closed.

        :param env: None where there is none to be had
        :return: None if it is no maze
        """
        if env is None:
            return None
        try:
            return cls.of_env(env)
        finally:
            env.close()

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top of the maze, its outer walls included."""
        rows, columns = self.walls.shape
        half = self.unit / 2
        x = (self.first[0] - half, self.first[0] + (columns - 1) * self.unit + half)
        ends = (self.first[1], self.first[1] + (rows - 1) * self.row_step)
        return x[0], x[1], min(ends) - half, max(ends) + half

    def wall_centres(self) -> np.ndarray:
        """``[n, 2]`` centres of the wall cells."""
        rows, columns = np.nonzero(self.walls)
        return np.stack([self.first[0] + columns * self.unit, self.first[1] + rows * self.row_step], axis=1)

    def outline(self) -> np.ndarray:
        """``[n, 2, 2]`` segments between free cells and walls."""
        segments = []
        for axis in (0, 1):
            line, place = np.nonzero(np.diff(self.walls.astype(np.int8), axis=axis))
            offset = np.array([[0.5, -0.5], [0.5, 0.5]]) if axis == 0 else np.array([[-0.5, 0.5], [0.5, 0.5]])
            cells = np.stack([line, place], axis=1)[:, None] + offset  # rows and columns of both ends
            segments.append(cells)
        ends = np.concatenate(segments)
        return np.stack([self.first[0] + ends[..., 1] * self.unit, self.first[1] + ends[..., 0] * self.row_step], -1)

    def fits(self, points: np.ndarray) -> np.ndarray:
        """
        Where the agent's centre can be: it touches neither wall nor portal.

        :param points: ``[..., 2]``
        :return: ``[...]``, true or false
        """
        return self._is_free(points[..., 0], points[..., 1], self.radius)

    def shortest_steps(self, start: np.ndarray, goal: np.ndarray) -> float | None:
        """
        About how many steps the best possible agent needs until it is close enough to the goal, see :meth:`walks`.

        :param start: x and y
        :param goal: x and y
        :return: None if the agent's moves are not known, inf if there is no way
        """
        if self.step is None:
            return None
        return float(self.walks(np.asarray(start)[None], goal, self.tolerance)[0])

    def walks(self, starts: np.ndarray, goal: np.ndarray, tolerance: float = 0.0) -> np.ndarray:
        """
        About how many steps the best possible agent needs: for reports only, no agent knows it.

        Measured on a grid finer than a step, over the places where the agent fits between the walls. Portals are
        obstacles: what chance may save is not counted.

        :param starts: ``[n, 2]``
        :param goal: x and y
        :param tolerance: so near is near enough; not less than the grid resolves
        :return: ``[n]``, inf where there is no way
        :raises ValueError: if the agent's moves are not known
        """
        if self.step is None:
            raise ValueError("how far this agent moves in a step is not known: its walks cannot be counted")
        nodes, graph = self._walkable
        spacing = self.step / NODES_PER_STEP
        goals = np.flatnonzero(np.hypot(*(nodes - goal).T) <= max(tolerance, spacing))
        steps = np.full(len(starts), np.inf)
        if len(goals):
            from_node = dijkstra(graph, directed=False, indices=goals, min_only=True)
            for i, beside in enumerate(self._tree.query_ball_point(starts, spacing * (1.0 + 1e-9), p=np.inf)):
                to_node = np.abs(nodes[beside] - starts[i]).max(axis=1) / self.step
                steps[i] = np.min(to_node + from_node[beside], initial=np.inf)
        return np.maximum(np.ceil(steps - 1e-6), 1.0)

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self._walkable[0])

    @cached_property
    def _walkable(self) -> tuple[np.ndarray, csr_array]:
        """Points ``[n, 2]`` of a grid where the agent's centre can be, and the moves between neighbours in steps."""
        assert self.step is not None
        spacing = self.step / NODES_PER_STEP
        left, right, bottom, top = self.bounds
        x, y = np.meshgrid(np.arange(left, right, spacing), np.arange(bottom, top, spacing))
        free = self._is_free(x, y, self.radius - spacing / 2)
        numbers = np.cumsum(free).reshape(free.shape) - 1
        edges = []
        for a, b in (  # with both axes free to move at once, a diagonal costs no more than a straight move
            (np.s_[:, :-1], np.s_[:, 1:]),
            (np.s_[:-1], np.s_[1:]),
            (np.s_[:-1, :-1], np.s_[1:, 1:]),
            (np.s_[:-1, 1:], np.s_[1:, :-1]),
        ):
            both = free[a] & free[b]
            edges.append(np.stack([numbers[a][both], numbers[b][both]]))
        sources, targets = np.concatenate(edges, axis=1)
        n_nodes = int(free.sum())
        costs = np.full(len(sources), 1.0 / NODES_PER_STEP)
        return np.stack([x[free], y[free]], axis=1), csr_array((costs, (sources, targets)), shape=(n_nodes, n_nodes))

    def _is_free(self, x: np.ndarray, y: np.ndarray, radius: float) -> np.ndarray:
        """Whether a disc, smaller than a cell, touches neither wall nor portal."""
        walls = np.pad(self.walls, 2, constant_values=True)
        row = np.rint((y - self.first[1]) / self.row_step).astype(int)
        column = np.rint((x - self.first[0]) / self.unit).astype(int)
        free = np.ones(x.shape, dtype=bool)
        for i, j in product((-1, 0, 1), repeat=2):
            dx = np.abs(x - self.first[0] - (column + j) * self.unit) - self.unit / 2
            dy = np.abs(y - self.first[1] - (row + i) * self.row_step) - self.unit / 2
            is_near = np.hypot(np.maximum(dx, 0.0), np.maximum(dy, 0.0)) < radius
            free &= ~(is_near & walls[row + i + 2, column + j + 2])
        for portal_x, portal_y in self.entrances:
            free &= np.hypot(x - portal_x, y - portal_y) > self.portal_reach
        return free
