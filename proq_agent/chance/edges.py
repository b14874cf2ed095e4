"""Chance edges: the places where chance decides, how often it does, and where it may take you."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_PLACES = 100  # entrances and exits together: each of them makes every plan slower


@dataclass(frozen=True, eq=False)
class ChanceEdge:
    """
    A region of goal space from which chance may take one to one of several exits.

    :param entrance: Centre of the region, ``[goal_dim]``.
    :param radius: Distance from the centre within which the observed jumps began; of a portal, 95 % of them.
    :param exits: Centres of the places where they ended, ``[n_exits, goal_dim]``, the likeliest first.
    :param probabilities: Observed frequency of each exit, ``[n_exits]``; they sum to one.
    :param count: Number of jumps behind these figures.
    :param rate: Share of the steps from the region that jump; where regions overlap, their rates add up.
    :param axes: If the region is a box, ``[goal_dim, goal_dim]``: where all of ``axes @ (goal - entrance)`` are within
        one; else it is a ball.
    :param step: How far a step of the data leads in each coordinate, ``[goal_dim]``, if known.
    :param pace: How far the agent gets on a step, by its way of acting, as a share of that; one before it has learned.
    """

    entrance: NDArray[np.float64]
    radius: float
    exits: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    count: int
    rate: float = 1.0
    axes: NDArray[np.float64] | None = None
    step: NDArray[np.float64] | None = None
    pace: float = 1.0

    @property
    def is_portal(self) -> bool:
        """Most steps jump: nobody can stand here, and the data hold hardly any way across."""
        return self.rate >= 0.5

    def contains(self, goals: NDArray[np.floating]) -> NDArray[np.bool_]:
        """
        :param goals: Points in goal space, ``[..., goal_dim]``.
        :return: Which of them lie in the region, ``[...]``.
        """
        return in_region(self.entrance, self.radius, self.axes, goals)

    def to_dict(self) -> dict[str, Any]:
        """:return: The edge as plain lists and numbers, fit for JSON."""
        return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ChanceEdge:
        """
        :param data: What :meth:`to_dict` returned; before rates were known, every step jumped.
        :return: The same edge.
        :raises ValueError: If it is no such edge.
        """
        edge = cls(
            entrance=np.asarray(data["entrance"], dtype=np.float64),
            radius=float(data["radius"]),
            exits=np.asarray(data["exits"], dtype=np.float64),
            probabilities=np.asarray(data["probabilities"], dtype=np.float64),
            count=int(data["count"]),
            rate=float(data.get("rate", 1.0)),
            axes=_array_or_none(data.get("axes")),
            step=_array_or_none(data.get("step")),
            pace=float(data.get("pace", 1.0)),
        )
        n = len(edge.probabilities)
        shapes = (edge.entrance.shape, edge.exits.shape, edge.probabilities.shape)
        if n == 0 or shapes != ((dim := edge.entrance.size,), (n, dim), (n,)):
            raise ValueError(f"a chance edge has arrays of shapes {shapes}, not [dim], [exits, dim] and [exits]")
        numbers = np.concatenate([edge.entrance, [edge.radius, edge.count], edge.exits.ravel(), edge.probabilities])
        certain = np.isclose(edge.probabilities.sum(), 1.0) and (edge.probabilities >= 0).all()
        if not np.isfinite(numbers).all() or edge.radius < 0 or not certain or edge.count < 1:
            raise ValueError("a chance edge has numbers that are not finite, or odds that do not add up to one")
        for name in ("rate", "pace"):
            if not 0.0 < getattr(edge, name) <= 1.0:
                raise ValueError(f"a chance edge has the {name} {getattr(edge, name)}")
        if edge.axes is not None and (edge.axes.shape != (dim, dim) or not np.isfinite(edge.axes).all()):
            raise ValueError(f"a chance edge has axes of shape {edge.axes.shape}, not [dim, dim]")
        if edge.step is not None and (
            edge.step.shape != (dim,) or not (np.isfinite(edge.step) & (edge.step >= 0)).all()
        ):
            raise ValueError("a chance edge has steps that are not lengths in each coordinate")
        return edge


def edges_from_dicts(data: list[dict[str, Any]], goal_dim: int) -> list[ChanceEdge]:
    """
    :param data: What :meth:`ChanceEdge.to_dict` returned, of several edges.
    :param goal_dim: Dimension of goal space.
    :return: The same edges.
    :raises ValueError: If they are no such edges, of another space, or more than a plan can take into account.
    """
    edges = [ChanceEdge.from_dict(edge) for edge in data]
    if any(len(edge.entrance) != goal_dim for edge in edges):
        raise ValueError(f"a chance edge is not of a goal space with {goal_dim} dimensions")
    exits = np.concatenate([edge.exits for edge in edges]) if edges else np.empty((0, goal_dim))
    places = len(edges) + len(np.unique(exits, axis=0))  # regions may lead to the same ones
    if places > MAX_PLACES:
        raise ValueError(f"chance edges with {places} entrances and exits, more than {MAX_PLACES}")
    return edges


def _array_or_none(values: list[Any] | None) -> NDArray[np.float64] | None:
    return None if values is None else np.asarray(values, dtype=np.float64)


def in_region(
    centre: NDArray[np.floating], radius: float, axes: NDArray[np.floating] | None, points: NDArray[np.floating]
) -> NDArray[np.bool_]:
    """``[...]`` which points ``[..., goal_dim]`` lie in a ball or, with axes, in a box; see :class:`ChanceEdge`."""
    if axes is None:
        return np.asarray(np.linalg.norm(points - centre, axis=-1) <= radius)
    return np.asarray((np.abs((points - centre) @ axes.T) <= 1.0).all(axis=-1))
