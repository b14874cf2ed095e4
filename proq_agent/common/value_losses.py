"""
How values of goals are learned by expectile regression.

Pure functions of tensors that return ``(loss, metrics)``. Symbols: V and Q are values, V̄ a slow copy, r the reward and
m the mask of a transition (s, a, s') towards g: r = 0 and m = 0 where s is the goal, r = -1 and m = 1 elsewhere. γ is
the discount and ℓ_κ(A, x) = |κ - 1(A < 0)|·x² the expectile loss.
"""

from __future__ import annotations

import torch as th

Metrics = dict[str, th.Tensor]


def expectile_loss(advantages: th.Tensor, differences: th.Tensor, expectile: float) -> th.Tensor:
    """
    ℓ_κ(A, x), elementwise.

    :param advantages: A, whose signs alone count
    :param differences: x
    :param expectile: κ; close to 1 the best outcomes decide
    """
    return th.where(advantages >= 0, expectile, 1.0 - expectile) * differences.square()


def implicit_value_loss(
    values: th.Tensor,
    target_values: th.Tensor,
    next_target_values: th.Tensor,
    rewards: th.Tensor,
    masks: th.Tensor,
    discount: float,
    expectile: float,
) -> tuple[th.Tensor, Metrics]:
    """
    Implicit V-learning, Σ_i E[ℓ_κ(A, r + γ·m·V̄_i(s', g) - V_i(s, g))].

    The sign of A = r + γ·m·min_i V̄_i(s', g) - mean_i V̄_i(s, g) is taken from the slow networks alone: as with double
    Q-learning, the networks that judge an outcome are not those that learn from it.

    :param values: ``[2, batch]``, V_i(s, g)
    :param target_values: ``[2, batch]``, V̄_i(s, g), constants
    :param next_target_values: ``[2, batch]``, V̄_i(s', g), constants
    :param rewards: ``[batch]``, r
    :param masks: ``[batch]``, m
    :param discount: γ
    :param expectile: κ
    """
    backups = rewards + discount * masks * next_target_values
    advantages = backups.amin(dim=0) - target_values.mean(dim=0)
    loss = expectile_loss(advantages, backups - values, expectile).mean(dim=1).sum()
    return loss, {"value_loss": loss, **spread("v", values.mean(dim=0))}


def spread(name: str, values: th.Tensor) -> Metrics:
    """Mean, largest and smallest of these values, as metrics."""
    return {f"{name}_mean": values.mean(), f"{name}_max": values.amax(), f"{name}_min": values.amin()}
