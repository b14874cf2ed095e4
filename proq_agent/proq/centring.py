"""Keypoints in the middle of what is nearest to them: their repulsion presses them to the rims of the free space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch as th

if TYPE_CHECKING:
    from proq_agent.proq.policies import ProQPolicy

ROUNDS = 3
MEMBERS = 128  # states of a cell that are looked at


@th.no_grad()
def centre_keypoints(policy: ProQPolicy, goals: th.Tensor) -> None:
    """
    Move every keypoint to the medoid of its cell, a few times: to the one of the states nearest to it from which the
    others are nearest, there and back (Lloyd's algorithm on the learned distance).

    A body that heads for a rim bumps into walls, and the controller knows little about places where hardly anybody was.

    :param policy: whose keypoints move
    :param goals: ``[rows, goal_dim]`` some states as points of goal space; cells of one or none stay where they are
    """
    states, standard = policy.embed_goals(goals), policy.goal_scaler(goals)
    for _ in range(ROUNDS):
        keypoints = policy.embed_goals(policy.keypoints)
        apart = policy.pairwise_distances(keypoints, states) + policy.pairwise_distances(states, keypoints).T
        others = apart.argmin(dim=0) != th.arange(len(keypoints), device=apart.device)[:, None]
        near, members = apart.masked_fill_(others, th.inf).topk(min(MEMBERS, len(goals)), largest=False)
        inside = near.isfinite()
        costs = th.stack([_costs(policy, states[rows], mine) for rows, mine in zip(members, inside, strict=True)])
        medoids = standard[members.gather(1, costs.argmin(dim=1, keepdim=True))[:, 0]]
        moves = inside.sum(dim=1, keepdim=True) > 1
        policy.standard_keypoints.copy_(th.where(moves, medoids, policy.standard_keypoints))


def _costs(policy: ProQPolicy, states: th.Tensor, inside: th.Tensor) -> th.Tensor:
    """``[n]`` how far the others of a cell are from each state, there and back; inf outside."""
    there = policy.pairwise_distances(states, states)
    return ((there + there.T) * inside).sum(dim=1).masked_fill(~inside, th.inf)
