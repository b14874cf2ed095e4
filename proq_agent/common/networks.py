"""The network blocks of the paper's table 2: residual MLPs, input standardisation, random Fourier features."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch as th
from torch import nn

from proq_agent.common.distributed import own_uniform
from proq_agent.common.row_statistics import std_mean

if TYPE_CHECKING:
    from proq_agent.common.row_file import Rows

LEAST_STD = 1e-6  # a feature that varies less never changes


class MLP(nn.Module):
    """
    Hidden layers of GELU units, then a linear output.

    :param input_dim: number of input features
    :param hidden_sizes: width of each hidden layer
    :param output_dim: number of outputs
    :param residual: add each hidden layer's input to its output where the widths agree
    :param layer_norm: normalise before each activation
    :param dropout: share of the hidden units that is dropped in training
    """

    def __init__(
        self,
        input_dim: int,
        hidden_sizes: Sequence[int],
        output_dim: int,
        *,
        residual: bool = False,
        layer_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must lie in [0, 1), got {dropout}")
        if not all(width >= 1 for width in hidden_sizes):
            raise ValueError(f"hidden layers must be at least 1 wide, got {list(hidden_sizes)!r:.100}")
        widths = [input_dim, *hidden_sizes]
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.norms = nn.ModuleList(nn.LayerNorm(b) if layer_norm else nn.Identity() for b in hidden_sizes)
        self.output = nn.Linear(widths[-1], output_dim)
        self.skips = [residual and a == b for a, b in itertools.pairwise(widths)]
        self.dropout = dropout

    def forward(self, x: th.Tensor, generator: th.Generator | None = None) -> th.Tensor:
        """
        :param x: ``[..., input_dim]``
        :param generator: source of the dropout masks, so that they do not depend on torch's global state
        """
        for layer, norm, skip in zip(self.hidden, self.norms, self.skips, strict=True):
            h = nn.functional.gelu(norm(layer(x)))
            if self.dropout and self.training:
                keep = 1.0 - self.dropout
                h = h * (own_uniform(h.shape, generator, h.device) < keep) / keep
            x = h.add_(x) if skip else h
        return self.output(x)

    def layers(self) -> list[nn.Linear]:
        """Hidden layers and output."""
        return [*self.hidden, self.output]


class Standardise(nn.Module):
    """
    Shift and scale by statistics of the data, which are saved with the weights.

    :param dim: number of features
    """

    mean: th.Tensor
    std: th.Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", th.zeros(dim))
        self.register_buffer("std", th.ones(dim))

    def fit(self, data: Rows) -> None:
        """Take the statistics of ``data``; a feature that never changes is only shifted."""
        std, mean = std_mean(data)
        self.mean.copy_(mean)
        self.std.copy_(th.where(std > LEAST_STD, std, th.ones_like(std)))

    def forward(self, x: th.Tensor) -> th.Tensor:
        return (x - self.mean) / self.std

    def inverse(self, x: th.Tensor) -> th.Tensor:
        return x * self.std + self.mean


class FourierFeatures(nn.Module):
    """
    Append sines and cosines of random projections: an MLP alone is slow to learn the sharp turns of a maze.

    :param input_dim: number of input features
    :param n_features: number of features to append, half sines and half cosines; 0 leaves the input as it is
    :param scale: standard deviation of the frequencies
    """

    frequencies: th.Tensor

    def __init__(self, input_dim: int, n_features: int, scale: float) -> None:
        super().__init__()
        if n_features < 0 or n_features % 2:
            raise ValueError(f"the number of Fourier features must be even and not negative, got {n_features}")
        if not 0.0 <= scale < math.inf:
            raise ValueError(f"the scale of the Fourier features must be a number, 0 or more, got {scale}")
        self.register_buffer("frequencies", scale * th.randn(input_dim, n_features // 2))
        self.output_dim = input_dim + n_features

    def forward(self, x: th.Tensor) -> th.Tensor:
        if self.output_dim == x.shape[-1]:
            return x
        phases = x @ self.frequencies
        return th.cat([x, phases.sin(), phases.cos()], dim=-1)
