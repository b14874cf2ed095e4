"""Goals drawn by the map as it is: states that it takes for near, and states within a hop of the controller."""

from __future__ import annotations

import torch as th

from proq_agent.policies import ProQPolicy

# Random states that goals are chosen from: the more, the nearer is the nearest; of those within a hop a few will do.
N_NEAR, N_HOPS = 128, 48


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
