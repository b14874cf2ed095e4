"""The policy of QRL: actor, quasimetric and a model of the latent dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch as th
from gymnasium import spaces
from stable_baselines3.common.type_aliases import Schedule
from torch import nn

from proq_agent.common.goal_networks import EnsembleMLP
from proq_agent.common.goal_policy import GoalPolicy
from proq_agent.quasimetric.iqe import Quasimetric
from proq_agent.quasimetric.mrn import MetricResidual


class QRLPolicy(GoalPolicy):
    """
    μ(s, g), the distance d(φ(x), φ(y)) between points of goal space, φ(s') ≈ φ(s) + f(φ(s), a), and the multiplier λ.

    The distance compares like with like, so that φ sees ``achieved_goal``: only the actor sees the whole observation.
    The arguments not listed are those of :class:`~proq_agent.common.goal_policy.GoalPolicy`.

    :param with_dynamics: have a model f of the latent dynamics
    :param quasimetric: ``"iqe"`` or ``"mrn"``
    :param latent_dim: size of φ
    :param component_size: number of intervals in each component of IQE
    """

    constructor: ClassVar[tuple[str, ...]] = (
        *GoalPolicy.constructor, "with_dynamics", "quasimetric", "latent_dim", "component_size",
    )  # fmt: skip

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Schedule | None = None,
        *,
        acting_std: float,
        with_dynamics: bool,
        quasimetric: Literal["iqe", "mrn"] = "iqe",
        latent_dim: int = 512,
        component_size: int = 8,
        hidden_sizes: Sequence[int] = (512, 512, 512),
        standardise: bool = False,
        n_fourier_features: int = 0,
        fourier_scale: float = 2.0,
    ) -> None:
        if quasimetric not in ("iqe", "mrn"):
            raise ValueError(f"quasimetric must be iqe or mrn, got {quasimetric!r}")
        if quasimetric == "iqe" and latent_dim % component_size:
            raise ValueError(f"latent_dim must be a multiple of component_size {component_size}, got {latent_dim}")
        self.with_dynamics, self.quasimetric = with_dynamics, quasimetric  # for `build`
        self.latent_dim, self.component_size = latent_dim, component_size
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
        self.encoder = EnsembleMLP(self.goal_dim, self.hidden_sizes, self.latent_dim)
        is_iqe = self.quasimetric == "iqe"
        self.distance = Quasimetric(self.latent_dim // self.component_size) if is_iqe else MetricResidual()
        self.log_multiplier = nn.Parameter(th.zeros(()))
        if self.with_dynamics:
            self.dynamics = EnsembleMLP(self.latent_dim + self.action_dim, self.hidden_sizes, self.latent_dim)

    def encode(self, goals: th.Tensor) -> th.Tensor:
        """φ, of points of goal space."""
        return self.encoder(goals).squeeze(0)

    def step(self, latents: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """Where an action leads, φ(s) + f(φ(s), a)."""
        return latents + self.dynamics(th.cat([latents, actions], dim=-1)).squeeze(0)


MultiInputPolicy = QRLPolicy
