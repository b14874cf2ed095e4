"""The policy of HIQL: an actor that chooses subgoals, one that heads for them, and values of states."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch as th
from torch.nn import functional as F

from proq_agent.common.goal_networks import EnsembleMLP, GoalActor, GoalValue, slow_copy
from proq_agent.common.goal_policy import GoalPolicy


class HIQLPolicy(GoalPolicy):
    """
    A goal is known to the values V_i(s, ρ(s, g)) and to the low-level actor μ(s, ρ(s, g)) by its representation ρ, a
    vector of length √dim, and what the high-level actor returns is that of the subgoal to head for.

    :param args: as of :class:`~proq_agent.common.goal_policy.GoalPolicy`
    :param representation_dim: size of ρ
    :param kwargs: as of :class:`~proq_agent.common.goal_policy.GoalPolicy`
    """

    batch_observations: ClassVar[tuple[str, ...]] = ("observations", "next_observations", "target_observations")
    batch_goals: ClassVar[tuple[str, ...]] = ("value_goals", "actor_goals", "low_actor_goals", "target_goals")

    def __init__(self, *args: Any, representation_dim: int = 10, **kwargs: Any) -> None:
        self.representation_dim = representation_dim
        super().__init__(*args, **kwargs)
        dims = (self.observation_dim, self.goal_dim)
        self.representation = EnsembleMLP(sum(dims), self.hidden_sizes, representation_dim)
        self.value = GoalValue(self.observation_dim, representation_dim, self.hidden_sizes)
        self.target_value = slow_copy(self.value)
        self.high_actor = GoalActor(*dims, self.hidden_sizes, representation_dim)

    def make_actor(self) -> GoalActor:
        return GoalActor(self.observation_dim, self.representation_dim, self.hidden_sizes, self.action_dim)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | {"representation_dim": self.representation_dim}

    def represent(self, observations: th.Tensor, goals: th.Tensor) -> th.Tensor:
        """ρ(s, g)."""
        return _to_length(self.representation(th.cat([observations, goals], dim=-1)).squeeze(0))

    def act(self, observations: th.Tensor, goals: th.Tensor, deterministic: bool = False) -> th.Tensor:
        subgoals = self.high_actor(observations, goals)
        subgoals = _to_length(subgoals if deterministic else self._perturbed(subgoals))
        return super().act(observations, subgoals, deterministic)


def _to_length(vectors: th.Tensor) -> th.Tensor:
    return F.normalize(vectors, dim=-1) * math.sqrt(vectors.shape[-1])


MultiInputPolicy = HIQLPolicy
