"""What an update descends on: parts (A) and (C) of the paper's Algorithm 1; part (B) is in ``keypoints.py``."""

from __future__ import annotations

from typing import NamedTuple

import torch as th

from proq_agent.common.actor_losses import awr_loss
from proq_agent.common.goal_sampling import GoalBatch
from proq_agent.proq import losses
from proq_agent.proq.policies import ProQPolicy
from proq_agent.proq.settings import DistanceSettings
from proq_agent.quasimetric.multipliers import Multipliers


class Located(NamedTuple):
    """Where the states and next states of a batch are on the map, without gradients."""

    locations: th.Tensor  #: of the states
    embeddings: th.Tensor  #: of the states
    next_embeddings: th.Tensor


class MapObjective(NamedTuple):
    """The loss of the map, and what else it tells."""

    loss: th.Tensor
    violations: losses.Metrics  #: of the constraints, by multiplier
    metrics: losses.Metrics
    located: Located  #: the batch on this map


@th.no_grad()
def locate(policy: ProQPolicy, batch: GoalBatch) -> Located:
    """Find a batch on the map."""
    locations = policy.locate(th.cat([batch.achieved_goals, batch.next_achieved_goals]))
    return Located(locations.chunk(2)[0], *policy.embed(locations).chunk(2))


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
    states, next_states, value_goals = (
        policy.goal_scaler(x) for x in (batch.achieved_goals, batch.next_achieved_goals, batch.value_goals)
    )
    between, beyond = th.rand(2, len(states), 1, generator=generator, device=states.device)
    interpolated = states + between * (value_goals - states)
    extrapolated = states - beyond * (value_goals - states)
    points = th.cat([states, next_states, value_goals, interpolated, extrapolated])
    z, z_next, z_value, z_between, z_beyond = policy.encode_standard(points).chunk(5)
    here, following, goals = policy.embedder(th.cat([z, z_next, z_value])).chunk(3)
    classified = th.cat([z, z_between, z_beyond]), th.cat([states, interpolated, extrapolated])
    in_data, in_between, in_beyond = policy.classify(*classified).chunk(3)

    representation, metrics = losses.representation_loss(z)
    close, close_metrics = losses.close_loss(policy.quasimetric(here, following), settings.close_margin)
    far, far_metrics = losses.far_loss(
        policy.quasimetric(here, goals), settings.far_offset, settings.far_scale, settings.far_focus
    )
    ood, ood_metrics = losses.ood_loss(in_data, in_between, in_beyond, multipliers["ood"], settings.bounded_ood)
    loss = representation + multipliers["dist"] * close + far + ood
    violations = {"dist": close, "ood": losses.compliance_violation(in_data, settings.compliance)}
    located = Located(
        th.cat([z, states], dim=-1).detach(),
        policy.with_coordinates(here, states).detach(),
        policy.with_coordinates(following, next_states).detach(),
    )
    return MapObjective(loss, violations, metrics | close_metrics | far_metrics | ood_metrics | {"loss": loss}, located)


def actor_objective(
    policy: ProQPolicy,
    batch: GoalBatch,
    located: Located,
    temperature: float,
    max_weight: float,
    generator: th.Generator | None,
) -> tuple[th.Tensor, losses.Metrics]:
    """
    Part (C), of the actor; the map is taken as it is.

    :param policy: map and actor
    :param batch: transitions and actor goals
    :param located: the batch on the map
    :param temperature: α
    :param max_weight: upper bound of the weight of a transition
    :param generator: draws the dropout masks
    """
    with th.no_grad():
        targets = policy.locate(batch.actor_goals)
        goals = policy.embed(targets)
        distances = policy.distances(located.embeddings, goals)
        next_distances = policy.distances(located.next_embeddings, goals)
    mean, std = policy.action_distribution(batch.observations, located.locations, targets, generator)
    actions = policy.scale_actions(batch.actions)
    log_probs = th.distributions.Normal(mean, std, validate_args=False).log_prob(actions).sum(dim=-1)
    # Imitate the more, the more a step shortens the way (Eqs. 10 and 11).
    loss, metrics = awr_loss(log_probs, distances - next_distances, temperature, max_weight)
    return loss, {"actor_loss": loss, "advantage": metrics["adv"], "log_prob": log_probs.mean()}
