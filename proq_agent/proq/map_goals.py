"""Goals drawn by the map as it is: states that it takes for near, and states within a hop of the controller."""

from __future__ import annotations

from dataclasses import dataclass

import torch as th

from proq_agent.common.dataset import GoalBatch, GoalDataset
from proq_agent.proq.policies import ProQPolicy

# Random states that goals are chosen from: the more, the nearer is the nearest; of those within a hop a few will do.
N_NEAR, N_HOPS = 128, 48


@dataclass(frozen=True)
class MapGoals:
    """
    Which goals of a batch the map chooses; the others stay as the dataset drew them.

    :param value_map_share: share of the value goals, see :func:`nearest_on_map`
    :param actor_map_share: share of the actor goals, see :func:`within_hop`
    :param max_hop: longest hop
    """

    value_map_share: float
    actor_map_share: float
    max_hop: float

    def __post_init__(self) -> None:
        for name in ("value_map_share", "actor_map_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)!r}")

    def choose(
        self,
        batch: GoalBatch,
        policy: ProQPolicy,
        dataset: GoalDataset,
        generator: th.Generator | None,
        *,
        learns_map: bool,
        learns_actor: bool,
    ) -> None:
        """
        Replace goals of a batch, in its last rows: the dataset draws near goals for the first ones.

        :param batch: changed in place
        :param policy: holds the map
        :param dataset: goals are its states
        :param generator: source of randomness
        :param learns_map: whether value goals matter
        :param learns_actor: whether actor goals matter
        """
        n = len(batch.observations)
        if learns_map and self.value_map_share:
            last = slice(n - round(self.value_map_share * n), None)
            candidates = dataset.random_goals(N_NEAR, generator)
            batch.value_goals[last] = nearest_on_map(policy, batch.achieved_goals[last], candidates)
        if learns_actor and self.actor_map_share:
            last = slice(n - round(self.actor_map_share * n), None)
            states, ahead = batch.achieved_goals[last], batch.actor_goals[last]
            candidates = dataset.random_goals(N_HOPS, generator)
            batch.actor_goals[last] = within_hop(policy, states, candidates, ahead, self.max_hop, generator)


@th.no_grad()
def nearest_on_map(policy: ProQPolicy, states: th.Tensor, candidates: th.Tensor) -> th.Tensor:
    """
    For each state the candidate that the map takes for nearest.

    Where the map has folded places onto each other that are far apart, these are the pairs that tell: among uniform
    goals they are rare, and among goals near in coordinates there are none.

    :param policy: holds the map
    :param states: ``[n, goal_dim]``
    :param candidates: ``[c, goal_dim]``
    :return: ``[n, goal_dim]``
    """
    return candidates[_distances(policy, states, candidates).argmin(dim=1)]


@th.no_grad()
def within_hop(
    policy: ProQPolicy,
    states: th.Tensor,
    candidates: th.Tensor,
    otherwise: th.Tensor,
    max_hop: float,
    generator: th.Generator | None,
) -> th.Tensor:
    """
    For each state one of the candidates that the map takes for a hop away, whether or not a trajectory leads there.

    :param policy: holds the map
    :param states: ``[n, goal_dim]``
    :param candidates: ``[c, goal_dim]``
    :param otherwise: ``[n, goal_dim]`` for states without such a candidate
    :param max_hop: longest hop
    :param generator: draws among them
    :return: ``[n, goal_dim]``
    """
    distances = _distances(policy, states, candidates)
    lots = th.rand(distances.shape, generator=generator, device=distances.device)
    drawn, index = lots.masked_fill(distances > max_hop, -1.0).max(dim=1)
    return th.where((drawn >= 0.0)[:, None], candidates[index], otherwise)


def _distances(policy: ProQPolicy, states: th.Tensor, candidates: th.Tensor) -> th.Tensor:
    embeddings = policy.embed(policy.locate(th.cat([states, candidates])))
    return policy.pairwise_distances(*embeddings.split([len(states), len(candidates)]))
