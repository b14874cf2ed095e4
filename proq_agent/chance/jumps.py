"""Find the transitions that jump: changes of place far outside the dataset's ordinary steps.

Jumps are looked for in goal space, coordinate by coordinate in units of its ordinary step, so that units do not matter.
Two things must hold of them. They are larger than an exponential tail through the ordinary steps would ever reach, and
either there is a gap, hardly any change is of a size between the ordinary ones and theirs, or they lead to few places
from many, as resets do that strike so often that they come from all distances. Noise with a heavy tail, an object that
topples now and then or a joint that is nearly constant do neither, and are no jumps.

Ordinary steps last. Where more than a tenth of all changes are large but each comes alone, as on ice, these are none.

A drawer that is moved now and then is idle, and then goes on for a while: what comes in a row is a motion, if rare.
A coordinate that switches between two values has no ordinary step, and says nothing about places. A coordinate that
wraps (an angle) is followed across the seam.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MIN_JUMPS = 5  # fewer are no evidence of anything
FALSE_JUMPS = 0.01  # ordinary steps expected above the jump threshold, in the whole dataset
MIN_EXCESS = 1.0  # a jump exceeds an ordinary step by at least another one
MAX_BETWEEN = 0.1  # changes of t to 2t for each one above 2t, if there is a gap at t; a tail x^-2 has 3, x^-1 has 1
MAX_BETWEEN_ALONE = 0.4  # in a single coordinate, where jumps in all directions have components of all sizes
MIN_SAME, MIN_SAMPLE = 0.1, 50  # share of the pairs of jumps that end in the same place, if places are few; of so many
FEWER = 3.0  # and that is so many times the share that begins in the same place
LASTING, IDLE = 2.0, 1000.0  # ordinary steps last if large changes are this many times as large; of noise, if more
IN_A_ROW = 0.5  # of jumps, a smaller share follows upon another one
AT_ENDS, END = 0.9, 0.1  # a switch spends this share of the time within this part of its range from either end
WRAPPING = 0.9  # of the jumps of a coordinate that wraps, this share leads from one end of its range to the other


class JumpRule(NamedTuple):
    """What a jump is, as some transitions have shown; it tells those among others, too."""

    coordinates: NDArray[np.intp]  #: of goal space, those that tell something
    steps: NDArray[np.floating]  #: the ordinary step in each of these
    periods: NDArray[np.floating]  #: the range of each that wraps, inf for the others
    threshold: float  #: ordinary steps that a jump exceeds in one of them

    def find(self, goals: NDArray[np.floating], next_goals: NDArray[np.floating]) -> NDArray[np.intp]:
        """
        :param goals: ``[T, goal_dim]`` before transitions.
        :param next_goals: ``[T, goal_dim]`` after them.
        :return: Those that jump.
        """
        points = goals[:, self.coordinates], next_goals[:, self.coordinates]
        size = np.abs(unwrapped_change(*points, self.periods) / self.steps).max(axis=1, initial=0.0)
        return np.flatnonzero(size > self.threshold)

    def least(self, goal_dim: int) -> NDArray[np.floating]:
        """``[goal_dim]``, what a transition that jumps exceeds in one coordinate."""
        least = np.full(goal_dim, np.inf)
        least[self.coordinates] = self.threshold * self.steps
        return least


class Jumps(NamedTuple):
    """The transitions of a dataset in goal space, and those that jump."""

    rows: NDArray[np.intp]  #: transitions that jump
    coordinates: NDArray[np.intp]  #: the coordinate in which each of these changes most, in ordinary steps
    change: NDArray[np.floating]  #: ``[T, n]`` of every transition in ordinary steps, coordinates that tell something
    rule: JumpRule  #: what a jump is

    @property
    def threshold(self) -> float:
        """What a jump exceeds, in one of these coordinates."""
        return self.rule.threshold


def find_jumps(goals: NDArray[np.floating], next_goals: NDArray[np.floating]) -> Jumps:
    """
    :param goals: Points of goal space before the transitions, ``[T, goal_dim]``.
    :param next_goals: Points after them; no transition may span two trajectories.
    :return: The transitions that jump, and the changes of all in ordinary steps.
    """
    if goals.ndim != 2 or goals.shape != next_goals.shape:
        raise ValueError(f"goals {goals.shape} and next_goals {next_goals.shape} must both be [T, goal_dim].")
    if len(goals) < MIN_JUMPS:
        none = np.empty(0, dtype=np.intp)
        return Jumps(none, none, next_goals - goals, JumpRule(none, np.empty(0), np.empty(0), np.inf))
    wraps = periods(goals, next_goals)
    change = unwrapped_change(goals, next_goals, wraps)
    follows = successive(goals, next_goals)
    step = ordinary_step(change, follows)
    telling = np.flatnonzero((step > 0) & ~_is_switch(goals))
    change, ends = change[:, telling] / step[telling], next_goals[:, telling] / step[telling]
    alone = [_threshold(change, ends, follows, MAX_BETWEEN_ALONE, slice(k, k + 1)) for k in range(len(telling))]
    apart = np.isfinite(alone)
    telling, change, ends = telling[apart], change[:, apart], ends[:, apart]
    threshold = _threshold(change, ends, follows, MAX_BETWEEN) if len(telling) else np.inf
    size = np.abs(change).max(axis=1, initial=0.0)
    rows = np.flatnonzero(size > threshold)
    coordinates = telling[np.abs(change[rows]).argmax(axis=1)] if len(rows) else rows
    return Jumps(rows, coordinates, change, JumpRule(telling, step[telling], wraps[telling], threshold))


def periods(points: NDArray[np.floating], next_points: NDArray[np.floating]) -> NDArray[np.floating]:
    """
    :param points: ``[T, dim]`` before the transitions.
    :param next_points: ``[T, dim]`` after them.
    :return: ``[dim]`` the range of each coordinate that wraps, inf for the others.
    """
    periods = np.full(points.shape[1], np.inf)
    follows = successive(points, next_points)
    for k, change in enumerate((next_points - points).T):
        if not change.any():
            continue
        size = np.abs(change)
        end, period = _tail_end(*_ordinary(size, follows), len(size)), np.ptp(points[:, k])
        across = period - size < end
        # Both ways: a portal may lead from one wall to the other, but hardly another one back.
        fewest = min(np.count_nonzero(across & (change > 0)), np.count_nonzero(across & (change < 0)))
        if period > 2 * end and fewest >= MIN_JUMPS and across.sum() >= WRAPPING * np.count_nonzero(size > end):
            periods[k] = period
    return periods


def unwrapped_change(
    points: NDArray[np.floating], next_points: NDArray[np.floating], periods: NDArray[np.floating]
) -> NDArray[np.floating]:
    """The changes ``[T, dim]``, the short way round in coordinates that wrap."""
    change = next_points - points
    turns = np.rint(change / periods)
    return np.where(turns == 0, change, change - turns * np.where(np.isfinite(periods), periods, 0.0))


def successive(points: NDArray[np.floating], next_points: NDArray[np.floating]) -> NDArray[np.bool_]:
    """``[T - 1]`` whether the next row goes on where a transition ends."""
    return (next_points[:-1] == points[1:]).all(axis=1)


def ordinary_step(change: NDArray[np.floating], follows: NDArray[np.bool_] | None = None) -> NDArray[np.floating]:
    """
    :param change: ``[T, dim]``
    :param follows: as :func:`successive` tells; by default rows are in no order.
    :return: ``[dim]`` the 90th percentile of the absolute change, of the lasting one if large ones come alone, or its
        mean where most changes are zero.
    """
    return np.array([_ordinary(size, follows)[1] for size in np.abs(change).T])


def _ordinary(size: NDArray[np.floating], follows: NDArray[np.bool_] | None) -> tuple[float, float]:
    """The median and the 90th percentile, or else the mean, of ordinary steps."""
    median, large = np.quantile(size, [0.5, 0.9])
    if follows is not None and 2 * np.count_nonzero(follows) > len(size):
        lasting = np.quantile(np.minimum(size[:-1], size[1:])[follows], [0.5, 0.9])
        if LASTING * lasting[1] < large < IDLE * lasting[1]:
            median, large = lasting
    return float(median), float(large if large > 0 else size.mean())


def _is_switch(points: NDArray[np.floating]) -> NDArray[np.bool_]:
    """``[dim]`` whether a coordinate hardly ever has a value between two."""
    low, high = points.min(axis=0), points.max(axis=0)
    end = END * (high - low)
    return ((points <= low + end) | (points >= high - end)).mean(axis=0) >= AT_ENDS


def _threshold(
    change: NDArray[np.floating],
    ends: NDArray[np.floating],
    follows: NDArray[np.bool_],
    max_between: float,
    of: slice = slice(None),
) -> float:
    """What jumps exceed in one of some coordinates, in ordinary steps; inf if other changes are as large."""
    size = np.abs(change[:, of]).max(axis=1)
    median, large = _ordinary(size, follows)
    end = _tail_end(median, large, len(size))
    if size.max() <= end:
        return end
    if _in_a_row(size > end, follows):
        return np.inf
    gap = _gap(size, large, max_between)
    return end if np.isinf(gap) and _lead_to_few_places(change, ends, size > 2 * end) else max(end, gap)


def _in_a_row(large: NDArray[np.bool_], follows: NDArray[np.bool_]) -> bool:
    """Whether most of these changes begin where another one of them ends."""
    return bool(np.count_nonzero(large[:-1] & large[1:] & follows) > IN_A_ROW * np.count_nonzero(large))


def _tail_end(median: float, large: float, n_steps: int) -> float:
    """The size above which an exponential tail through the median and the 90th percentile holds no step."""
    tail = (large - median) / np.log(5) * np.log(0.1 * n_steps / FALSE_JUMPS)
    # Bounded steps (speed limits, grids) have no tail, yet a contact may push a little beyond them.
    return float(large + max(tail, MIN_EXCESS * large))


def _gap(size: NDArray[np.floating], large: float, max_between: float) -> float:
    """The smallest size t such that few steps are of t to 2t for those above; inf if there is none."""
    ordered = np.sort(size)
    t = (1.0 + MIN_EXCESS) * large
    while 2 * t < ordered[-1]:
        between, above = -np.diff(len(size) - np.searchsorted(ordered, [t, 2 * t, np.inf]))
        if above >= MIN_JUMPS and between <= max_between * above:
            return float(t)
        t *= 2**0.25
    return np.inf


def _lead_to_few_places(change: NDArray[np.floating], ends: NDArray[np.floating], jumps: NDArray[np.bool_]) -> bool:
    """Whether these transitions end at few places, in all coordinates, but begin at many, in those that change most."""
    if np.count_nonzero(jumps) < MIN_SAMPLE:
        return False
    after, before = ends[jumps], (ends - change)[jumps]
    most = np.unique(np.abs(change[jumps]).argmax(axis=1))
    same = np.array([_share_of_same(points) for points in after.T])
    fewer = [same[k] >= FEWER * _share_of_same(before[:, k]) for k in most]
    return bool((same >= MIN_SAME).all() and all(fewer))


def _share_of_same(points: NDArray[np.floating]) -> float:
    """Of the pairs of points, those within the same step."""
    _, counts = np.unique(np.floor(points), return_counts=True)
    return float((counts * (counts - 1)).sum() / (len(points) * (len(points) - 1)))
