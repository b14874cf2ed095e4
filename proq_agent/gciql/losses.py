"""
The losses of GCIQL besides the actor's, pure functions that return ``(loss, metrics)``.

Symbols as in :mod:`~proq_agent.common.value_losses`.
"""

from __future__ import annotations

import torch as th

from proq_agent.common.value_losses import Metrics, expectile_loss, spread


def value_loss(values: th.Tensor, target_critics: th.Tensor, expectile: float) -> tuple[th.Tensor, Metrics]:
    """
    V becomes the value of the better actions of the data, E[ℓ_κ(A, A)] with A = min_i Q̄_i(s, a, g) - V(s, g).

    :param values: ``[batch]``, V(s, g)
    :param target_critics: ``[2, batch]``, Q̄_i(s, a, g), constants
    :param expectile: κ
    """
    advantages = target_critics.amin(dim=0) - values
    loss = expectile_loss(advantages, advantages, expectile).mean()
    return loss, {"value_loss": loss, **spread("v", values)}


def critic_loss(
    critics: th.Tensor, next_values: th.Tensor, rewards: th.Tensor, masks: th.Tensor, discount: float
) -> tuple[th.Tensor, Metrics]:
    """
    One step ahead, Σ_i E[(Q_i(s, a, g) - r - γ·m·V(s', g))²].

    :param critics: ``[2, batch]``, Q_i(s, a, g)
    :param next_values: ``[batch]``, V(s', g), constants
    :param rewards: ``[batch]``, r
    :param masks: ``[batch]``, m
    :param discount: γ
    """
    backups = rewards + discount * masks * next_values
    loss = (critics - backups).square().mean(dim=1).sum()
    return loss, {"critic_loss": loss, **spread("q", backups)}
