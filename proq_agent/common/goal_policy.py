"""A policy that heads for ``desired_goal``: what the actors of the goal-conditioned algorithms share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule

from proq_agent.common.dataset import GoalDataset
from proq_agent.common.goal_networks import GoalActor
from proq_agent.common.networks import Standardise
from proq_agent.common.spaces import check_goal_spaces

Batch = TypeVar("Batch", bound=Any)


class GoalPolicy(BasePolicy):
    """
    An actor μ(s, g); subclasses add the values that it is learned from.

    :param observation_space: Dict with ``observation``, ``achieved_goal`` and ``desired_goal``
    :param action_space: bounded Box
    :param lr_schedule: not used here: the algorithm owns the optimiser
    :param hidden_sizes: hidden layers of every network
    :param standardise: shift and scale what the networks see by statistics of the data; OGBench does not
    :param acting_std: standard deviation of sampled actions, on a scale from -1 to 1
    """

    batch_observations: ClassVar[tuple[str, ...]] = ("observations", "next_observations")
    batch_goals: ClassVar[tuple[str, ...]] = ("achieved_goals", "next_achieved_goals", "value_goals", "actor_goals")
    action_low: th.Tensor
    action_high: th.Tensor

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Schedule | None = None,
        *,
        hidden_sizes: Sequence[int] = (512, 512, 512),
        standardise: bool = False,
        acting_std: float = 1.0,
    ) -> None:
        check_goal_spaces(observation_space, action_space)
        super().__init__(observation_space, action_space)
        assert isinstance(observation_space, spaces.Dict) and isinstance(action_space, spaces.Box)
        self.hidden_sizes, self.standardise, self.acting_std = tuple(hidden_sizes), standardise, acting_std
        self.generator: th.Generator | None = None  #: of sampled actions; None for PyTorch's own
        self.observation_dim: int = observation_space["observation"].shape[0]  # type: ignore[index]
        self.goal_dim: int = observation_space["achieved_goal"].shape[0]  # type: ignore[index]
        self.action_dim: int = action_space.shape[0]
        self.observation_scaler = Standardise(self.observation_dim)
        self.goal_scaler = Standardise(self.goal_dim)
        self.register_buffer("action_low", th.as_tensor(action_space.low, dtype=th.float32))
        self.register_buffer("action_high", th.as_tensor(action_space.high, dtype=th.float32))
        self.actor = self.make_actor()

    def make_actor(self) -> GoalActor:
        return GoalActor(self.observation_dim, self.goal_dim, self.hidden_sizes, self.action_dim)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        """For SB3's ``save`` and ``load`` of a policy alone."""
        names = ("observation_space", "action_space", "hidden_sizes", "standardise", "acting_std")
        return {name: getattr(self, name) for name in names}

    def fit(self, dataset: GoalDataset) -> None:
        """Take the statistics that inputs are standardised with, if they are."""
        if self.standardise:
            self.observation_scaler.fit(dataset.observations)
            self.goal_scaler.fit(dataset.achieved_goals)

    def scale_actions(self, actions: th.Tensor) -> th.Tensor:
        """From the action space to [-1, 1]."""
        return 2.0 * (actions - self.action_low) / (self.action_high - self.action_low) - 1.0

    def standardised(self, batch: Batch) -> Batch:
        """
        A batch as the networks see it: inputs standardised, actions scaled to [-1, 1].

        :param batch: a named tuple of tensors
        """
        return batch._replace(
            actions=self.scale_actions(batch.actions),
            **{name: self.observation_scaler(getattr(batch, name)) for name in self.batch_observations},
            **{name: self.goal_scaler(getattr(batch, name)) for name in self.batch_goals},
        )

    def _perturbed(self, mean: th.Tensor) -> th.Tensor:
        noise = th.randn(mean.shape, generator=self.generator, device=mean.device)
        return mean + self.acting_std * noise

    def act(self, observations: th.Tensor, goals: th.Tensor, deterministic: bool = False) -> th.Tensor:
        """
        Actions between -1 and 1.

        :param observations: standardised
        :param goals: standardised
        :param deterministic: the mean instead of a sample
        """
        mean = self.actor(observations, goals)
        return (mean if deterministic else self._perturbed(mean)).clamp(-1.0, 1.0)

    def forward(self, observation: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        return self._predict(observation, deterministic)

    def _predict(self, observation: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        assert isinstance(observation, dict)
        observations = self.observation_scaler(observation["observation"].float())
        goals = self.goal_scaler(observation["desired_goal"].float())
        actions = self.act(observations, goals, deterministic)
        return th.lerp(self.action_low, self.action_high, 0.5 * actions + 0.5)
