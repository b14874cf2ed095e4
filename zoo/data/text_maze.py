"""
A walker in mazes with one-way doors and belts: towards the next cell on the quickest way to its goal, with noise.

It knows the maze's layout, exists to make data, and nothing that learns may import it.
"""

from __future__ import annotations

from functools import cache
from math import hypot
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from zoo.data.tasks import make_task_env
from zoo.worlds.text_maze import BELT_SPEED, RADIUS, STEP, UNIT, Cell, Layout

VARIANTS, DETOUR = 10, 1.3  # of the ways, and how much longer they may be
# Goals in corners are in the data too: walkers come closer than the environment asks for, and often stay in the cell.
ARRIVED, STAY = 0.4, 0.75
SPREAD = UNIT / 2 - RADIUS  # how far from a cell's centre the ball can be in a corridor


class Routes:
    """
    The quickest ways from each cell to each. In the open there are many that hardly differ, of which each variant takes
    others.

    :param layout: of the maze
    """

    def __init__(self, layout: Layout) -> None:
        self.layout, self.cells = layout, layout.open_cells
        self.numbers = {cell: number for number, cell in enumerate(self.cells)}
        ways = {
            (self.numbers[other], self.numbers[cell]): self._steps(cell, other)  # from end to start
            for cell in self.cells
            for other in self._beside(cell)
            if layout.may_pass(cell, other)
        }
        places = tuple(zip(*ways, strict=True))
        rng = np.random.default_rng(0)
        variants = []
        for _ in range(VARIANTS):
            costs = np.array(list(ways.values())) * rng.uniform(1.0, DETOUR, len(ways))
            graph: Any = csr_array((costs, places), shape=(len(self.cells),) * 2)
            steps, following = dijkstra(graph, return_predecessors=True)  # [goal, cell]
            variants.append(np.where(following < 0, np.arange(len(self.cells)), following))
        self.next_cell = np.array(variants)  # [variant, goal, cell]
        floor = np.array([self.numbers[cell] for cell in layout.floor])
        self.goals = [floor[np.isfinite(steps[floor, cell])] for cell in range(len(self.cells))]

    @staticmethod
    def _beside(cell: Cell) -> tuple[Cell, ...]:
        i, j = cell
        return (i - 1, j), (i, j - 1), (i + 1, j), (i, j + 1)

    def _steps(self, start: Cell, end: Cell) -> float:
        """From centre to centre; half of the way lies in each of the cells."""
        way = end[1] - start[1], end[0] - start[0]
        speeds = (STEP + BELT_SPEED * float(np.dot(way, self.layout.belt(cell))) for cell in (start, end))
        return sum(UNIT / 2 / speed for speed in speeds)


class Walk:
    """
    Where a walker wants to go: to a place in a cell, on ways that are as far off the cells' centres all along.

    :param routes: through the maze
    :param cell: number of the cell that the walk starts in
    :param rng: source of randomness
    """

    def __init__(self, routes: Routes, cell: int, rng: np.random.Generator) -> None:
        self.routes = routes
        stays = rng.uniform() < STAY and cell in routes.goals[cell]
        self.goal = cell if stays else int(rng.choice(routes.goals[cell]))
        self.variant = int(rng.integers(VARIANTS))
        self.offset = rng.uniform(-SPREAD, SPREAD, size=2).tolist()
        self.place = self._place(self.goal)

    def _place(self, cell: int) -> tuple[float, float]:
        x, y = self.routes.layout.centre(self.routes.cells[cell])
        return x + self.offset[0], y + self.offset[1]

    def direction(self, cell: int, x: float, y: float) -> tuple[float, float]:
        """What the walker does in a place within a cell: a step ahead, and against a belt that carries it sideways."""
        following = int(self.routes.next_cell[self.variant, self.goal, cell])
        to_x, to_y = self._place(following)
        length = hypot(to_x - x, to_y - y) + 1e-6
        dx, dy = (to_x - x) / length, (to_y - y) / length
        (i, j), (k, m) = self.routes.cells[cell], self.routes.cells[following]
        belt_x, belt_y = self.routes.layout.belt((i, j))
        if belt_x * (m - j) + belt_y * (k - i) == 0:
            dx, dy = dx - belt_x * BELT_SPEED / STEP, dy - belt_y * BELT_SPEED / STEP
        return dx, dy


@cache
def get_routes(dataset_id: str) -> Routes:
    """Find the ways through a maze once a process."""
    env: Any = make_task_env(dataset_id).unwrapped
    return Routes(env.layout)


def play(dataset_id: str, rows: int, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """
    Play one episode: a new goal whenever one is reached.

    :param dataset_id: one of the mazes of :mod:`zoo.worlds`, or ``maze:<file with a layout>``
    :param rows: length of the episode in rows, one more than its transitions
    :param noise: standard deviation of the Gaussian noise on each axis of the action
    :param rng: source of every random number of the episode
    :return: ``observations``, ``actions``, ``terminals``
    """
    routes = get_routes(dataset_id)
    layout = routes.layout
    start = layout.floor[rng.integers(len(layout.floor))]
    # A start that the file can hold: its actions replay to the same states.
    x, y = (layout.centre(start) + rng.uniform(-SPREAD, SPREAD, size=2)).astype(np.float32).tolist()
    walk = Walk(routes, routes.numbers[start], rng)
    noises = rng.normal(0.0, noise, size=(rows, 2)).tolist()
    observations, actions = np.empty((2, rows, 2), dtype=np.float32)
    for t in range(rows):
        observations[t] = x, y
        cell = routes.numbers[layout.cell(x, y)]
        if hypot(walk.place[0] - x, walk.place[1] - y) <= ARRIVED or walk.goal not in routes.goals[cell]:
            walk = Walk(routes, cell, rng)
        dx, dy = walk.direction(cell, x, y)
        action = actions[t]
        action[0] = min(max(dx + noises[t][0], -1.0), 1.0)
        action[1] = min(max(dy + noises[t][1], -1.0), 1.0)
        move_x, move_y = (STEP * action).tolist()
        x, y = layout.move(x, y, move_x, move_y)
    return {"observations": observations, "actions": actions, "terminals": np.arange(rows) == rows - 1}
