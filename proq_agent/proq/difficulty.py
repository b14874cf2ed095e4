"""More keypoints where it is hard to go: where ways bend or branch a hop leads into a wall, in the open none does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch as th

if TYPE_CHECKING:
    from proq_agent.proq.policies import ProQPolicy

N_STATES = 256  # that tell how ways run; all pairs of them are compared


@th.no_grad()
def difficulty(
    policy: ProQPolicy, points: th.Tensor, states: th.Tensor, keypoints: th.Tensor | None = None
) -> th.Tensor:
    """
    ``[n]`` how much longer ways past some points are than the straight line, 1 where they are straight.

    Looked at are pairs of states about half as far from a point as keypoints are from each other, that do not lie on
    the same side of it.

    :param policy: the map
    :param points: ``[n, goal_dim]``, points of goal space
    :param states: ``[m, goal_dim]``, states of the data
    :param keypoints: ``[K, goal_dim]``; the points, by default
    """
    around = policy.embed_goals(states[:N_STATES])

    def apart(goals: th.Tensor) -> th.Tensor:
        here = policy.embed_goals(goals)
        return 0.5 * (policy.pairwise_distances(here, around) + policy.pairwise_distances(around, here).T)

    to_points = apart(points)
    radius = 2.0 * (to_points if keypoints is None else apart(keypoints)).amin(dim=0).mean()
    beside = ((to_points - radius).abs() < 0.5 * radius).float()
    ways = policy.pairwise_distances(around, around)
    straight = policy.straight_distances(around, around)
    across = (ways > radius).float()
    taken, least = ((beside @ (across * lengths) * beside).sum(dim=1) for lengths in (ways, straight))
    return th.where(least > 0, taken / least, 1.0)


def charges(policy: ProQPolicy, points: th.Tensor, states: th.Tensor, density: float) -> th.Tensor:
    """
    ``[n]`` how strongly each keypoint repels others, 1 on average: the less, the harder it is to go there, so that
    they stand closer there.

    :param policy: the map
    :param points: see :func:`difficulty`
    :param states: likewise
    :param density: power of the difficulty
    """
    weak = difficulty(policy, points, states) ** -density
    return weak / weak.mean()
