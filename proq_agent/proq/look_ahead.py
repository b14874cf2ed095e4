"""What a step was good for: how much nearer the trajectory came to the actor's goal in the steps from there on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch as th

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.common.goal_sampling import GoalBatch, GoalMixture


class Later(NamedTuple):
    """Where the trajectories of a batch went."""

    goals: th.Tensor  #: ``[batch, goal_dim]``
    steps: th.Tensor  #: ``[batch]`` how many steps later, at least one


def look_ahead(dataset: GoalDataset, batch: GoalBatch, mixture: GoalMixture, steps: int) -> Later:
    """
    States so many steps after those of a batch, or the actor's goals and the ends of trajectories that come first.

    :param dataset: the trajectories
    :param batch: drawn from them
    :param mixture: how the batch's actor goals were drawn: of some it is known that the trajectory leads there
    :param steps: how far to look
    """
    rows = dataset.ahead(batch.rows, steps)
    for kind, part in mixture.parts(len(rows)).items():
        if kind in ("future", "future_uniform"):
            rows[part] = th.minimum(rows[part], batch.actor_rows[part])
    return Later(dataset.achieved_goals[rows], rows - batch.rows)
