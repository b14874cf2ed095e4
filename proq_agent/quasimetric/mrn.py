"""The metric residual network (MRN): a Euclidean distance plus a quasimetric that is the largest of differences."""

from __future__ import annotations

import torch as th
from torch import nn


class MetricResidual(nn.Module):
    """
    d(x, y) = ‖x₁ - y₁‖ + relu(max(x₂ - y₂)), of embeddings cut into halves. It has no weights.
    """

    def forward(self, x: th.Tensor, y: th.Tensor) -> th.Tensor:
        """
        :param x: embeddings ``[..., dim]`` of where to start
        :param y: embeddings of where to end
        :return: distances ``[...]``
        """
        difference = x - y
        symmetric, directed = difference.tensor_split([x.shape[-1] // 2], dim=-1)
        # The root has no slope at zero, where a state is compared with itself.
        return symmetric.square().sum(dim=-1).clamp_min(1e-12).sqrt() + directed.amax(dim=-1).relu()
