"""Pairs of states that a trajectory visits a number of steps apart: what a log says about time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch as th

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset

N_LEADS = 12
N_PAIRS = 2000  # a share is then known to a percentage point


def leads_up_to(dataset: GoalDataset, longest: float) -> list[int]:
    """
    Numbers of time steps to look ahead, from one on and ever farther apart.

    :param dataset: no lead is longer than its trajectories
    :param longest: nor than this
    """
    most = max(1.0, min(longest, dataset.most_steps))
    return np.unique(np.geomspace(1, most, N_LEADS).round().astype(int)).tolist()


def pairs_apart(dataset: GoalDataset, lead: int, generator: th.Generator | None) -> tuple[th.Tensor, th.Tensor]:
    """
    Random states, and those that the log saw so many steps later.

    :return: their rows, twice ``[N_PAIRS]``, or none if no trajectory is as long
    """
    rows = dataset.random_followed(lead, N_PAIRS, generator)
    return rows, rows + lead
