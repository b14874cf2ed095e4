"""What the page may ask, checked: anything else is a ``ValueError`` that says what was wrong."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from zoo.exploring.agent import Block, ExploredAgent

MAX_BLOCKS = 20  # each makes plans a little slower
MAX_SEED = 2**31 - 1
MAX_TASK = 10**6


class Request:
    """
    A JSON object that somebody sent.

    :param body: as it came
    :raises ValueError: if it is no JSON object
    """

    def __init__(self, body: bytes) -> None:
        try:
            values = json.loads(body, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"this is no JSON: {str(error)[:100]}") from error
        if not isinstance(values, dict):
            raise ValueError("a JSON object is wanted")
        self._values = values

    def text(self, name: str) -> str:
        """A word."""
        value = self._values.get(name)
        if not isinstance(value, str):
            raise ValueError(f"{name} must be text")
        return value

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self._values.get(name)
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false")
        return value

    def number(self, name: str, low: float, high: float) -> float:
        """Within bounds."""
        return _number(self._values.get(name), name, low, high)

    def whole(self, name: str, low: int, high: int) -> int:
        """A whole number within bounds."""
        return _whole(self._values.get(name), name, low, high)

    def task(self) -> int | None:
        """A task's number, if there is one; the environment knows whether it exists."""
        return None if self._values.get("task") is None else self.whole("task", 0, MAX_TASK)

    def axes(self, agent: ExploredAgent) -> tuple[int, int]:
        """The two goal dimensions to look at, the first ones by default."""
        return _axes(self._values.get("axes", [0, 1]), agent.goal_dim)

    def point(self, name: str, agent: ExploredAgent) -> np.ndarray:
        """
        ``[goal_dim]`` a place on the map or not far from it.

        In the page's plane it has two coordinates, and the others are those of the nearest keypoint.
        """
        values = self._values.get(name)
        learned = agent.view(self.axes(agent)).learned
        if not isinstance(values, list) or len(values) not in (2, agent.goal_dim):
            raise ValueError(f"{name} must be a list of 2 or {agent.goal_dim} numbers")
        axes = learned.axes if len(values) != agent.goal_dim else range(agent.goal_dim)
        low, high = learned.corners
        margin = np.maximum(high - low, 1e-3).max()
        numbers = []
        for axis, value in zip(axes, values, strict=True):
            known = axis if axis < agent.goal_dim else 0
            numbers.append(_number(value, name, low[known] - margin, high[known] + margin))
        return learned.to_goals(np.array(numbers))[0]

    def blocks(self, agent: ExploredAgent) -> tuple[Block, ...]:
        """Closed parts of the map, none by default."""
        values = self._values.get("blocks", [])
        if not isinstance(values, list) or len(values) > MAX_BLOCKS:
            raise ValueError(f"blocks must be a list of at most {MAX_BLOCKS}")
        return tuple(_block(value, agent.goal_dim) for value in values)


def _block(value: Any, goal_dim: int) -> Block:
    if not isinstance(value, list) or len(value) != 6:
        raise ValueError("a block must be a list of 6 numbers: two goal dimensions, x and y of two corners")
    axes = _axes(value[:2], goal_dim)
    x0, y0, x1, y1 = (_number(part, "a block's corner", -1e6, 1e6) for part in value[2:])
    return Block(axes, (min(x0, x1), min(y0, y1)), (max(x0, x1), max(y0, y1)))


def _axes(value: Any, goal_dim: int) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("axes must be two goal dimensions")
    if goal_dim <= 2:  # there is only one plane to look at
        return 0, 1
    first, second = (_whole(axis, "a goal dimension", 0, goal_dim - 1) for axis in value)
    if first == second:
        raise ValueError("axes must be two different goal dimensions")
    return first, second


def _number(value: Any, name: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be made of finite numbers")
    if not low <= value <= high:
        raise ValueError(f"{name} must lie within {low:g} and {high:g}, got {value:g}")
    return float(value)


def _whole(value: Any, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number")
    if not low <= value <= high:
        raise ValueError(f"{name} must lie within {low} and {high}")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")
