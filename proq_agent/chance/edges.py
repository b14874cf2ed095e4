"""Chance edges: the places where chance decides, and where it may take you.

Unpredictable jumps (see :mod:`proq_agent.chance.detection`) are lotteries: whoever enters the entrance lands at one of
the exits. :func:`cluster_chance` recovers these lotteries from the observed jumps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial import cKDTree

MAX_LINKED = 2000  # points that are clustered with each other; the rest follow the nearest of them
MAX_PLACES = 500  # entrances and exits that a plan can take into account within reasonable time


@dataclass(frozen=True, eq=False)
class ChanceEdge:
    """
    A region of goal space from which chance picks one of several exits.

    :param entrance: Centre of the region, ``[goal_dim]``.
    :param radius: Distance from the centre within which 95 % of the observed jumps began.
    :param exits: Centres of the places where they ended, ``[n_exits, goal_dim]``, the likeliest first.
    :param probabilities: Observed frequency of each exit, ``[n_exits]``; they sum to one.
    :param count: Number of jumps behind these figures.
    """

    entrance: NDArray[np.float64]
    radius: float
    exits: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    count: int

    def contains(self, goals: NDArray[np.floating]) -> NDArray[np.bool_]:
        """
        :param goals: Points in goal space, ``[..., goal_dim]``.
        :return: Which of them lie in the entrance, ``[...]``.
        """
        return np.linalg.norm(goals - self.entrance, axis=-1) <= self.radius

    def to_dict(self) -> dict[str, Any]:
        """:return: The edge as plain lists and numbers, fit for JSON."""
        return {
            "entrance": self.entrance.tolist(),
            "radius": self.radius,
            "exits": self.exits.tolist(),
            "probabilities": self.probabilities.tolist(),
            "count": self.count,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ChanceEdge:
        """
        :param data: What :meth:`to_dict` returned.
        :return: The same edge.
        :raises ValueError: If it is no such edge.
        """
        edge = cls(
            entrance=np.asarray(data["entrance"], dtype=np.float64),
            radius=float(data["radius"]),
            exits=np.asarray(data["exits"], dtype=np.float64),
            probabilities=np.asarray(data["probabilities"], dtype=np.float64),
            count=int(data["count"]),
        )
        n = len(edge.probabilities)
        shapes = (edge.entrance.shape, edge.exits.shape, edge.probabilities.shape)
        if n == 0 or shapes != ((dim := edge.entrance.size,), (n, dim), (n,)):
            raise ValueError(f"a chance edge has arrays of shapes {shapes}, not [dim], [exits, dim] and [exits]")
        numbers = np.concatenate([edge.entrance, [edge.radius, edge.count], edge.exits.ravel(), edge.probabilities])
        certain = np.isclose(edge.probabilities.sum(), 1.0) and (edge.probabilities >= 0).all()
        if not np.isfinite(numbers).all() or edge.radius < 0 or not certain or edge.count < 1:
            raise ValueError("a chance edge has numbers that are not finite, or odds that do not add up to one")
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
    if sum(1 + len(edge.exits) for edge in edges) > MAX_PLACES:
        raise ValueError(f"chance edges with more than {MAX_PLACES} entrances and exits")
    return edges


def cluster_chance(
    entrances: NDArray[np.floating],
    exits: NDArray[np.floating],
    *,
    closeness: float = 0.25,
    min_count: int = 5,
) -> list[ChanceEdge]:
    """
    Group observed jumps into chance edges.

    Points are one place while their mean distance (average linkage) is at most ``closeness`` times the median
    length of the jumps, so the unit of length does not matter and no place grows without bound. Entrances with
    fewer than ``min_count`` jumps are dropped; so are, within an entrance, exits seen fewer than ``min_count``
    times, unless that would leave none. Probabilities are frequencies among the jumps that remain: they say where
    a jump leads, not how often the region makes one. Edges beyond ``MAX_PLACES`` are dropped, the rarest first.

    :param entrances: Where each jump began, in goal space, ``[n, goal_dim]``.
    :param exits: Where it ended, ``[n, goal_dim]``.
    :param closeness: Size of a place relative to a jump.
    :param min_count: Fewest jumps that make an entrance or an exit.
    :return: The edges, the most frequent first.
    """
    if entrances.ndim != 2 or entrances.shape != exits.shape:
        raise ValueError(
            f"entrances {entrances.shape} and exits {exits.shape} must both be [n, goal_dim], one row a jump."
        )
    if closeness <= 0 or min_count < 1:
        raise ValueError(
            f"closeness={closeness} must be positive and min_count={min_count} at least 1; the defaults fit most data."
        )
    if len(entrances) < min_count:
        return []
    entrances, exits = entrances.astype(np.float64), exits.astype(np.float64)
    size = closeness * float(np.median(np.linalg.norm(exits - entrances, axis=1)))
    entrance_place, exit_place = _places(entrances, size), _places(exits, size)
    edges = []
    for place in np.unique(entrance_place):
        rows = np.flatnonzero(entrance_place == place)
        if len(rows) < min_count:
            continue
        targets, index, counts = np.unique(exit_place[rows], return_inverse=True, return_counts=True)
        kept = [i for i in np.argsort(-counts, kind="stable") if counts[i] >= min_count]
        if not kept:
            kept = list(range(len(targets)))
        n_kept = counts[kept].sum()
        rows = rows[np.isin(index, kept)]
        # Half-way between the extremes, because most visitors may come from the same side.
        centre = np.quantile(entrances[rows], [0.025, 0.975], axis=0).mean(axis=0)
        edges.append(
            ChanceEdge(
                entrance=centre,
                radius=float(np.quantile(np.linalg.norm(entrances[rows] - centre, axis=1), 0.95)),
                exits=np.stack([exits[rows][exit_place[rows] == targets[i]].mean(axis=0) for i in kept]),
                probabilities=counts[kept] / n_kept,
                count=int(n_kept),
            )
        )
    edges.sort(key=lambda edge: -edge.count)
    places = np.cumsum([1 + len(edge.exits) for edge in edges])
    return edges[: int((places <= MAX_PLACES).sum())]


def _places(points: NDArray[np.floating], size: float) -> NDArray[np.integer]:
    """Label the points by place; evenly spaced ones are clustered, the others join the nearest of these."""
    linked = points[np.linspace(0, len(points) - 1, min(len(points), MAX_LINKED)).astype(int)]
    if len(linked) == 1:
        return np.zeros(1, dtype=np.intp)
    labels: NDArray[np.integer] = fcluster(linkage(linked, method="average"), size, criterion="distance")
    return labels[np.asarray(cKDTree(linked).query(points)[1])]
