"""
The losses of QRL besides the actor's, pure functions that return ``(loss, metrics)``.

Symbols: d is the learned distance, a number of steps, φ what it compares, λ a multiplier.
"""

from __future__ import annotations

import torch as th
from torch.nn import functional as F

from proq_agent.common.value_losses import Metrics, spread


def distance_loss(
    goal_distances: th.Tensor, next_distances: th.Tensor, log_multiplier: th.Tensor, margin: float
) -> tuple[th.Tensor, Metrics]:
    """
    Everything is as far as it can be, E[100·softplus(5 - d(s, g) / 100)] + λ·c, while a step costs at most one,
    c = E[relu(d(s, s') - 1)²] ≤ ε; λ = exp(log λ) descends on λ·(ε - c), where c is a constant.

    :param goal_distances: d(s, g)
    :param next_distances: d(s, s')
    :param log_multiplier: log λ
    :param margin: ε
    """
    multiplier = log_multiplier.exp()
    far = 100.0 * F.softplus(5.0 - goal_distances / 100.0).mean()
    close = F.relu(next_distances - 1.0).square().mean()
    value = far + close * multiplier.detach()
    multiplier_loss = multiplier * (margin - close.detach())
    loss = value + multiplier_loss
    return loss, {
        "total_loss": loss,
        "value_loss": value,
        "lam_loss": multiplier_loss,
        "lam": multiplier,
        "d_neg_loss": far,
        "d_pos_loss": close,
        **spread("d_neg", goal_distances),
        **spread("d_pos", next_distances),
    }


def dynamics_loss(there: th.Tensor, back: th.Tensor) -> tuple[th.Tensor, Metrics]:
    """
    A predicted state is where the true one is, E[d(s', ŝ') + d(ŝ', s')] / 2.

    :param there: d(s', ŝ')
    :param back: d(ŝ', s')
    """
    loss = (there + back).mean() / 2.0
    return loss, {"dynamics_loss": loss}
