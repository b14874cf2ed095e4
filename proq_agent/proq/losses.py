"""
The losses of ProQ, one pure function for each equation of the paper; each returns ``(loss, metrics)``.

Symbols: φ is the encoder and ``latents`` z = φ(s) its output, d the quasimetric (functions here take distances that
are already computed), ψ the in-distribution classifier (``logits`` before its sigmoid), λ a multiplier.
A *violation* is positive where a constraint is broken; it drives the multiplier, see ``multipliers.py``.
"""

from __future__ import annotations

import math

import torch as th
from torch.nn import functional as F

Metrics = dict[str, th.Tensor]


def representation_loss(latents: th.Tensor, target_std: float = 1.0) -> tuple[th.Tensor, Metrics]:
    """Variance and covariance terms: every latent dimension varies, and no two say the same (Eqs. 4 and 5)."""
    n, dim = latents.shape
    centred = latents - latents.mean(dim=0)
    covariance = centred.T @ centred / (n - 1)
    variance = covariance.diagonal()
    variance_loss = F.relu(target_std - (variance + 1e-4).sqrt()).mean()
    covariance_loss = (covariance.square().sum() - variance.square().sum()) / dim
    return variance_loss + covariance_loss, {
        "variance_loss": variance_loss,
        "covariance_loss": covariance_loss,
    }


def close_loss(next_distances: th.Tensor, margin: float) -> tuple[th.Tensor, Metrics]:
    """One step costs at most one: squared excess of d(s, s') over 1, less the margin ε² (Eq. 3, first part).

    The loss is the violation of the constraint that λ_dist enforces.
    """
    loss = F.relu(next_distances - 1.0).square().mean() - margin**2
    return loss, {"close_violation": loss, "distance_next": next_distances.mean()}


def far_loss(
    goal_distances: th.Tensor, offset: float, scale: float, focus: float = math.inf
) -> tuple[th.Tensor, Metrics]:
    """Everything else is as far as it can be: a softplus that fades out beyond the offset μ (Eq. 6).

    The true distance is the largest for all pairs at once, so that it does not depend on how pairs are weighted. What
    is learned in finite time does: weighted alike, far pairs drown near ones, and pairs with no way between them, which
    are pushed for ever, bend the map around them.

    :param focus: distance at which a pair weighs half of what the closest weigh
    """
    weights = 1.0 / (1.0 + goal_distances.detach() / focus)
    losses = F.softplus((offset - goal_distances) * scale) / scale
    loss = (weights * losses).sum() / weights.sum()
    return loss, {"far_loss": loss, "distance_goal": goal_distances.mean()}


def ood_loss(
    data_logits: th.Tensor,
    interpolated_logits: th.Tensor,
    extrapolated_logits: th.Tensor,
    multiplier: th.Tensor,
    bounded: bool = True,
) -> tuple[th.Tensor, Metrics]:
    """Cross-entropy of ψ: states of the data against points between and beyond them (Eq. 7).

    :param multiplier: λ_ood
    :param bounded: divide by λ_ood where that exceeds one
    """
    positive = F.softplus(-data_logits).mean()
    negative = F.softplus(interpolated_logits).mean() + F.softplus(extrapolated_logits).mean()
    loss = multiplier * positive + negative
    if bounded:
        loss = loss / multiplier.clamp_min(1.0)
    metrics = {"ood_loss": loss, "psi_data": data_logits.sigmoid().mean()}
    metrics["psi_negative"] = th.cat([interpolated_logits, extrapolated_logits]).sigmoid().mean()
    return loss, metrics


def compliance_violation(logits: th.Tensor, compliance: float) -> th.Tensor:
    """How far the mean of ψ stays below 1 - δ: drives λ_ood (on data) and λ_kps (on keypoints)."""
    return (1.0 - compliance) - logits.sigmoid().mean()


def repel_loss(
    distances: th.Tensor,
    strength: float,
    range_: float,
    others: th.Tensor | None = None,
    charges: th.Tensor | None = None,
    epsilon: float = 1.0,
) -> tuple[th.Tensor, Metrics]:
    """Coulomb energy of all ordered pairs of keypoints that feel each other (Eq. 8).

    :param distances: ``[K, K]``, d from each keypoint to each, or to ``others``
    :param strength: weight of the energy
    :param range_: distance beyond which they do not
    :param others: ``[K, n]`` keypoints that each may feel, never itself; by default all others
    :param charges: ``[K]``, see :mod:`~proq_agent.proq.difficulty`; all 1 by default, as in the paper
    """
    acting = distances < range_
    if others is None:
        acting &= ~th.eye(len(distances), dtype=th.bool, device=distances.device)
    energies = 1.0 / (distances + epsilon)
    if charges is not None:
        energies = energies * charges[:, None] * (charges if others is None else charges[others])
    loss = strength * th.where(acting, energies, 0.0).sum()
    return loss, {"repel_loss": loss}


def barrier_loss(logits: th.Tensor, multiplier: th.Tensor) -> tuple[th.Tensor, Metrics]:
    """Entropic barrier that keeps keypoints where ψ says that the data is (Eq. 9)."""
    loss = multiplier * F.softplus(-logits).sum()
    return loss, {"barrier_loss": loss, "psi_keypoints": logits.sigmoid().mean()}
