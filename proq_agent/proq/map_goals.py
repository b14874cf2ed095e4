"""Goals chosen by the map as it is: states that it takes for near, and states within a hop of the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch as th

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.common.goal_sampling import GoalBatch, GoalMixture
    from proq_agent.proq.policies import ProQPolicy

# Random states that goals are chosen from: the more, the nearer is the nearest; of those within a hop a few will do.
N_NEAR, N_HOPS = 128, 48


@th.no_grad()
def choose_on_map(
    policy: ProQPolicy,
    dataset: GoalDataset,
    batch: GoalBatch,
    mixture: GoalMixture,
    generator: th.Generator | None,
    max_hop: float | None = None,
) -> None:
    """
    Replace the goals that a mixture leaves to the map.

    Where the map has folded places onto each other that are far apart, the pairs that it takes for nearest are the ones
    that tell: among uniform goals they are rare, and among goals near in coordinates there are none. An actor is given
    what lies within a hop, whether or not a trajectory leads there.

    :param policy: holds the map
    :param dataset: goals are its states
    :param batch: changed in place
    :param mixture: of the value goals, or of the actor goals if ``max_hop`` is given
    :param generator: source of randomness
    :param max_hop: choose any state within this distance, not the nearest; where there is none, goals stay
    """
    part = mixture.parts(len(batch.rows)).get("on_map")
    if part is None:
        return
    rows, goals = (batch.value_rows, batch.value_goals) if max_hop is None else (batch.actor_rows, batch.actor_goals)
    candidates = dataset.random_rows(N_NEAR if max_hop is None else N_HOPS, generator)
    states = batch.achieved_goals[part]
    embeddings = policy.embed_goals(th.cat([states, dataset.achieved_goals[candidates]]))
    distances = policy.pairwise_distances(*embeddings.split([len(states), len(candidates)]))
    if max_hop is None:
        rows[part] = candidates[distances.argmin(dim=1)]
    else:
        lots = th.rand(distances.shape, generator=generator, device=distances.device)
        drawn, index = lots.masked_fill(distances > max_hop, -1.0).max(dim=1)
        rows[part] = th.where(drawn >= 0.0, candidates[index], rows[part])
    goals[part] = dataset.achieved_goals[rows[part]]
