"""
How actors are learned: by imitation, weighted by advantages (AWR), or along the gradient of a value (DDPG+BC).

Pure functions of tensors that return ``(loss, metrics)``. Symbols: s, a, g are state, action and goal, π the actor,
whose Gaussian has the mean μ(s, g) and standard deviation 1, A the advantage of a, α a weight.
"""

from __future__ import annotations

import math
from typing import Literal

import torch as th

Metrics = dict[str, th.Tensor]

ActorLoss = Literal["ddpgbc", "awr"]


def imitation(mean: th.Tensor, actions: th.Tensor) -> tuple[th.Tensor, Metrics]:
    """
    How likely the actions of the data are, log π(a | s, g) of every row, and metrics of it.

    :param mean: μ(s, g)
    :param actions: a
    """
    squares = (actions - mean).square()
    log_probs = -0.5 * squares.sum(dim=-1) - 0.5 * mean.shape[-1] * math.log(2.0 * math.pi)
    mse = squares.mean()
    return log_probs, {"bc_log_prob": log_probs.mean(), "mse": mse, "std": th.ones_like(mse)}


def bc_loss(log_probs: th.Tensor) -> tuple[th.Tensor, Metrics]:
    """Behavioural cloning, -E[log π(a | s, g)]."""
    loss = -log_probs.mean()
    return loss, {"actor_loss": loss}


def awr_loss(
    log_probs: th.Tensor, advantages: th.Tensor, alpha: float, max_weight: float = 100.0
) -> tuple[th.Tensor, Metrics]:
    """
    Advantage-weighted regression, -E[min(exp(α·A), 100)·log π(a | s, g)].

    :param log_probs: log π(a | s, g)
    :param advantages: A, taken for constants
    :param alpha: α, the larger, the more only the best actions count
    :param max_weight: where weights are clipped
    """
    advantages = advantages.detach()
    weights = (alpha * advantages).clamp_max(math.log(max_weight)).exp()
    loss = -(weights * log_probs).mean()
    return loss, {"actor_loss": loss, "adv": advantages.mean()}


def ddpg_bc_loss(log_probs: th.Tensor, values: th.Tensor, alpha: float) -> tuple[th.Tensor, Metrics]:
    """
    Ascend a value and stay close to the data, -E[Q] / (E[|Q|] + 1e-6) - α·E[log π(a | s, g)].

    :param log_probs: log π(a | s, g)
    :param values: Q(s, clip(μ), g), differentiable in μ; divided by their size, so that α means the same everywhere
    :param alpha: α, weight of the imitation
    """
    size = values.abs().mean()
    q_loss = -values.mean() / (size.detach() + 1e-6)
    imitation_loss = -alpha * log_probs.mean()
    loss = q_loss + imitation_loss
    metrics = {"actor_loss": loss, "q_loss": q_loss, "bc_loss": imitation_loss, "q_mean": values.mean()}
    return loss, metrics | {"q_abs_mean": size}
