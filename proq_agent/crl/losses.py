"""The contrastive loss of CRL, a pure function that returns ``(loss, metrics)``."""

from __future__ import annotations

import math

import torch as th
from torch.nn import functional as F

from proq_agent.common.value_losses import Metrics, spread


def contrastive_loss(phi: th.Tensor, psi: th.Tensor) -> tuple[th.Tensor, Metrics]:
    """
    Tell the goal that follows a state and action from those of the rest of the batch, by binary cross-entropy:
    E_i,j[softplus(f_ij)] - E_i[f_ii] / batch, with f_ij = φ(s_i, a_i)ᵀψ(g_j) / √dim, the mean over heads.

    Then exp(f) is proportional to how much likelier than others g is to be reached, the (contrastive) value.

    :param phi: ``[heads, batch, dim]``, φ(s, a) or φ(s)
    :param psi: ``[heads, batch, dim]``, ψ(g), row by row the goals that follow
    """
    batch = phi.shape[1]
    logits = phi @ psi.mT / math.sqrt(phi.shape[-1])
    own = logits.diagonal(dim1=1, dim2=2)
    loss = F.softplus(logits).mean() - own.mean() / batch
    with th.no_grad():
        mean = logits.mean(dim=0)
        diagonal, total = mean.diagonal(), mean.sum()
        positive = (mean > 0).sum()
        hits = (diagonal > 0).sum()
        metrics = {
            "contrastive_loss": loss,
            **spread("v", own.exp()),
            "binary_accuracy": (batch * batch - batch - positive + 2 * hits) / batch**2,
            "categorical_accuracy": (mean.argmax(dim=1) == th.arange(batch, device=mean.device)).float().mean(),
            "logits_pos": diagonal.mean(),
            "logits_neg": (total - diagonal.sum()) / (batch * batch - batch),
            "logits": total / batch**2,
        }
    return loss, metrics
