"""QRL: quasimetric reinforcement learning."""

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
from proq_agent.qrl import losses
from proq_agent.qrl.policies import QRLPolicy


@dataclass(frozen=True)
class QRLGoals(HindsightGoals):
    """Goals of distances are any states."""

    value: GoalMixture = field(default_factory=lambda: GoalMixture(uniform=1.0))


class QRL(GoalConditioned):
    """
    Quasimetric reinforcement learning (Wang et al., 2023).

    An update draws transitions (s, a, s') with value goals g_v and actor goals g_a and descends

    * the distance's loss: λ·(d(s, s') ≤ 1) while d(s, g_v) is pushed up, so that d becomes the number of steps,
    * the dynamics' loss: φ(s') ≈ φ(s) + f(φ(s), a), measured by d (with DDPG+BC),
    * the actor's loss: either the distance that remains after μ(s, g_a), as the dynamics see it, is descended beside
      imitation (DDPG+BC), or log π(a | s, g_a) is weighted by exp(α·(d(s, g_a) - d(s', g_a))) (AWR).

    Distances are between points of goal space, see :class:`~proq_agent.qrl.policies.QRLPolicy`.

    ``num_timesteps`` counts gradient updates; no environment is needed to learn. Defaults are OGBench's. The arguments
    not listed are those of :class:`~proq_agent.proq.proq.ProQ`.

    :param policy: ``"MultiInputPolicy"`` or a subclass of :class:`~proq_agent.qrl.policies.QRLPolicy`
    :param alpha: α, weight of the imitation in DDPG+BC, or of the advantage in AWR
    :param actor_loss: ``"ddpgbc"`` or ``"awr"``
    :param margin: ε, by how much the squared cost of a step may exceed one
    :param goals: how goals are drawn; the discount does not matter to uniform ones
    :param acting_std: standard deviation of sampled actions, on a scale from -1 to 1; the actor is learned with 1
    :param policy_kwargs: sizes of the networks, see :class:`~proq_agent.qrl.policies.QRLPolicy`
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"MultiInputPolicy": QRLPolicy}
    updates_at_equal_time: ClassVar[float] = 0.85
    policy: QRLPolicy

    def __init__(
        self,
        policy: str | type[QRLPolicy] = "MultiInputPolicy",
        env: GymEnv | str | None = None,
        learning_rate: float | Schedule = 3e-4,
        batch_size: int = 1024,
        alpha: float = 0.003,
        actor_loss: ActorLoss = "ddpgbc",
        margin: float = 0.05,
        goals: QRLGoals | Mapping[str, Any] | None = None,
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
            as_settings(QRLGoals, goals),
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
        self.margin = margin
        self.require_numbers("alpha", "margin")
        self.require(alpha >= 0.0, "alpha", "not be negative")
        self.require(actor_loss in get_args(ActorLoss), "actor_loss", "be ddpgbc or awr")
        self.require(margin >= 0.0, "margin", "not be negative")
        self._finish_init(_init_setup_model, dataset)

    def _policy_arguments(self) -> dict[str, Any]:
        return super()._policy_arguments() | {"with_dynamics": self.actor_loss == "ddpgbc"}

    def loss(self, batch: GoalBatch) -> tuple[th.Tensor, Metrics]:
        """
        The distance's, the dynamics' and the actor's.

        :param batch: transitions and goals
        """
        policy = self.policy
        here, there, goals = policy.encode(
            th.cat([batch.achieved_goals, batch.next_achieved_goals, batch.value_goals])
        ).chunk(3)
        to_goals, to_next = whole(policy.distance(here, goals), policy.distance(here, there))
        loss, metrics = losses.distance_loss(to_goals, to_next, policy.log_multiplier, self.margin)
        metrics = named("value", metrics)
        if self.actor_loss == "ddpgbc":
            predicted = policy.step(here, batch.actions)
            distances = whole(policy.distance(there, predicted), policy.distance(predicted, there))
            dynamics_loss, dynamics_metrics = losses.dynamics_loss(*distances)
            loss, metrics = loss + dynamics_loss, metrics | named("dynamics", dynamics_metrics)
        actor_loss, actor_metrics = self._actor_loss(batch, here.detach(), there.detach())
        return loss + actor_loss, metrics | named("actor", actor_metrics)

    def _actor_loss(self, batch: GoalBatch, here: th.Tensor, there: th.Tensor) -> tuple[th.Tensor, Metrics]:
        policy = self.policy
        mean = policy.actor(batch.observations, batch.actor_goals)
        log_probs, metrics = imitation(*whole(mean, batch.actions, dim=-2))
        with th.no_grad():
            goals = policy.encode(batch.actor_goals)
        if self.actor_loss == "awr":
            with th.no_grad():
                advantages = policy.distance(here, goals) - policy.distance(there, goals)
            loss, own = awr_loss(log_probs, whole(advantages), self.alpha)
        else:
            with frozen(policy.dynamics, policy.distance):
                ahead = policy.step(here, mean.clamp(-1.0, 1.0))
                loss, own = ddpg_bc_loss(log_probs, whole(-policy.distance(ahead, goals)), self.alpha)
        return loss, own | metrics
