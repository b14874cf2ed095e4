"""The policy of CRL: actor and bilinear values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch as th
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

    :param args: as of :class:`~proq_agent.common.goal_policy.GoalPolicy`
    :param latent_dim: size of φ and ψ
    :param with_value: have a value of states
    :param kwargs: as of :class:`~proq_agent.common.goal_policy.GoalPolicy`
    """

    def __init__(self, *args: Any, latent_dim: int = 512, with_value: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.latent_dim, self.with_value = latent_dim, with_value
        sizes = (self.goal_dim, self.hidden_sizes, latent_dim)
        self.critic = BilinearValue(self.observation_dim + self.action_dim, *sizes, n_heads=2)
        if with_value:
            self.value = BilinearValue(self.observation_dim, *sizes, n_heads=1)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        own = {"latent_dim": self.latent_dim, "with_value": self.with_value}
        return super()._get_constructor_parameters() | own


MultiInputPolicy = CRLPolicy
