"""Keypoints: states that spread over the reachable space like charged particles behind a barrier."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch as th
from torch.utils.checkpoint import checkpoint

from proq_agent.proq.losses import Metrics, barrier_loss, compliance_violation, repel_loss
from proq_agent.proq.settings import KeypointSettings

if TYPE_CHECKING:
    from proq_agent.common.row_file import Rows
    from proq_agent.planning.hops import HopGraph
    from proq_agent.proq.policies import ProQPolicy

ALL_PAIRS = 512  # up to so many keypoints each feels all others; of more, it feels those beside it
N_FELT = 16
_NEAR, _FELT, _SETTLING = 1 << 23, 1 << 15, 1 << 25  # pairs that are compared at a time
MOST_KEYPOINTS = 400
UNCOVERED = 0.05  # share of the states


def place_keypoints(policy: ProQPolicy, goals: Rows, generator: th.Generator | None) -> None:
    """
    Put the keypoints on random states of the data, and remember the data's bounding box.

    :param policy: its keypoints are set; its goal scaler must be fitted
    :param goals: ``[rows, goal_dim]``, every state as a point in goal space
    :param generator: source of randomness
    """
    low, high = goals.aminmax(dim=0)
    policy.keypoint_low.copy_(policy.goal_scaler(low))
    policy.keypoint_high.copy_(policy.goal_scaler(high))
    rows = th.randint(len(goals), (policy.n_keypoints,), generator=generator, device=goals.device)
    policy.standard_keypoints.copy_(policy.goal_scaler(goals[rows]))


class KeypointObjective(NamedTuple):
    """The loss of the keypoints, and what else it tells."""

    loss: th.Tensor
    violation: th.Tensor  #: drives λ_kps
    metrics: Metrics


def keypoint_objective(
    policy: ProQPolicy,
    points: th.Tensor,
    multiplier: th.Tensor,
    settings: KeypointSettings,
    compliance: float,
    charges: th.Tensor | None = None,
) -> KeypointObjective:
    """
    Part (B) of Algorithm 1: L_kps = repulsion + barrier, with φ, d and ψ as they are.

    :param policy: the map
    :param points: the keypoints, standardised
    :param multiplier: λ_kps, the weight of the barrier
    :param settings: of repulsion and barrier
    :param compliance: δ; ψ should be 1 - δ on average
    :param charges: of the keypoints, all 1 by default
    """
    assert settings.repel_range is not None  # chosen once the data are known
    latents = policy.encode_standard(points)
    embeddings = policy.embedder(latents)
    logits = policy.classify(latents, points)
    others = None
    if len(points) <= ALL_PAIRS:
        distances = policy.quasimetric.pairwise(embeddings, embeddings)
    else:
        others = near_keypoints(points.detach(), N_FELT)
        distances = _to_others(policy, embeddings, others)
    repulsion, metrics = repel_loss(distances, settings.repel_strength, settings.repel_range, others, charges)
    barrier, barrier_metrics = barrier_loss(logits, multiplier * settings.barrier)
    violation = compliance_violation(logits, compliance)
    return KeypointObjective(repulsion + barrier, violation, metrics | barrier_metrics)


@th.no_grad()
def near_keypoints(points: th.Tensor, number: int) -> th.Tensor:
    """
    ``[K, number]`` the nearest others of each keypoint, by coordinates: under d they may be far, but then no other is
    near that is not near by coordinates too.

    :param points: ``[K, goal_dim]``, standardised
    :param number: of others
    """
    nearest, rows = [], th.arange(len(points), device=points.device)
    for some in rows.split(max(1, _NEAR // len(points))):
        apart = th.cdist(points[some], points).scatter(1, some[:, None], th.inf)
        nearest.append(apart.topk(number, dim=1, largest=False).indices)
    return th.cat(nearest)


def _to_others(policy: ProQPolicy, embeddings: th.Tensor, others: th.Tensor) -> th.Tensor:
    """``[K, number]`` d from each keypoint to those that it feels, without ever holding all their embeddings."""

    def measure(starts: th.Tensor, ends: th.Tensor) -> th.Tensor:
        return policy.quasimetric(starts[:, None], embeddings[ends])

    rows = max(1, _FELT // others.shape[1])
    parts = zip(embeddings.split(rows), others.split(rows), strict=True)
    return th.cat([checkpoint(measure, *part, use_reentrant=False, preserve_rng_state=False) for part in parts])


def move_keypoints(
    policy: ProQPolicy,
    optimizer: th.optim.Optimizer,
    objective: Callable[[th.Tensor], KeypointObjective],
    bounded: bool,
) -> KeypointObjective:
    """
    One descent step of the keypoints.

    :param policy: whose keypoints move
    :param optimizer: over ``policy.standard_keypoints`` alone
    :param objective: :func:`keypoint_objective` of points
    :param bounded: keep them in the data's bounding box
    :return: the objective before the step
    """
    points = policy.standard_keypoints.detach().requires_grad_()
    found = objective(points)
    (policy.standard_keypoints.grad,) = th.autograd.grad(found.loss, points)
    optimizer.step()
    if bounded:
        policy.standard_keypoints.data.copy_(
            th.maximum(th.minimum(policy.standard_keypoints, policy.keypoint_high), policy.keypoint_low)
        )
    return found


def drift_keypoints(policy: ProQPolicy, settings: KeypointSettings, compliance: float, n_updates: int) -> np.ndarray:
    """
    Where the keypoints of a copy go without the barrier: repulsion alone moves them, on the map as it is.

    :param policy: stays as it is
    :param settings: of the repulsion
    :param compliance: see :func:`keypoint_objective`
    :param n_updates: steps of their optimiser
    :return: ``[K, goal_dim]``
    """
    policy = copy.deepcopy(policy)
    optimizer = th.optim.Adam([policy.standard_keypoints], lr=settings.learning_rate)
    no_barrier = th.zeros((), device=policy.standard_keypoints.device)
    objective = partial(keypoint_objective, policy, multiplier=no_barrier, settings=settings, compliance=compliance)
    for _ in range(n_updates):
        move_keypoints(policy, optimizer, objective, settings.bounded)
    return policy.keypoints.cpu().numpy()


@th.no_grad()
def settle_keypoints(policy: ProQPolicy, goals: Rows, chunk: int = 1 << 16) -> None:
    """
    Put every keypoint on the nearest state of the data: ψ is not right everywhere, and nobody can stand in a wall.

    :param policy: whose keypoints move
    :param goals: ``[rows, goal_dim]``, every state as a point in goal space
    :param chunk: states that are compared at a time
    """
    keypoints = nearest = policy.standard_keypoints.detach()
    least = th.full_like(keypoints[:, 0], th.inf)
    for part in goals.split(min(chunk, max(1, _SETTLING // len(keypoints)))):
        states = policy.goal_scaler(part)
        distances, rows = th.cdist(keypoints, states).min(dim=1)
        nearest = th.where((distances < least)[:, None], states[rows], nearest)
        least = th.minimum(distances, least)
    policy.standard_keypoints.copy_(nearest)


@th.no_grad()
def cover_with_keypoints(policy: ProQPolicy, goals: th.Tensor, radius: float) -> bool:
    """
    Add states of the data to the keypoints, always the one that is farthest from them, until nearly all states have a
    keypoint within a distance, on the way there and on the way back. Outliers are not worth a keypoint each.

    :param policy: gets more keypoints
    :param goals: ``[rows, goal_dim]``, some states as points in goal space
    :param radius: that distance
    :return: whether :data:`MOST_KEYPOINTS` were enough
    """
    states = policy.embed_goals(goals)
    keypoints = policy.embed_goals(policy.keypoints)
    there, back = policy.pairwise_distances(states, keypoints), policy.pairwise_distances(keypoints, states)
    gaps = th.maximum(there.amin(dim=1), back.amin(dim=0))
    added: list[int] = []
    while (gaps > radius).float().mean() > UNCOVERED and policy.n_keypoints + len(added) < MOST_KEYPOINTS:
        farthest = gaps.argmax()
        new = states[farthest, None]
        both = th.maximum(policy.distances(states, new), policy.distances(new, states))
        gaps = th.minimum(gaps, both)
        added.append(int(farthest))
    points = th.cat([policy.standard_keypoints, policy.goal_scaler(goals[added])])
    policy.standard_keypoints = th.nn.Parameter(points, requires_grad=False)
    return bool((gaps > radius).float().mean() <= UNCOVERED)


@th.no_grad()
def diagnose_keypoints(policy: ProQPolicy, graph: HopGraph) -> dict[str, float]:
    """
    How well the keypoints cover the space: is each in distribution, are they evenly spread, does the graph connect?

    :param policy: whose keypoints are looked at
    :param graph: built from them
    """
    logits = policy.classify_goals(policy.keypoints)
    nearest = graph.nearest(policy.n_keypoints) if policy.n_keypoints > 1 else np.zeros(1)
    return {
        "in_distribution": float((logits > 0).float().mean()),
        "nearest_mean": float(nearest.mean()),
        "nearest_std": float(nearest.std()),
        "connected_pairs": graph.connectivity(policy.n_keypoints).connected_pairs,
    }
