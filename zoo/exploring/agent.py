"""An agent that is explored: its map, its world, and navigators that know what each visitor has blocked."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zoo.exploring.views import MapView
from zoo.figures.maze_geometry import MazeGeometry

if TYPE_CHECKING:
    from proq_agent.planning.navigator import Navigator
    from wrappers.goal_dict import GoalDict

MAX_NAVIGATORS, MAX_VIEWS = 32, 6  # kept for the next question about the same blocks or the same plane


class Block(NamedTuple):
    """A part of the map that is closed: an interval of each of two coordinates, all of the others."""

    axes: tuple[int, int]
    low: tuple[float, float]
    high: tuple[float, float]

    def box(self, goal_dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Its corners in goal space."""
        low, high = np.full(goal_dim, -np.inf), np.full(goal_dim, np.inf)
        low[list(self.axes)[:goal_dim]] = self.low[:goal_dim]
        high[list(self.axes)[:goal_dim]] = self.high[:goal_dim]
        return low, high


class ExploredAgent:
    """
    A trained agent in its world. Visitors share it: nothing that one asks for changes what another gets.

    :param name: unique among those that are offered
    :param model: the agent
    :param env: where it acts; None where there is no environment to be had
    :param make_env: makes another, for visitors at the same time
    :param load_data: ``[n, goal_dim]`` achieved goals of the data that it learned from
    :raises ValueError: if it has no map
    """

    def __init__(
        self,
        name: str,
        model: Any,
        env: GoalDict | None,
        make_env: Callable[[], GoalDict],
        load_data: Callable[[], np.ndarray],
    ) -> None:
        self.name, self.model, self.has_env = name, model, env is not None
        self._make_env, self._load_data = make_env, load_data
        self._lock = threading.Lock()
        self._idle: list[GoalDict] = [env] if env else []
        #: The map in the plane of two goal dimensions.
        self.view: Callable[[tuple[int, int]], MapView] = lru_cache(MAX_VIEWS)(self._view)
        #: Plans around these blocks, on a planner of its own: the agent's is never changed.
        self.navigator: Callable[[tuple[Block, ...]], Navigator] = lru_cache(MAX_NAVIGATORS)(self._navigator)
        self.goal_dim = self.view((0, 1)).learned.goal_dim

    @contextmanager
    def env(self) -> Iterator[GoalDict]:
        """
        An environment that nobody else uses meanwhile.

        :raises ValueError: if there is none
        """
        if not self.has_env:
            raise ValueError(f"nothing tells in which world {self.name} acts; start with --env ID")
        with self._lock:
            env = self._idle.pop() if self._idle else None
        env = env or self._make_env()
        try:
            yield env
        finally:
            with self._lock:
                self._idle.append(env)

    @cached_property
    def maze(self) -> MazeGeometry | None:
        """What can be drawn of the world; plans know nothing of it."""
        if not self.has_env:
            return None
        with self.env() as env:
            return MazeGeometry.of_env(env)

    @cached_property
    def data(self) -> np.ndarray:
        """``[n, goal_dim]`` where the data have been."""
        return self._load_data()

    def _view(self, axes: tuple[int, int]) -> MapView:
        return MapView(self.model, axes, self.maze)

    def _navigator(self, blocks: tuple[Block, ...]) -> Navigator:
        if not blocks:
            return self.model.navigator.fork()
        navigator = self.navigator(blocks[:-1]).fork()
        navigator.planner = copy.copy(navigator.planner)  # what is closed there stays there
        navigator.planner.block(box=blocks[-1].box(self.goal_dim))
        return navigator

    def close(self) -> None:
        """Close every environment that is not in use."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()
