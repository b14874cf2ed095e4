"""How many updates a dataset takes, where nobody says it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset

# A point in a maze, two numbers each for where it is, where it is to be and what it does, is learned in so many.
POINT_UPDATES, POINT_NUMBERS = 10_000, 6
LEAST_UPDATES = 1000
MAX_PASSES = 200  # over the rows: few of them are known by heart before long


def enough_updates(dataset: GoalDataset, batch_size: int) -> int:
    """
    Updates that follow from the data: the more, the more numbers a state, a goal and an action have, by the square root
    of that; fewer where the rows are few.

    :param dataset: what is learned from
    :param batch_size: transitions in an update
    """
    numbers = sum(array.shape[1] for array in (dataset.observations, dataset.achieved_goals, dataset.actions))
    wanted = POINT_UPDATES * math.sqrt(numbers / POINT_NUMBERS)
    return round(max(min(wanted, MAX_PASSES * len(dataset) / batch_size), LEAST_UPDATES) / 100) * 100
