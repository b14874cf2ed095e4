"""The networks of the soft actor-critic that trains the walker behind the AntMaze data."""

from __future__ import annotations

import math

import torch as th
from torch import nn
from torch.nn import functional as F

from zoo.data.ant import ACTION_DIM, FEATURE_DIM

HIDDEN = 256


class Actor(nn.Module):
    """A Gaussian, squashed by tanh, whose mean is what :class:`~zoo.data.ant.Walker` does."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden_1 = nn.Linear(FEATURE_DIM, HIDDEN)
        self.hidden_2 = nn.Linear(HIDDEN, HIDDEN)
        self.action = nn.Linear(HIDDEN, ACTION_DIM)
        self.log_std = nn.Linear(HIDDEN, ACTION_DIM)

    def sample(self, features: th.Tensor, generator: th.Generator) -> tuple[th.Tensor, th.Tensor]:
        """Actions, in the order of the legs, and the logarithm of their density."""
        hidden = F.relu(self.hidden_2(F.relu(self.hidden_1(features))))
        log_std = -5.0 + 3.5 * (1.0 + th.tanh(self.log_std(hidden)))  # within [-5, 2]
        noise = th.randn(log_std.shape, generator=generator)
        raw = self.action(hidden) + log_std.exp() * noise
        log_density = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)
        log_squash = 2 * (math.log(2) - raw - F.softplus(-2 * raw))
        return th.tanh(raw), (log_density - log_squash).sum(dim=-1)


class Critics(nn.Module):
    """Two critics with layer normalisation, computed as one batched product."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((FEATURE_DIM + ACTION_DIM, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1))
        self.weights = nn.ParameterList([(th.rand(2, n, m) * 2 - 1) / n**0.5 for n, m in sizes])
        self.biases = nn.ParameterList([th.zeros(2, 1, m) for _, m in sizes])
        self.scales = nn.ParameterList([th.ones(2, 1, m) for _, m in sizes[:-1]])
        self.shifts = nn.ParameterList([th.zeros(2, 1, m) for _, m in sizes[:-1]])

    def forward(self, features: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """Two values a row, [2, batch]."""
        hidden = th.cat((features, actions), dim=-1).expand(2, -1, -1)
        for layer, (scale, shift) in enumerate(zip(self.scales, self.shifts, strict=True)):
            hidden = th.baddbmm(self.biases[layer], hidden, self.weights[layer])
            hidden = F.relu(F.layer_norm(hidden, (HIDDEN,)) * scale + shift)
        return th.baddbmm(self.biases[-1], hidden, self.weights[-1]).squeeze(-1)
