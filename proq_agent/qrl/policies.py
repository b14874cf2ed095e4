"""The policy of QRL: actor, quasimetric and a model of the latent dynamics."""

from __future__ import annotations

from typing import Any

import torch as th
from torch import nn

from proq_agent.common.goal_networks import EnsembleMLP
from proq_agent.common.goal_policy import GoalPolicy
from proq_agent.quasimetric.iqe import Quasimetric
from proq_agent.quasimetric.mrn import MetricResidual

QUASIMETRICS = ("iqe", "mrn")


class QRLPolicy(GoalPolicy):
    """
    μ(s, g), the distance d(φ(x), φ(y)) between points of goal space, φ(s') ≈ φ(s) + f(φ(s), a), and the multiplier λ.

    The distance compares like with like, so that φ sees ``achieved_goal``. Only the actor sees the rest of the
    observation.

    :param args: as of :class:`~proq_agent.common.goal_policy.GoalPolicy`
    :param quasimetric: ``"iqe"`` or ``"mrn"``
    :param latent_dim: size of φ
    :param component_size: number of intervals in each component of IQE
    :param with_dynamics: have a model of the latent dynamics
    :param kwargs: as of :class:`~proq_agent.common.goal_policy.GoalPolicy`
    """

    def __init__(
        self,
        *args: Any,
        quasimetric: str = "iqe",
        latent_dim: int = 512,
        component_size: int = 8,
        with_dynamics: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if quasimetric not in QUASIMETRICS:
            raise ValueError(f"quasimetric must be one of {', '.join(QUASIMETRICS)}, got {quasimetric!r}")
        if quasimetric == "iqe" and latent_dim % component_size:
            raise ValueError(f"latent_dim {latent_dim} is no multiple of component_size {component_size}")
        self.latent_dim, self.component_size, self.with_dynamics = latent_dim, component_size, with_dynamics
        self.encoder = EnsembleMLP(self.goal_dim, self.hidden_sizes, latent_dim)
        self.quasimetric = Quasimetric(latent_dim // component_size) if quasimetric == "iqe" else MetricResidual()
        self.log_multiplier = nn.Parameter(th.zeros(()))
        if with_dynamics:
            self.dynamics = EnsembleMLP(latent_dim + self.action_dim, self.hidden_sizes, latent_dim)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("latent_dim", "component_size", "with_dynamics")}
        own["quasimetric"] = "iqe" if isinstance(self.quasimetric, Quasimetric) else "mrn"
        return super()._get_constructor_parameters() | own

    def encode(self, goals: th.Tensor) -> th.Tensor:
        """φ, of points of goal space."""
        return self.encoder(goals).squeeze(0)

    def step(self, latents: th.Tensor, actions: th.Tensor) -> th.Tensor:
        """Where an action leads, φ(s) + f(φ(s), a)."""
        return latents + self.dynamics(th.cat([latents, actions], dim=-1)).squeeze(0)


MultiInputPolicy = QRLPolicy
