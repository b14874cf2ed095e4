"""GCBC: goal-conditioned behavioural cloning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule

from proq_agent.common.actor_losses import Metrics, bc_loss, imitation
from proq_agent.common.dataset import GoalDataset
from proq_agent.common.distributed import whole
from proq_agent.common.goal_conditioned import GoalConditioned, HindsightGoals, named
from proq_agent.common.goal_policy import GoalPolicy
from proq_agent.common.goal_sampling import GoalBatch
from proq_agent.common.settings import as_settings


class GCBC(GoalConditioned):
    """
    Goal-conditioned behavioural cloning (Ghosh et al., 2021): imitate what led to a goal.

    An update draws transitions (s, a) with goals g_a of their future and descends -E[log π(a | s, g_a)].

    ``num_timesteps`` counts gradient updates; no environment is needed to learn. Defaults are OGBench's. The arguments
    not listed are those of :class:`~proq_agent.proq.proq.ProQ`.

    :param policy: ``"MultiInputPolicy"`` or a subclass of :class:`~proq_agent.common.goal_policy.GoalPolicy`
    :param goals: how goals are drawn; those of values do not matter
    :param acting_std: standard deviation of sampled actions, on a scale from -1 to 1; the actor is learned with 1
    :param policy_kwargs: sizes of the networks, see :class:`~proq_agent.common.goal_policy.GoalPolicy`
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"MultiInputPolicy": GoalPolicy}
    updates_at_equal_time: ClassVar[float] = 4.5

    def __init__(
        self,
        policy: str | type[GoalPolicy] = "MultiInputPolicy",
        env: GymEnv | str | None = None,
        learning_rate: float | Schedule = 3e-4,
        batch_size: int = 1024,
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
        self._finish_init(_init_setup_model, dataset)

    def loss(self, batch: GoalBatch) -> tuple[th.Tensor, Metrics]:
        """
        The actor's.

        :param batch: transitions and actor goals
        """
        mean = self.policy.actor(batch.observations, batch.actor_goals)
        log_probs, metrics = imitation(*whole(mean, batch.actions, dim=-2))
        loss, actor_metrics = bc_loss(log_probs)
        return loss, named("actor", actor_metrics, metrics)
