"""What an update descends on: parts (A) and (C) of the paper's Algorithm 1; part (B) is in ``keypoints.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch as th

from proq_agent.common.actor_losses import awr_loss
from proq_agent.common.distributed import own_uniform, whole
from proq_agent.proq import losses
from proq_agent.proq.settings import DistanceSettings

if TYPE_CHECKING:
    from proq_agent.common.goal_sampling import GoalBatch
    from proq_agent.proq.look_ahead import Later
    from proq_agent.proq.policies import ProQPolicy
    from proq_agent.quasimetric.multipliers import Multipliers


class Known(NamedTuple):
    """The states and next states of a batch on the map, without gradients; each is ``[2, batch, ...]``."""

    points: th.Tensor  #: standardised
    latents: th.Tensor
    embeddings: th.Tensor


class MapObjective(NamedTuple):
    """The loss of the map, and what else it tells."""

    loss: th.Tensor
    violations: losses.Metrics  #: of the constraints, by multiplier
    metrics: losses.Metrics
    known: Known  #: the batch on this map


def map_objective(
    policy: ProQPolicy,
    batch: GoalBatch,
    multipliers: Multipliers,
    generator: th.Generator | None,
    settings: DistanceSettings,
) -> MapObjective:
    """
    Part (A), of φ, d and ψ.

    :param policy: the map
    :param batch: transitions and value goals
    :param multipliers: λ_dist and λ_ood
    :param generator: draws the points between and beyond states of the data
    :param settings: of the losses
    """
    n = len(batch.rows)
    data = policy.goal_scaler(th.cat([batch.value_goals, batch.next_achieved_goals, batch.achieved_goals]))
    value_goals, _, states = data.chunk(3)
    between, beyond = own_uniform((2, n, 1), generator, states.device, dim=1)
    way = value_goals - states
    # In this order d and ψ each look at rows that follow each other.
    points = th.cat([data, states + between * way, states - beyond * way])
    latents = policy.encode_standard(points)
    embeddings = policy.embedder(latents[: 3 * n]).unflatten(0, (3, n))
    in_data, in_between, in_beyond = policy.classify(latents[2 * n :], points[2 * n :]).chunk(3)
    ends, starts = embeddings.split([2, 1])  # not sliced twice: each would fill a gradient of this size with zeros
    to_goals, to_next = policy.quasimetric(starts, ends)

    of_states = whole(latents[2 * n : 3 * n], dim=-2)
    to_goals, to_next, in_data, in_between, in_beyond = whole(to_goals, to_next, in_data, in_between, in_beyond)
    representation, metrics = losses.representation_loss(of_states)
    close, close_metrics = losses.close_loss(to_next, settings.close_margin)
    assert settings.far_offset is not None and settings.far_scale is not None and settings.far_focus is not None
    far, far_metrics = losses.far_loss(to_goals, settings.far_offset, settings.far_scale, settings.far_focus)
    ood, ood_metrics = losses.ood_loss(in_data, in_between, in_beyond, multipliers["ood"], settings.bounded_ood)
    loss = representation + multipliers["dist"] * close + far + ood
    violations = {"dist": close, "ood": losses.compliance_violation(in_data, settings.compliance)}
    metrics |= close_metrics | far_metrics | ood_metrics | {"loss": loss}
    groups = (rows.detach().unflatten(0, (-1, n)) for rows in (points, latents))
    known = Known(*(group[1:3] for group in (*groups, embeddings.detach())))
    return MapObjective(loss, violations, metrics, known)


def actor_objective(
    policy: ProQPolicy,
    batch: GoalBatch,
    later: Later | None,
    known: Known | None,
    temperature: float,
    max_weight: float,
    generator: th.Generator | None,
) -> tuple[th.Tensor, losses.Metrics]:
    """
    Part (C), of the actor; the map is taken as it is.

    :param policy: map and actor
    :param batch: transitions and actor goals
    :param later: where the trajectories went, by which a step is judged; None for the next states
    :param known: what :func:`map_objective` has computed already of these, if the map learns, too
    :param temperature: α
    :param max_weight: upper bound of the weight of a transition
    :param generator: draws the dropout masks
    """
    with th.no_grad():
        after = batch.next_achieved_goals if later is None else later.goals
        new = [batch.actor_goals] if known else [after, batch.achieved_goals, batch.actor_goals]
        points = policy.goal_scaler(th.stack(new))
        latents = policy.encode_standard(points)
        embeddings = policy.embedder(latents)
        if known:
            points, latents, embeddings = map(th.cat, zip(known, (points, latents, embeddings), strict=True))
        later_distances, distances = policy.distances_between(embeddings[:2], embeddings[2], points[:2], points[2])
        _, here, target = th.cat([latents, points], dim=-1)
    log_probs = policy.log_prob(batch.actions, batch.observations, here, target, generator)
    # Imitate the more, the more a step shortens the way (Eqs. 10 and 11).
    advantages = distances - later_distances
    if later is not None:
        advantages = advantages / later.steps
    log_probs, advantages = whole(log_probs, advantages)
    loss, metrics = awr_loss(log_probs, advantages, temperature, max_weight)
    return loss, {"actor_loss": loss, "advantage": metrics["adv"], "log_prob": log_probs.mean()}
