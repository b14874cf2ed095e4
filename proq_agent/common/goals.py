"""What of an observation is the goal, and when one is reached. Knows arrays only: no torch, no environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

PerCoordinate = float | Sequence[float | None] | None


@dataclass(frozen=True)
class GoalSpec:
    """
    What of an observation is the goal, and how close is close enough.

    Example: be at 0.5 with any velocity, or face north, whichever way the angle is counted::

        GoalSpec(indices=(0, 1), tolerance=(0.05, None))
        GoalSpec(indices=(2,), tolerance=0.1, period=2 * np.pi)

    :param indices: entries of the observation that make up the goal; all of them if neither this nor ``function`` is
        given
    :param function: maps observations ``[rows, observation_dim]`` to goals ``[rows, goal_dim]``, instead of indices
    :param tolerance: by how much each coordinate may differ from the goal's, one number for all or one for each, where
        ``None`` or ``inf`` means that the coordinate does not matter; ``None`` alone: not known
    :param period: after how much a coordinate is the same again (``2 * np.pi`` for an angle), one number for all or
        one for each; ``None``: never
    :raises ValueError: if these contradict each other or leave nothing to reach
    """

    indices: Sequence[int] | None = None
    function: Callable[[np.ndarray], np.ndarray] | None = None
    tolerance: PerCoordinate = None
    period: PerCoordinate = None

    def __post_init__(self) -> None:
        if self.indices is not None:
            if self.function is not None:
                raise ValueError("give a goal's indices or its function, not both")
            indices = tuple(self.indices)
            if not indices or not all(isinstance(i, Integral) and i >= 0 for i in indices):
                raise ValueError(f"indices of a goal must be entries of the observation, 0 or more, got {indices}")
            if len(set(indices)) < len(indices):
                raise ValueError(f"indices of a goal must differ, got {indices}")
            object.__setattr__(self, "indices", tuple(int(i) for i in indices))
        for name, least in (("tolerance", "0 or more"), ("period", "positive")):
            value = getattr(self, name)
            if isinstance(value, (Sequence, np.ndarray)):
                value = tuple(None if v is None or np.isposinf(v) else float(v) for v in value)
                object.__setattr__(self, name, value)
            given = [v for v in (value if isinstance(value, tuple) else (value,)) if v is not None]
            if not all(v >= 0.0 and (name == "tolerance" or v > 0.0) for v in given):
                raise ValueError(f"{name} of a goal must be {least} in each coordinate, got {value}")
        tolerance = self.tolerance
        if tolerance is not None and np.isposinf(np.array(_numbers(tolerance, np.inf), ndmin=1)).all():
            raise ValueError("a goal with no tolerance in any coordinate is always reached; set one at least")

    @property
    def selects(self) -> bool:
        """Whether it says how a goal follows from an observation."""
        return self.indices is not None or self.function is not None

    def of(self, observations: np.ndarray) -> np.ndarray:
        """
        Observations as goals.

        :param observations: ``[rows, observation_dim]``
        :return: ``[rows, goal_dim]``
        """
        observations = np.asarray(observations)
        if self.indices is not None:
            if max(self.indices) >= observations.shape[-1]:
                raise ValueError(
                    f"index {max(self.indices)} of a goal lies beyond the observation, which has "
                    f"{observations.shape[-1]} entries"
                )
            return observations[:, list(self.indices)]
        if self.function is None:
            return observations
        goals = np.asarray(self.function(observations))
        if goals.ndim != 2 or len(goals) != len(observations):
            raise ValueError(
                f"the function of a goal made shape {goals.shape} of observations of shape {observations.shape}; "
                "it must return one row of goal coordinates for each row"
            )
        return goals

    def check_dimension(self, goal_dim: int) -> None:
        """
        Find out whether tolerances and periods fit goals of so many coordinates.

        :raises ValueError: if they do not
        """
        for name in ("tolerance", "period"):
            value = getattr(self, name)
            if isinstance(value, tuple) and len(value) != goal_dim:
                raise ValueError(f"{name} has {len(value)} entries, but goals have {goal_dim} coordinates")

    def tolerances(self, goal_dim: int) -> np.ndarray:
        """``[goal_dim]``, ``inf`` where a coordinate does not matter."""
        if self.tolerance is None:
            raise ValueError("when is this goal reached? Give it a tolerance")
        self.check_dimension(goal_dim)
        return np.broadcast_to(_numbers(self.tolerance, np.inf), goal_dim).astype(np.float64)

    def asked(self, goal_dim: int) -> np.ndarray:
        """``[goal_dim]`` bool, False where a coordinate does not matter; of an unknown tolerance all do."""
        return np.ones(goal_dim, dtype=bool) if self.tolerance is None else np.isfinite(self.tolerances(goal_dim))

    def on_coordinates(self, coordinates: Sequence[int], goal_dim: int) -> GoalSpec:
        """
        When the same goal is reached, as far as some of its coordinates tell.

        :param coordinates: numbers of these, out of ``goal_dim``
        """
        chosen = list(coordinates)
        if not self.asked(goal_dim)[chosen].any():
            return GoalSpec()
        parts = (self.tolerance, self.tolerances), (self.period, self.periods)
        tolerance, period = (None if value is None else tuple(of(goal_dim)[chosen]) for value, of in parts)
        return GoalSpec(tolerance=tolerance, period=period)

    def periods(self, goal_dim: int) -> np.ndarray:
        """``[goal_dim]``, ``inf`` where a coordinate does not repeat."""
        self.check_dimension(goal_dim)
        return np.broadcast_to(_numbers(np.inf if self.period is None else self.period, np.inf), goal_dim).astype(float)

    @property
    def leaves_open(self) -> bool:
        """Whether some coordinates do not matter."""
        return isinstance(self.tolerance, tuple) and None in self.tolerance

    def differences(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """
        How far goals are apart in each coordinate, the short way round where one repeats.

        :param achieved: ``[..., goal_dim]``
        :param desired: ``[..., goal_dim]``
        """
        apart = np.abs(np.asarray(achieved, dtype=np.float64) - np.asarray(desired, dtype=np.float64))
        if self.period is None:
            return apart
        period = self.periods(apart.shape[-1])
        wrapped = np.mod(apart, period, out=apart.copy(), where=np.isfinite(period))
        return np.minimum(wrapped, period - wrapped)

    def is_reached(self, achieved: np.ndarray, desired: np.ndarray) -> Any:
        """
        Whether every coordinate is within its tolerance.

        :param achieved: ``[..., goal_dim]``
        :param desired: ``[..., goal_dim]``
        :return: ``[...]``
        :raises ValueError: if there is no tolerance
        """
        apart = self.differences(achieved, desired)
        return (apart <= self.tolerances(apart.shape[-1])).all(axis=-1)


def as_goal_spec(goal: GoalSpec | Sequence[int] | Callable[[np.ndarray], np.ndarray] | None) -> GoalSpec:
    """
    Understand what users call a goal.

    :param goal: a :class:`GoalSpec`, indices, a function of the observations, or None for all of the observation
    """
    if isinstance(goal, GoalSpec):
        return goal
    return GoalSpec(function=goal) if callable(goal) else GoalSpec(indices=goal)


def _numbers(value: float | Sequence[float | None], missing: float) -> Any:
    return [missing if v is None else v for v in value] if isinstance(value, Sequence) else value
