"""
The networks of goal-conditioned actors and values, as OGBench builds them.

Every network is an :class:`EnsembleMLP`; what it is given is standardised where that is wanted, and actions are scaled
to [-1, 1].
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch as th
from torch import nn
from torch.nn import functional as F

M = TypeVar("M", bound=nn.Module)

LAYER_NORM_EPSILON = 1e-6  # Flax's; PyTorch's own is ten times as large


class EnsembleMLP(nn.Module):
    """
    Perceptrons of equal shape side by side, evaluated as one: tanh-GELU units, then layer normalisation, and a linear
    output.

    :param input_dim: number of input features
    :param hidden_sizes: width of each hidden layer
    :param output_dim: number of outputs
    :param n_heads: number of perceptrons, which share their input
    :param layer_norm: normalise after each activation
    :param output_scale: scale of the variance that the output's weights start with
    """

    def __init__(
        self,
        input_dim: int,
        hidden_sizes: Sequence[int],
        output_dim: int,
        *,
        n_heads: int = 1,
        layer_norm: bool = True,
        output_scale: float = 1.0,
    ) -> None:
        super().__init__()
        widths = [input_dim, *hidden_sizes, output_dim]
        if min(*widths, n_heads) < 1:
            raise ValueError(f"a network needs one unit or more in each layer, got {widths} in {n_heads} heads")
        shapes = list(itertools.pairwise(widths))
        self.weights = nn.ParameterList(nn.Parameter(th.empty(n_heads, a, b)) for a, b in shapes)
        self.biases = nn.ParameterList(nn.Parameter(th.zeros(n_heads, 1, b)) for _, b in shapes)
        normed = hidden_sizes if layer_norm else ()
        self.gains = nn.ParameterList(nn.Parameter(th.ones(n_heads, 1, width)) for width in normed)
        self.shifts = nn.ParameterList(nn.Parameter(th.zeros(n_heads, 1, width)) for width in normed)
        for (a, b), weight in zip(shapes, self.weights, strict=True):
            limit = math.sqrt(6.0 / (a + b))
            nn.init.uniform_(weight, -limit, limit)
        with th.no_grad():
            self.weights[-1].mul_(math.sqrt(output_scale))

    def forward(self, x: th.Tensor) -> th.Tensor:
        """
        :param x: ``[batch, input_dim]``
        :return: ``[n_heads, batch, output_dim]``
        """
        *hidden, output = zip(self.biases, self.weights, strict=True)
        x = x.expand(len(output[1]), *x.shape)
        for layer, (bias, weight) in enumerate(hidden):
            x = F.gelu(th.baddbmm(bias, x, weight), approximate="tanh")
            if len(self.gains):
                x = F.layer_norm(x, x.shape[-1:], eps=LAYER_NORM_EPSILON)
                x = th.addcmul(self.shifts[layer], x, self.gains[layer])
        return th.baddbmm(output[0], x, output[1])


class GoalActor(nn.Module):
    """
    π(· | s, g): the mean of a Gaussian with standard deviation 1, without a bound.

    :param observation_dim: size of s
    :param goal_dim: size of g
    :param hidden_sizes: hidden layers
    :param action_dim: size of the actions
    """

    def __init__(self, observation_dim: int, goal_dim: int, hidden_sizes: Sequence[int], action_dim: int) -> None:
        super().__init__()
        # Small outputs, so that the first actions are close to zero.
        self.net = EnsembleMLP(
            observation_dim + goal_dim, hidden_sizes, action_dim, layer_norm=False, output_scale=0.01
        )

    def forward(self, observations: th.Tensor, goals: th.Tensor) -> th.Tensor:
        return self.net(th.cat([observations, goals], dim=-1)).squeeze(0)


class GoalValue(nn.Module):
    """
    V(s, g), or Q(s, a, g) if there are actions.

    :param observation_dim: size of s
    :param goal_dim: size of g
    :param hidden_sizes: hidden layers
    :param action_dim: size of a; 0 for a value of states
    :param n_heads: number of independent estimates
    """

    def __init__(
        self,
        observation_dim: int,
        goal_dim: int,
        hidden_sizes: Sequence[int],
        *,
        action_dim: int = 0,
        n_heads: int = 2,
    ) -> None:
        super().__init__()
        self.net = EnsembleMLP(observation_dim + goal_dim + action_dim, hidden_sizes, 1, n_heads=n_heads)

    def forward(self, observations: th.Tensor, goals: th.Tensor, *actions: th.Tensor) -> th.Tensor:
        """
        :return: ``[n_heads, batch]``
        """
        return self.net(th.cat([observations, goals, *actions], dim=-1)).squeeze(-1)


@contextmanager
def frozen(*modules: nn.Module) -> Iterator[None]:
    """Inside, gradients pass through these modules to their inputs but do not reach their weights."""
    learned = [p for module in modules for p in module.parameters() if p.requires_grad]
    for parameter in learned:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learned:
            parameter.requires_grad_(True)


def slow_copy(module: M) -> M:
    """A copy that no optimiser moves, see :func:`update_target`."""
    return copy.deepcopy(module).requires_grad_(False)


@th.no_grad()
def update_target(target: nn.Module, online: nn.Module, tau: float) -> None:
    """
    Polyak averaging, θ̄ ← τ·θ + (1 - τ)·θ̄.

    :param target: the slow network
    :param online: the learned one
    :param tau: τ
    """
    th._foreach_lerp_(list(target.parameters()), list(online.parameters()), tau)
