"""Chance edges: the places where chance decides, how often it does, and where it may take you."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
    """

    entrance: NDArray[np.float64]
    radius: float
    exits: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    count: int
    rate: float = 1.0
    axes: NDArray[np.float64] | None = None
    step: NDArray[np.float64] | None = None

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
        """
        return cls(
            entrance=np.asarray(data["entrance"], dtype=np.float64),
            radius=float(data["radius"]),
            exits=np.asarray(data["exits"], dtype=np.float64),
            probabilities=np.asarray(data["probabilities"], dtype=np.float64),
            count=int(data["count"]),
            rate=float(data.get("rate", 1.0)),
            axes=_array_or_none(data.get("axes")),
            step=_array_or_none(data.get("step")),
        )


def _array_or_none(values: list[Any] | None) -> NDArray[np.float64] | None:
    return None if values is None else np.asarray(values, dtype=np.float64)


def in_region(
    centre: NDArray[np.floating], radius: float, axes: NDArray[np.floating] | None, points: NDArray[np.floating]
) -> NDArray[np.bool_]:
    """``[...]`` which points ``[..., goal_dim]`` lie in a ball or, with axes, in a box; see :class:`ChanceEdge`."""
    if axes is None:
        return np.asarray(np.linalg.norm(points - centre, axis=-1) <= radius)
    return np.asarray((np.abs((points - centre) @ axes.T) <= 1.0).all(axis=-1))
