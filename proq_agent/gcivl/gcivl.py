"""GCIVL: goal-conditioned implicit V-learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule

from proq_agent.common.actor_losses import Metrics, awr_loss, imitation
from proq_agent.common.dataset import GoalDataset
from proq_agent.common.distributed import whole
from proq_agent.common.goal_conditioned import GoalConditioned, HindsightGoals, named
from proq_agent.common.goal_networks import update_target
from proq_agent.common.goal_sampling import GoalBatch
from proq_agent.common.settings import as_settings
from proq_agent.common.value_losses import implicit_value_loss
from proq_agent.gcivl.policies import GCIVLPolicy


class GCIVL(GoalConditioned):
    """
    Goal-conditioned implicit V-learning: implicit Q-learning without Q, as HIQL's values (Park et al., 2023).

    An update draws transitions (s, a, s') with value goals g_v and actor goals g_a and descends

    * the values' loss: an expectile of what follows, V(s, g_v) ≈ r + γ·V(s', g_v), where the better outcomes count,
    * the actor's loss: log π(a | s, g_a) weighted by exp(α·(V(s', g_a) - V(s, g_a))).

    ``num_timesteps`` counts gradient updates; no environment is needed to learn. Defaults are OGBench's. The arguments
    not listed are those of :class:`~proq_agent.proq.proq.ProQ`.

    :param policy: ``"MultiInputPolicy"`` or a subclass of :class:`~proq_agent.gcivl.policies.GCIVLPolicy`
    :param alpha: α, how much the better actions count
    :param expectile: κ, close to 1 the best outcomes decide
    :param tau: how much of the values their slow copies take over in an update
    :param goals: how goals are drawn, and the discount γ
    :param acting_std: standard deviation of sampled actions, on a scale from -1 to 1; the actor is learned with 1
    :param policy_kwargs: sizes of the networks, see :class:`~proq_agent.gcivl.policies.GCIVLPolicy`
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"MultiInputPolicy": GCIVLPolicy}
    updates_at_equal_time: ClassVar[float] = 1.15
    policy: GCIVLPolicy

    def __init__(
        self,
        policy: str | type[GCIVLPolicy] = "MultiInputPolicy",
        env: GymEnv | str | None = None,
        learning_rate: float | Schedule = 3e-4,
        batch_size: int = 1024,
        alpha: float = 10.0,
        expectile: float = 0.9,
        tau: float = 0.005,
        goals: HindsightGoals | Mapping[str, Any] | None = None,
        acting_std: float = 1.0,
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
            as_settings(HindsightGoals, goals),
            acting_std,
            policy_kwargs=policy_kwargs,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            verbose=verbose,
            seed=seed,
            device=device,
            dataset=dataset,
            observation_space=observation_space,
            action_space=action_space,
        )
        self.alpha = alpha
        self.expectile = expectile
        self.tau = tau
        self.require_numbers("alpha", "expectile", "tau")
        self.require(alpha >= 0.0, "alpha", "not be negative")
        self.require(0.0 < expectile < 1.0, "expectile", "lie strictly between 0 and 1")
        self.require(0.0 < tau <= 1.0, "tau", "lie in (0, 1]")
        self._finish_init(_init_setup_model, dataset)

    def loss(self, batch: GoalBatch) -> tuple[th.Tensor, Metrics]:
        """
        The values' and the actor's.

        :param batch: transitions and goals
        """
        policy, goals = self.policy, batch.actor_goals
        with th.no_grad():
            target_values = policy.target_value(batch.observations, batch.value_goals)
            next_target_values = policy.target_value(batch.next_observations, batch.value_goals)
            advantages = policy.value(batch.next_observations, goals) - policy.value(batch.observations, goals)
        values = policy.value(batch.observations, batch.value_goals)
        values, target_values, next_target_values, rewards, masks = whole(
            values, target_values, next_target_values, batch.rewards, batch.masks
        )
        value_loss, value_metrics = implicit_value_loss(
            values, target_values, next_target_values, rewards, masks, self.goals.discount, self.expectile
        )
        mean = policy.actor(batch.observations, goals)
        log_probs, metrics = imitation(*whole(mean, batch.actions, dim=-2))
        actor_loss, actor_metrics = awr_loss(log_probs, whole(advantages.mean(dim=0)), self.alpha)
        return value_loss + actor_loss, named("value", value_metrics) | named("actor", actor_metrics, metrics)

    def update_targets(self) -> None:
        update_target(self.policy.target_value, self.policy.value, self.tau)
