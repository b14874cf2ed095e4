"""Which coordinates of a goal make a place? Those that take long to cross; the others are a pose, taken in passing."""

from __future__ import annotations

import numpy as np

from proq_agent.chance.jumps import find_jumps, periods, unwrapped_change
from proq_agent.common.dataset import GoalDataset
from proq_agent.common.row_file import whole

# A coordinate that is crossed in less than this share of the time that the slowest takes needs no plan.
LEAST_SHARE = 0.25
MAX_NUMBERS = 1 << 23  # in the goals on disk that are looked at


def crossing_times(dataset: GoalDataset) -> np.ndarray:
    """
    How many steps it takes at least to cross the range of each coordinate of goal space.

    An ant crosses its maze in a hundred steps, turns round in ten, and moves a leg from end to end in two. That the
    data seldom turn, or never do on purpose, does not count: what is measured is the longest step that they show.

    :param dataset: jumps, as through a portal, are no steps; of one on disk, a few trajectories tell
    :return: ``[goal_dim]``, 0 for a coordinate that never changes
    """
    dataset = dataset.in_memory(MAX_NUMBERS // dataset.achieved_goals.shape[1])
    goals = whole(dataset.achieved_goals).cpu().numpy().astype(np.float64)
    starts = dataset.transition_rows
    here, there = goals[starts], goals[starts + 1]
    change = np.abs(unwrapped_change(here, there, periods(here, there)))
    longest = np.delete(change, find_jumps(here, there).rows, axis=0).max(axis=0, initial=0.0)
    return np.divide(np.ptp(goals, axis=0), longest, out=np.zeros(goals.shape[1]), where=longest > 0)


def place_coordinates(dataset: GoalDataset) -> tuple[int, ...]:
    """
    The coordinates of goals that a map of places is of.

    :param dataset: shows how far and how fast each coordinate moves
    """
    times = crossing_times(dataset)
    return tuple(np.flatnonzero(times >= LEAST_SHARE * times.max()).tolist())
