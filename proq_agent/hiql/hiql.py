"""HIQL: hierarchical implicit Q-learning."""

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
from proq_agent.common.settings import as_settings
from proq_agent.common.value_losses import implicit_value_loss
from proq_agent.hiql.policies import HIQLPolicy
from proq_agent.hiql.subgoals import SubgoalBatch, with_subgoals


class HIQL(GoalConditioned):
    """
    Hierarchical implicit Q-learning (Park et al., 2023).

    An update draws transitions (s, a, s') with value goals g_v, goals g_a of the high-level actor, and the states w
    that lie k steps ahead, and descends

    * the values' loss: an expectile of what follows, V(s, ρ(s, g_v)) ≈ r + γ·V(s', ρ(s', g_v)), see
      :class:`~proq_agent.gcivl.gcivl.GCIVL`; it also shapes the representation ρ of goals,
    * the low-level actor's loss: log π(a | s, ρ(s, w)) weighted by exp(α·(V(s', w) - V(s, w))),
    * the high-level actor's loss: log π(ρ(s, w) | s, g_a) weighted by exp(α·(V(w, g_a) - V(s, g_a))).

    ``predict`` asks the high-level actor for a subgoal and the low-level actor for the way to it, at every step.

    ``num_timesteps`` counts gradient updates; no environment is needed to learn. Defaults are OGBench's. The arguments
    not listed are those of :class:`~proq_agent.proq.proq.ProQ`.

    :param policy: ``"MultiInputPolicy"`` or a subclass of :class:`~proq_agent.hiql.policies.HIQLPolicy`
    :param low_alpha: α of the low-level actor, how much the better actions count
    :param high_alpha: α of the high-level actor, how much the better subgoals count
    :param subgoal_steps: k
    :param expectile: κ, close to 1 the best outcomes decide
    :param tau: how much of the values their slow copies take over in an update
    :param goals: how goals are drawn, and the discount γ; the actor's are those of the high level
    :param acting_std: standard deviation of sampled actions, on a scale from -1 to 1; the actor is learned with 1
    :param policy_kwargs: sizes of the networks, see :class:`~proq_agent.hiql.policies.HIQLPolicy`
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"MultiInputPolicy": HIQLPolicy}
    updates_at_equal_time: ClassVar[float] = 0.6
    policy: HIQLPolicy

    def __init__(
        self,
        policy: str | type[HIQLPolicy] = "MultiInputPolicy",
        env: GymEnv | str | None = None,
        learning_rate: float | Schedule = 3e-4,
        batch_size: int = 1024,
        low_alpha: float = 3.0,
        high_alpha: float = 3.0,
        subgoal_steps: int = 25,
        expectile: float = 0.7,
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
        self.low_alpha = low_alpha
        self.high_alpha = high_alpha
        self.subgoal_steps = subgoal_steps
        self.expectile = expectile
        self.tau = tau
        self.require_numbers("low_alpha", "high_alpha", "subgoal_steps", "expectile", "tau")
        self.require(low_alpha >= 0.0, "low_alpha", "not be negative")
        self.require(high_alpha >= 0.0, "high_alpha", "not be negative")
        self.require(
            isinstance(subgoal_steps, int) and subgoal_steps > 0, "subgoal_steps", "be a whole number, at least 1"
        )
        self.require(0.0 < expectile < 1.0, "expectile", "lie strictly between 0 and 1")
        self.require(0.0 < tau <= 1.0, "tau", "lie in (0, 1]")
        self._finish_init(_init_setup_model, dataset)

    @property
    def controller(self) -> HIQLPolicy:
        """The low level: its ``predict`` heads straight for ``desired_goal``, which should be near."""
        return self.policy.low_level()

    def draw(self, generator: th.Generator | None) -> SubgoalBatch:
        assert self.dataset is not None
        return with_subgoals(super().draw(generator), self.dataset, self.goals.actor, self.subgoal_steps)

    def loss(self, batch: SubgoalBatch) -> tuple[th.Tensor, Metrics]:
        """
        The values' and both actors'.

        :param batch: transitions, goals and subgoals
        """
        loss, metrics = self._value_loss(batch)
        for name, part in (("low_actor", self._low_actor_loss), ("high_actor", self._high_actor_loss)):
            actor_loss, actor_metrics = part(batch)
            loss, metrics = loss + actor_loss, metrics | named(name, actor_metrics)
        return loss, metrics

    def _value_loss(self, batch: SubgoalBatch) -> tuple[th.Tensor, Metrics]:
        policy, goals = self.policy, batch.value_goals
        representations = policy.represent(batch.observations, goals)
        with th.no_grad():
            next_representations = policy.represent(batch.next_observations, goals)
            target_values = policy.target_value(batch.observations, representations)
            next_target_values = policy.target_value(batch.next_observations, next_representations)
        values = policy.value(batch.observations, representations)
        values, target_values, next_target_values, rewards, masks = whole(
            values, target_values, next_target_values, batch.rewards, batch.masks
        )
        loss, metrics = implicit_value_loss(
            values, target_values, next_target_values, rewards, masks, self.goals.discount, self.expectile
        )
        return loss, named("value", metrics)

    @th.no_grad()
    def _advantages(
        self, observations: th.Tensor, representations: th.Tensor, following: th.Tensor, goals: th.Tensor
    ) -> th.Tensor:
        """V(s', g) - V(s, g), means of both values."""
        later = self.policy.value(following, self.policy.represent(following, goals))
        return (later - self.policy.value(observations, representations)).mean(dim=0)

    def _low_actor_loss(self, batch: SubgoalBatch) -> tuple[th.Tensor, Metrics]:
        """Act towards the state k steps ahead. Its representation is learned by the values alone."""
        observations, subgoals = batch.observations, batch.low_actor_goals
        with th.no_grad():
            representations = self.policy.represent(observations, subgoals)
        advantages = self._advantages(observations, representations, batch.next_observations, subgoals)
        mean = self.policy.actor(observations, representations)
        log_probs, metrics = imitation(*whole(mean, batch.actions, dim=-2))
        loss, own = awr_loss(log_probs, whole(advantages), self.low_alpha)
        return loss, own | metrics

    def _high_actor_loss(self, batch: SubgoalBatch) -> tuple[th.Tensor, Metrics]:
        """Choose the state k steps ahead, or the goal if that comes first."""
        observations, goals = batch.observations, batch.actor_goals
        with th.no_grad():
            chosen, representations = (self.policy.represent(observations, g) for g in (batch.target_goals, goals))
        advantages = self._advantages(observations, representations, batch.target_observations, goals)
        mean = self.policy.high_actor(observations, goals)
        log_probs, metrics = imitation(*whole(mean, chosen, dim=-2))
        loss, own = awr_loss(log_probs, whole(advantages), self.high_alpha)
        return loss, own | metrics

    def update_targets(self) -> None:
        update_target(self.policy.target_value, self.policy.value, self.tau)
