"""How far the map has come, in one number that needs neither an actor nor an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch as th

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.proq.policies import ProQPolicy

N_PAIRS, STEPS = 512, 20


@th.no_grad()
def distance_per_step(policy: ProQPolicy, dataset: GoalDataset) -> float:
    """
    The learned d from states of the data to those ``STEPS`` later, or to the end of the trajectory, for each of these
    steps. It begins near 0, passes 1 until the constraint holds that a step costs one at most, and ends below 1 by as
    much as the data stray from the shortest way.

    :param policy: whose map it is; without the floor of its distances, which knows the scale from the beginning
    :param dataset: the same pairs every time, evenly spread over it
    """
    chosen = np.linspace(0, dataset.n_transitions - 1, N_PAIRS).astype(int)
    rows = dataset.nth_transitions(th.as_tensor(chosen, device=dataset.device))
    later = dataset.ahead(rows, STEPS)
    here, there = (policy.embedder(policy.encode(dataset.achieved_goals[index])) for index in (rows, later))
    return (policy.quasimetric(here, there).sum() / (later - rows).sum()).item()
