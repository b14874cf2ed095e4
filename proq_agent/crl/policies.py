"""The policy of CRL: actor and bilinear values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch as th
from gymnasium import spaces
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from proq_agent.common.goal_networks import EnsembleMLP
from proq_agent.common.goal_policy import GoalPolicy


class BilinearValue(nn.Module):
    """
    f(s, a, g) = φ(s, a)ᵀψ(g) / √dim, or f(s, g) without actions.

    :param input_dim: size of s, and of a
    :param goal_dim: size of g
    :param hidden_sizes: hidden layers of φ and ψ
    :param latent_dim: size of what they return
    :param n_heads: number of independent estimates
    """

    def __init__(
        self, input_dim: int, goal_dim: int, hidden_sizes: Sequence[int], latent_dim: int, n_heads: int
    ) -> None:
        super().__init__()
        self.phi = EnsembleMLP(input_dim, hidden_sizes, latent_dim, n_heads=n_heads)
        self.psi = EnsembleMLP(goal_dim, hidden_sizes, latent_dim, n_heads=n_heads)

    def embed(self, inputs: th.Tensor, goals: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """φ and ψ, ``[n_heads, batch, latent_dim]`` each."""
        return self.phi(inputs), self.psi(goals)

    def forward(self, inputs: th.Tensor, goals: th.Tensor) -> th.Tensor:
        """
        :return: ``[n_heads, batch]``
        """
        phi, psi = self.embed(inputs, goals)
        return (phi * psi).sum(dim=-1) / math.sqrt(phi.shape[-1])


class CRLPolicy(GoalPolicy):
    """
    μ(s, g) and two critics f_i(s, a, g); for advantages a value f(s, g), too.

    The arguments not listed are those of :class:`~proq_agent.common.goal_policy.GoalPolicy`.

    :param with_value: have a value of states
    :param latent_dim: size of φ and ψ
    """

    constructor: ClassVar[tuple[str, ...]] = (*GoalPolicy.constructor, "with_value", "latent_dim")

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Schedule | None = None,
        *,
        acting_std: float,
        with_value: bool,
        latent_dim: int = 512,
        hidden_sizes: Sequence[int] = (512, 512, 512),
        standardise: bool = False,
        n_fourier_features: int = 0,
        fourier_scale: float = 2.0,
    ) -> None:
        self.with_value, self.latent_dim = with_value, latent_dim  # for `build`
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            acting_std=acting_std,
            hidden_sizes=hidden_sizes,
            standardise=standardise,
            n_fourier_features=n_fourier_features,
            fourier_scale=fourier_scale,
        )

    def build(self) -> None:
        super().build()
        sizes = (self.goal_dim, self.hidden_sizes, self.latent_dim)
        self.critic = BilinearValue(self.observation_dim + self.action_dim, *sizes, n_heads=2)
        if self.with_value:
            self.value = BilinearValue(self.observation_dim, *sizes, n_heads=1)


MultiInputPolicy = CRLPolicy
