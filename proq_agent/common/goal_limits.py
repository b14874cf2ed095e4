"""How far the goals of a dataset go, so that an agent notices what cannot be of its world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset


class GoalLimits(NamedTuple):
    """
    Between which values a goal is known, infinite where a coordinate does not matter or repeats.

    :param low: ``[goal_dim]``, a step below the least of the dataset
    :param high: ``[goal_dim]``, a step above the greatest
    """

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, dataset: GoalDataset) -> GoalLimits:
        """
        Look at a dataset.

        :param dataset: with the goals that users ask for
        """
        low, high = (bound.cpu().numpy() for bound in dataset.achieved_goals.aminmax(dim=0))
        beyond = dataset.longest_step.cpu().numpy()  # what the data just missed is no other world
        spec, goal_dim = dataset.goal_spec, len(low)
        open_ended = np.isfinite(spec.periods(goal_dim)) | ~spec.asked(goal_dim)
        beyond = np.where(open_ended, np.float32(np.inf), beyond)
        return cls(low - beyond, high + beyond)

    def only(self, coordinates: Sequence[int]) -> GoalLimits:
        """
        Limits of some coordinates, and none of the others.

        :param coordinates: their numbers
        """
        others = np.delete(np.arange(len(self.low)), list(coordinates))
        low, high = self.low.copy(), self.high.copy()
        low[others], high[others] = -np.inf, np.inf
        return GoalLimits(low, high)

    @classmethod
    def from_lists(cls, values: Any, goal_dim: int) -> GoalLimits:
        """
        The inverse of :meth:`to_lists`.

        :param values: from a file
        :param goal_dim: number of a goal's coordinates
        :raises ValueError: if they are no limits
        """
        limits = cls(*(np.array(bound, dtype=np.float32) for bound in values))
        if any(bound.shape != (goal_dim,) for bound in limits) or not (limits.low <= limits.high).all():
            raise ValueError("goal_limits are no least and greatest value of each coordinate")
        return limits

    def to_lists(self) -> list[list[float]]:
        """As plain numbers."""
        return [bound.tolist() for bound in self]

    def union(self, other: GoalLimits) -> GoalLimits:
        """
        Wide enough for both.

        :param other: of more data
        """
        return GoalLimits(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def stranger(self, name: str, goals: np.ndarray) -> str | None:
        """
        What cannot be of this world, in words; None if there is nothing.

        :param name: what to call the goals
        :param goals: ``[rows, goal_dim]``
        """
        outside = (goals < self.low) | (goals > self.high)
        if not outside.any():
            return None
        row, i = np.argwhere(outside)[0]
        known = f"{self.low[i]:.4g} to {self.high[i]:.4g}"
        return (
            f"{name}[{i}] is {goals[row, i]:.4g}, but the agent's dataset goes from {known} there, a step more "
            "included: what lies beyond, the agent does not know. Are observations changed on the way "
            "(VecNormalize, NormalizeObservation), or of another world or unit?"
        )
