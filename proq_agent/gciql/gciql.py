"""GCIQL: goal-conditioned implicit Q-learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, get_args

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule

from proq_agent.common.actor_losses import ActorLoss, Metrics, awr_loss, ddpg_bc_loss, imitation
from proq_agent.common.dataset import GoalDataset
from proq_agent.common.distributed import whole
from proq_agent.common.goal_conditioned import GoalConditioned, HindsightGoals, named
from proq_agent.common.goal_networks import frozen, update_target
from proq_agent.common.goal_sampling import GoalBatch
from proq_agent.common.settings import as_settings
from proq_agent.gciql import losses
from proq_agent.gciql.policies import GCIQLPolicy


class GCIQL(GoalConditioned):
    """
    Goal-conditioned implicit Q-learning (Kostrikov et al., 2022).

    An update draws transitions (s, a, s') with value goals g_v and actor goals g_a and descends

    * the value's loss: V(s, g_v) is an expectile of Q(s, a, g_v) over the actions of the data,
    * the critics' loss: Q(s, a, g_v) ≈ r + γ·V(s', g_v),
    * the actor's loss: either Q(s, μ(s, g_a), g_a) is ascended beside imitation (DDPG+BC), or log π(a | s, g_a) is
      weighted by exp(α·(Q(s, a, g_a) - V(s, g_a))) (AWR).

    ``num_timesteps`` counts gradient updates; no environment is needed to learn. Defaults are OGBench's. The arguments
    not listed are those of :class:`~proq_agent.proq.proq.ProQ`.

    :param policy: ``"MultiInputPolicy"`` or a subclass of :class:`~proq_agent.gciql.policies.GCIQLPolicy`
    :param alpha: α, weight of the imitation in DDPG+BC, or of the advantage in AWR
    :param actor_loss: ``"ddpgbc"`` or ``"awr"``
    :param expectile: κ, close to 1 the best actions decide
    :param tau: how much of the critics their slow copies take over in an update
    :param goals: how goals are drawn, and the discount γ
    :param acting_std: standard deviation of sampled actions, on a scale from -1 to 1; the actor is learned with 1
    :param policy_kwargs: sizes of the networks, see :class:`~proq_agent.gciql.policies.GCIQLPolicy`
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"MultiInputPolicy": GCIQLPolicy}
    policy: GCIQLPolicy

    def __init__(
        self,
        policy: str | type[GCIQLPolicy] = "MultiInputPolicy",
        env: GymEnv | str | None = None,
        learning_rate: float | Schedule = 3e-4,
        batch_size: int = 1024,
        alpha: float = 0.3,
        actor_loss: ActorLoss = "ddpgbc",
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
        self.actor_loss = actor_loss
        self.expectile = expectile
        self.tau = tau
        self.require_numbers("alpha", "expectile", "tau")
        self.require(alpha >= 0.0, "alpha", "not be negative")
        self.require(actor_loss in get_args(ActorLoss), "actor_loss", "be ddpgbc or awr")
        self.require(0.0 < expectile < 1.0, "expectile", "lie strictly between 0 and 1")
        self.require(0.0 < tau <= 1.0, "tau", "lie in (0, 1]")
        self._finish_init(_init_setup_model, dataset)

    def loss(self, batch: GoalBatch) -> tuple[th.Tensor, Metrics]:
        """
        The value's, the critics' and the actor's.

        :param batch: transitions and goals
        """
        policy = self.policy
        with th.no_grad():
            target_critics = policy.target_critic(batch.observations, batch.value_goals, batch.actions)
            next_values = policy.value(batch.next_observations, batch.value_goals).squeeze(0)
        values = policy.value(batch.observations, batch.value_goals).squeeze(0)
        critics = policy.critic(batch.observations, batch.value_goals, batch.actions)
        values, target_critics, critics, next_values, rewards, masks = whole(
            values, target_critics, critics, next_values, batch.rewards, batch.masks
        )
        value_loss, value_metrics = losses.value_loss(values, target_critics, self.expectile)
        critic_loss, critic_metrics = losses.critic_loss(critics, next_values, rewards, masks, self.goals.discount)
        actor_loss, actor_metrics = self._actor_loss(batch)
        metrics = named("value", value_metrics) | named("critic", critic_metrics) | named("actor", actor_metrics)
        return value_loss + critic_loss + actor_loss, metrics

    def _actor_loss(self, batch: GoalBatch) -> tuple[th.Tensor, Metrics]:
        policy, goals = self.policy, batch.actor_goals
        mean = policy.actor(batch.observations, goals)
        log_probs, metrics = imitation(*whole(mean, batch.actions, dim=-2))
        if self.actor_loss == "awr":
            with th.no_grad():
                critics = policy.critic(batch.observations, goals, batch.actions)
                values = policy.value(batch.observations, goals).squeeze(0)
            loss, own = awr_loss(log_probs, whole(critics.amin(dim=0) - values), self.alpha)
        else:
            with frozen(policy.critic):
                critics = policy.critic(batch.observations, goals, mean.clamp(-1.0, 1.0))
            loss, own = ddpg_bc_loss(log_probs, whole(critics.amin(dim=0)), self.alpha)
        return loss, own | metrics

    def update_targets(self) -> None:
        update_target(self.policy.target_critic, self.policy.critic, self.tau)
