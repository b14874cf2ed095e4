"""The policy of HIQL: an actor that chooses subgoals, one that heads for them, and values of states."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import ClassVar

import torch as th
from gymnasium import spaces
from stable_baselines3.common.type_aliases import Schedule
from torch.nn import functional as F

from proq_agent.common.goal_networks import EnsembleMLP, GoalActor, GoalValue, slow_copy
from proq_agent.common.goal_policy import GoalPolicy


class HIQLPolicy(GoalPolicy):
    """
    A goal is known to the values V_i(s, ρ(s, g)) and to the low-level actor μ(s, ρ(s, g)) by its representation ρ, a
    vector of length √dim. What the high-level actor returns is the representation of the subgoal to head for.

    The arguments not listed are those of :class:`~proq_agent.common.goal_policy.GoalPolicy`.

    :param representation_dim: size of ρ
    """

    constructor: ClassVar[tuple[str, ...]] = (*GoalPolicy.constructor, "representation_dim")
    chooses_subgoals = True
    batch_observations: ClassVar[tuple[str, ...]] = ("observations", "next_observations", "target_observations")
    batch_goals: ClassVar[tuple[str, ...]] = ("value_goals", "actor_goals", "low_actor_goals", "target_goals")

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Schedule | None = None,
        *,
        acting_std: float,
        representation_dim: int = 10,
        hidden_sizes: Sequence[int] = (512, 512, 512),
        standardise: bool = False,
        n_fourier_features: int = 0,
        fourier_scale: float = 2.0,
    ) -> None:
        self.representation_dim = representation_dim  # for `build`
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
        observation_dim, goal_dim, hidden_sizes, dim = (
            self.observation_dim, self.goal_dim, self.hidden_sizes, self.representation_dim,
        )  # fmt: skip
        self.representation = EnsembleMLP(observation_dim + goal_dim, hidden_sizes, dim)
        self.value = GoalValue(observation_dim, dim, hidden_sizes)
        self.target_value = slow_copy(self.value)
        self.high_actor = GoalActor(observation_dim, goal_dim, hidden_sizes, dim)
        self.actor = GoalActor(observation_dim, dim, hidden_sizes, self.action_dim)

    def represent(self, observations: th.Tensor, goals: th.Tensor) -> th.Tensor:
        """ρ(s, g)."""
        return _to_length(self.representation(th.cat([observations, goals], dim=-1)).squeeze(0))

    def low_level(self) -> HIQLPolicy:
        """The same policy, but it heads straight for its goal: for those who choose subgoals themselves."""
        other = copy.copy(self)
        other.chooses_subgoals = False
        return other

    def act(self, observations: th.Tensor, goals: th.Tensor, deterministic: bool = False) -> th.Tensor:
        if self.chooses_subgoals:
            subgoals = _to_length(self._draw(self.high_actor(observations, goals), deterministic))
        else:
            subgoals = self.represent(observations, goals)
        return super().act(observations, subgoals, deterministic)


def _to_length(vectors: th.Tensor) -> th.Tensor:
    return F.normalize(vectors, dim=-1) * math.sqrt(vectors.shape[-1])


MultiInputPolicy = HIQLPolicy
