"""A small algorithm, for tests that nothing but the registry and its own hyperparameter file knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule
from torch import nn

from proq_agent.common.dataset import GoalDataset
from proq_agent.common.goal_sampling import GoalSampling
from proq_agent.common.offline import OfflineAlgorithm
from proq_agent.common.settings import Settings, as_settings

HYPERPARAMS = """
default: &default
  n_timesteps: 8
  batch_size: 16
  learning_rate: lin_1.0e-2_1.0e-3
  goals:
    actor: {future_uniform: 1.0}
paper: {<<: *default, n_timesteps: 9}
search:
  learning_rate: {low: 1.0e-3, high: 1.0e-2, log: true, form: decay}
  goals.discount: {low: 2.0, high: 20.0, form: horizon}
  policy_kwargs.width: {choices: [4, 8]}
ablations:
  narrow: ["policy_kwargs.width:2"]
"""


@dataclass(frozen=True)
class ActingSettings(Settings):
    """
    What may change without training.

    :param noise: standard deviation of sampled actions
    """

    noise: float = 0.1


class CloningPolicy(BasePolicy):
    """A hidden layer from observation and goal to the action."""

    generator: th.Generator | None = None
    noise = 0.0

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Schedule | None = None,
        *,
        width: int = 8,
        activations: Sequence[str] = ("tanh",),
    ) -> None:
        super().__init__(observation_space, action_space)
        assert isinstance(observation_space, spaces.Dict)
        inputs = sum(observation_space[key].shape[0] for key in ("observation", "desired_goal"))  # type: ignore[index]
        self.net = nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, action_space.shape[0]))  # type: ignore[index]

    def forward(self, observations: th.Tensor, goals: th.Tensor) -> th.Tensor:
        return self.net(th.cat([observations, goals], dim=1))

    def _predict(self, observation: Any, deterministic: bool = False) -> th.Tensor:
        actions = self(observation["observation"], observation["desired_goal"])
        if not deterministic:
            actions = actions + self.noise * th.randn(actions.shape, generator=self.generator)
        return actions.clamp(-1.0, 1.0)


class TinyCloning(OfflineAlgorithm):
    """Does what the data did on the way to a goal."""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"MultiInputPolicy": CloningPolicy}
    policy: CloningPolicy
    stateful: ClassVar[tuple[str, ...]] = ("optimizer",)

    def __init__(
        self,
        policy: str | type[CloningPolicy] = "MultiInputPolicy",
        env: GymEnv | str | None = None,
        learning_rate: float | Schedule = 1e-3,
        batch_size: int = 32,
        goals: GoalSampling | dict[str, Any] | None = None,
        acting: ActingSettings | dict[str, Any] | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
        _init_setup_model: bool = True,
        dataset: GoalDataset | None = None,
        observation_space: spaces.Space | None = None,
        action_space: spaces.Space | None = None,
    ) -> None:
        super().__init__(
            policy,
            env,
            learning_rate,
            batch_size,
            dataset=dataset,
            observation_space=observation_space,
            action_space=action_space,
            policy_kwargs=policy_kwargs,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            seed=seed,
            device=device,
        )
        self.goals = as_settings(GoalSampling, goals)
        self.acting = as_settings(ActingSettings, acting)
        self._finish_init(_init_setup_model, dataset)

    @classmethod
    def acting_settings(cls, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        return ("acting",)

    def _setup_training(self) -> None:
        self.optimizer = self._adam(self.policy.parameters())
        self.policy.noise = self.acting.noise

    def train(self) -> None:
        assert self.dataset is not None
        self.policy.set_training_mode(True)
        batch = self.goals.sample(self.dataset, self.batch_size, self.generator)
        loss = (self.policy(batch.observations, batch.actor_goals) - batch.actions).square().mean()
        self._descend(self.optimizer, loss, {"actor_loss": loss})
        self._n_updates += 1

    def first_useful_evaluation(self, total: int) -> int:
        return total // 2
