"""The subgoals of HIQL: states a fixed number of steps ahead."""

from __future__ import annotations

from typing import NamedTuple

import torch as th

from proq_agent.common.dataset import GoalDataset
from proq_agent.common.goal_sampling import GoalBatch, GoalMixture


class SubgoalBatch(NamedTuple):
    """Transitions, goals and subgoals."""

    observations: th.Tensor
    next_observations: th.Tensor
    actions: th.Tensor
    value_goals: th.Tensor
    actor_goals: th.Tensor  #: of the high-level actor
    low_actor_goals: th.Tensor  #: states k steps ahead
    target_observations: th.Tensor  #: states k steps ahead, or the high-level actor's goal if that comes first
    target_goals: th.Tensor  #: the same states as points in goal space
    rewards: th.Tensor
    masks: th.Tensor


def with_subgoals(batch: GoalBatch, dataset: GoalDataset, mixture: GoalMixture, steps: int) -> SubgoalBatch:
    """
    Look so many steps ahead of every transition, but not beyond the end of its trajectory.

    :param batch: drawn from the dataset
    :param dataset: the trajectories
    :param mixture: how the batch's actor goals were drawn: a target does not lie beyond a goal that follows
    :param steps: k
    """
    subgoals = dataset.ahead(batch.rows, steps)
    targets = subgoals.clone()
    for kind, part in mixture.parts(len(batch.rows)).items():
        if kind in ("future", "future_uniform"):
            targets[part] = th.minimum(subgoals[part], batch.actor_rows[part])
    return SubgoalBatch(
        batch.observations,
        batch.next_observations,
        batch.actions,
        batch.value_goals,
        batch.actor_goals,
        dataset.achieved_goals[subgoals],
        dataset.observations[targets],
        dataset.achieved_goals[targets],
        batch.rewards,
        batch.masks,
    )
