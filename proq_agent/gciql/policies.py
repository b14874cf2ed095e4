"""The policy of GCIQL: actor, values of states and values of actions."""

from __future__ import annotations

from typing import Any

from proq_agent.common.goal_networks import GoalValue, slow_copy
from proq_agent.common.goal_policy import GoalPolicy


class GCIQLPolicy(GoalPolicy):
    """
    μ(s, g), a value V(s, g) and two critics Q_i(s, a, g), with slow copies.

    :param args: as of :class:`~proq_agent.common.goal_policy.GoalPolicy`
    :param kwargs: likewise
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.value = GoalValue(self.observation_dim, self.goal_dim, self.hidden_sizes, n_heads=1)
        self.critic = GoalValue(self.observation_dim, self.goal_dim, self.hidden_sizes, action_dim=self.action_dim)
        self.target_critic = slow_copy(self.critic)


MultiInputPolicy = GCIQLPolicy
