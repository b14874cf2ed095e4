"""CRL: contrastive reinforcement learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, get_args

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule

from proq_agent.common.actor_losses import ActorLoss, Metrics, awr_loss, ddpg_bc_loss, imitation
from proq_agent.common.dataset import GoalDataset
from proq_agent.common.distributed import whole
from proq_agent.common.goal_conditioned import GoalConditioned, HindsightGoals, named
from proq_agent.common.goal_networks import frozen
from proq_agent.common.goal_sampling import GoalBatch, GoalMixture
from proq_agent.common.settings import as_settings
from proq_agent.crl.losses import contrastive_loss
from proq_agent.crl.policies import CRLPolicy


@dataclass(frozen=True)
class CRLGoals(HindsightGoals):
    """Goals of values are what follows."""

    value: GoalMixture = field(default_factory=lambda: GoalMixture(future=1.0))


class CRL(GoalConditioned):
    """
    Contrastive reinforcement learning (Eysenbach et al., 2022).

    An update draws transitions (s, a) with value goals g_v of their future and actor goals g_a and descends

    * the critics' loss: f(s, a, g) = φ(s, a)ᵀψ(g) tells the g_v that follows s and a from those of the other rows,
    * the value's loss: likewise without actions (with AWR),
    * the actor's loss: either f(s, μ(s, g_a), g_a) is ascended beside imitation (DDPG+BC), or log π(a | s, g_a) is
      weighted by exp(α·(f(s, a, g_a) - f(s, g_a))) (AWR).

    ``num_timesteps`` counts gradient updates; no environment is needed to learn. Defaults are OGBench's. The arguments
    not listed are those of :class:`~proq_agent.proq.proq.ProQ`.

    :param policy: ``"MultiInputPolicy"`` or a subclass of :class:`~proq_agent.crl.policies.CRLPolicy`
    :param alpha: α, weight of the imitation in DDPG+BC, or of the advantage in AWR
    :param actor_loss: ``"ddpgbc"`` or ``"awr"``
    :param goals: how goals are drawn, and how far they lie ahead
    :param acting_std: standard deviation of sampled actions, on a scale from -1 to 1; the actor is learned with 1
    :param policy_kwargs: sizes of the networks, see :class:`~proq_agent.crl.policies.CRLPolicy`
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"MultiInputPolicy": CRLPolicy}
    updates_at_equal_time: ClassVar[float] = 0.9
    policy: CRLPolicy

    def __init__(
        self,
        policy: str | type[CRLPolicy] = "MultiInputPolicy",
        env: GymEnv | str | None = None,
        learning_rate: float | Schedule = 3e-4,
        batch_size: int = 1024,
        alpha: float = 0.1,
        actor_loss: ActorLoss = "ddpgbc",
        goals: CRLGoals | Mapping[str, Any] | None = None,
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
            as_settings(CRLGoals, goals),
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
        self.require_numbers("alpha")
        self.require(alpha >= 0.0, "alpha", "not be negative")
        self.require(actor_loss in get_args(ActorLoss), "actor_loss", "be ddpgbc or awr")
        self._finish_init(_init_setup_model, dataset)

    def _policy_arguments(self) -> dict[str, Any]:
        return super()._policy_arguments() | {"with_value": self.actor_loss == "awr"}

    def loss(self, batch: GoalBatch) -> tuple[th.Tensor, Metrics]:
        """
        The critics', the value's and the actor's.

        :param batch: transitions and goals
        """
        policy = self.policy
        steps = th.cat([batch.observations, batch.actions], dim=-1)
        loss, metrics = contrastive_loss(*whole(*policy.critic.embed(steps, batch.value_goals), dim=-2))
        metrics = named("critic", metrics)
        if self.actor_loss == "awr":
            embeddings = policy.value.embed(batch.observations, batch.value_goals)
            value_loss, value_metrics = contrastive_loss(*whole(*embeddings, dim=-2))
            loss, metrics = loss + value_loss, metrics | named("value", value_metrics)
        actor_loss, actor_metrics = self._actor_loss(batch, steps)
        return loss + actor_loss, metrics | named("actor", actor_metrics)

    def _actor_loss(self, batch: GoalBatch, steps: th.Tensor) -> tuple[th.Tensor, Metrics]:
        policy, goals = self.policy, batch.actor_goals
        mean = policy.actor(batch.observations, goals)
        log_probs, metrics = imitation(*whole(mean, batch.actions, dim=-2))
        if self.actor_loss == "awr":
            with th.no_grad():
                advantages = policy.critic(steps, goals).amin(dim=0) - policy.value(batch.observations, goals).squeeze(
                    0
                )
            loss, own = awr_loss(log_probs, whole(advantages), self.alpha)
        else:
            with frozen(policy.critic):
                chosen = th.cat([batch.observations, mean.clamp(-1.0, 1.0)], dim=-1)
                critics = policy.critic(chosen, goals)
            loss, own = ddpg_bc_loss(log_probs, whole(critics.amin(dim=0)), self.alpha)
        return loss, own | metrics
