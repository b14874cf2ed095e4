"""
PointMaze with layouts as text, with doors that open one way and conveyor belts.

A layout is a text file of equally long lines, one character a cell::

    #         wall
    .         floor
    > < ^ v   a door between two walls, to be passed in this direction alone
    → ← ↑ ↓   a belt that carries the ball in this direction

After an empty line there may be numbered tasks, one a line: the start's row and column, the goal's row and column
(``1,1 7,5``). Without any, starts and goals are drawn among the floor's cells.

Only what makes data and what makes the environment read a layout; nothing that learns may import this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Cell = tuple[int, int]

LAYOUTS = Path(__file__).parents[1] / "data" / "layouts"
# As in OGBench's PointMaze.
UNIT, RADIUS, STEP, TOLERANCE, NOISE = 4.0, 0.7, 0.2, 1.0, 1.0
BELT_SPEED = 0.1  # half of what the ball can do by itself
DOORS = {">": (1, 0), "<": (-1, 0), "v": (0, 1), "^": (0, -1)}  # x and y; y grows from line to line
BELTS = {"→": (1, 0), "←": (-1, 0), "↓": (0, 1), "↑": (0, -1)}


@dataclass(frozen=True)
class Layout:
    """
    Cells, what moves through them, and tasks.

    :param rows: one string a row of cells
    :param tasks: start and goal of each
    """

    unit: ClassVar[float] = UNIT
    rows: tuple[str, ...]
    tasks: tuple[tuple[Cell, Cell], ...] = ()

    def __post_init__(self) -> None:
        known = "#." + "".join(DOORS) + "".join(BELTS)
        for i, row in enumerate(self.rows):
            if len(row) != len(self.rows[0]):
                raise ValueError(f"line {i + 1} of the maze has {len(row)} cells, the first has {len(self.rows[0])}")
            for tile in set(row) - set(known):
                raise ValueError(f"line {i + 1} of the maze has an unknown cell {tile!r}; known are {' '.join(known)}")
        if len(self.floor) < 2:
            raise ValueError("a maze needs two cells of floor at least")
        if set(self.rows[0] + self.rows[-1] + "".join(row[0] + row[-1] for row in self.rows)) != {"#"}:
            raise ValueError("the outermost cells of a maze must be walls")
        for i, j in self.open_cells:
            dx, dy = DOORS.get(self.rows[i][j], (0, 0))
            if (dx or dy) and not self.rows[i + dx][j + dy] == self.rows[i - dx][j - dy] == "#":
                raise ValueError(f"the door in line {i + 1}, column {j + 1} must have walls on both sides")
        for number, cells in enumerate(self.tasks, 1):
            for i, j in cells:
                if (i, j) not in self.floor:
                    raise ValueError(f"task {number} of the maze has {i},{j}, which is not floor")

    @classmethod
    def read(cls, layout: str | Path) -> Layout:
        """
        Read a layout.

        :param layout: a file, or the name of one that comes with the package
        :raises ValueError: naming what is wrong with it
        """
        path = LAYOUTS / f"{layout}.txt"
        path = path if path.is_file() else Path(layout).expanduser()
        try:
            cells, _, tasks = path.read_text(encoding="utf-8").strip().partition("\n\n")
            numbers = [[tuple(map(int, cell.split(","))) for cell in line.split()] for line in tasks.splitlines()]
            if any(len(task) != 2 or any(len(cell) != 2 for cell in task) for task in numbers):
                raise ValueError("a task is a line like 1,1 7,5: row and column of its start, then of its goal")
            return cls(tuple(cells.split()), tuple((start, goal) for start, goal in numbers))  # type: ignore[misc]
        except OSError as error:
            raise ValueError(f"there is no file {path} with the layout of a maze") from error
        except ValueError as error:
            raise ValueError(f"{path} is no layout of a maze: {error}") from error

    @cached_property
    def open_cells(self) -> tuple[Cell, ...]:
        """All cells but walls."""
        return tuple((i, j) for i, row in enumerate(self.rows) for j, tile in enumerate(row) if tile != "#")

    @cached_property
    def floor(self) -> tuple[Cell, ...]:
        """Where episodes start and end."""
        return tuple((i, j) for i, row in enumerate(self.rows) for j, tile in enumerate(row) if tile == ".")

    @staticmethod
    def centre(cell: Cell) -> tuple[float, float]:
        return (cell[1] - 1) * UNIT, (cell[0] - 1) * UNIT

    @staticmethod
    def cell(x: float, y: float) -> Cell:
        return int(y / UNIT + 1.5), int(x / UNIT + 1.5)

    def belt(self, cell: Cell) -> tuple[int, int]:
        """The way in which a cell carries the ball."""
        return BELTS.get(self.rows[cell[0]][cell[1]], (0, 0))

    def may_pass(self, start: Cell, end: Cell) -> bool:
        """Whether there is a way from a cell to the one beside it."""
        (i, j), (k, m) = start, end
        tiles = self.rows[i][j], self.rows[k][m]
        return "#" not in tiles and all(DOORS.get(tile) != (j - m, i - k) for tile in tiles)

    def move(self, x: float, y: float, dx: float, dy: float) -> tuple[float, float]:
        """
        Move the ball, which is as wide as it is high, along one axis and then the other, up to what is in its way.

        :param x: where it is
        :param y: where it is
        :param dx: how far it wants to go, less than a cell
        :param dy: how far it wants to go, less than a cell
        """
        belt_x, belt_y = self.belt(self.cell(x, y))
        x = self._slide(x, y, dx + BELT_SPEED * belt_x, 0)
        return x, self._slide(y, x, dy + BELT_SPEED * belt_y, 1)

    def _slide(self, along: float, across: float, distance: float, axis: int) -> float:
        if distance == 0.0:
            return along
        sign = 1 if distance > 0.0 else -1
        line, new_line = (int((along + sign * RADIUS + d) / UNIT + 1.5) for d in (0.0, distance))
        margin = RADIUS - 1e-6  # walls beside the ball are not in its way
        for side in {int((across - margin) / UNIT + 1.5), int((across + margin) / UNIT + 1.5)}:
            here, there = (self.rows[side][k] if axis == 0 else self.rows[k][side] for k in (line, new_line))
            if DOORS.get(here, (0, 0))[axis] == -sign:
                return along
            if there == "#" or DOORS.get(there, (0, 0))[axis] == -sign:
                return (new_line - 1 - sign / 2) * UNIT - sign * (RADIUS + 1e-9)
        return along + distance


class TextMaze(gym.Env):
    """
    Move a ball through a maze to a place. ``reset`` takes two options, ``start`` and ``goal``: x and y.

    :param layout: file of the layout, or the name of one that comes with the package
    """

    def __init__(self, layout: str | Path) -> None:
        self.layout = Layout.read(layout)
        self.num_tasks = len(self.layout.tasks)
        corner = UNIT * np.array([len(self.layout.rows[0]) - 1.5, len(self.layout.rows) - 1.5], dtype=np.float32)
        box = spaces.Box(np.full(2, -UNIT / 2, dtype=np.float32), corner, dtype=np.float32)
        self.observation_space = spaces.Dict(observation=box, achieved_goal=box, desired_goal=box)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    @cached_property
    def _goals_from(self) -> dict[Cell, list[Cell]]:
        """The floor that can be walked to from each cell of the floor."""
        ways = {}
        for start in self.layout.floor:
            seen = [start]
            for i, j in seen:  # grows while it is read
                beside = ((i - 1, j), (i, j - 1), (i + 1, j), (i, j + 1))
                seen += [cell for cell in beside if cell not in seen and self.layout.may_pass((i, j), cell)]
            ways[start] = [cell for cell in self.layout.floor if cell in seen[1:]]
        return ways

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        task = (options or {}).get("task_id")
        if task is not None:
            start, goal = self.layout.tasks[task - 1]
        else:
            starts = [cell for cell, goals in self._goals_from.items() if goals]
            start = starts[self.np_random.integers(len(starts))]
            goal = self._goals_from[start][self.np_random.integers(len(self._goals_from[start]))]
        chosen = {name: options[name] for name in ("start", "goal") if options and name in options}
        x, y = chosen.get("start", self._near(start))
        self._position = float(x), float(y)
        self._goal = np.array(chosen.get("goal", self._near(goal)), dtype=np.float32)
        return self._observation(), {"is_success": False}

    def _near(self, cell: Cell) -> tuple[float, float]:
        x, y = self.layout.centre(cell) + self.np_random.uniform(-NOISE, NOISE, 2)
        return float(x), float(y)

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        dx, dy = (STEP * np.clip(action, -1.0, 1.0)).tolist()
        self._position = self.layout.move(*self._position, dx, dy)
        observation = self._observation()
        success = bool(self.compute_reward(observation["achieved_goal"], self._goal, {}))
        return observation, float(success), success, False, {"is_success": success}

    def _observation(self) -> dict[str, np.ndarray]:
        position = np.array(self._position, dtype=np.float32)
        return {"observation": position, "achieved_goal": position.copy(), "desired_goal": self._goal.copy()}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> Any:
        """One within a distance of the goal, else zero; for one goal or a batch of them."""
        apart = np.linalg.norm(np.asarray(achieved_goal) - np.asarray(desired_goal), axis=-1)
        return (apart <= TOLERANCE).astype(np.float64)
