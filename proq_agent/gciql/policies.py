"""The policy of GCIQL: an actor, a value of states and values of actions."""

from __future__ import annotations

from proq_agent.common.goal_networks import GoalValue, slow_copy
from proq_agent.common.goal_policy import GoalPolicy


class GCIQLPolicy(GoalPolicy):
    """
    μ(s, g), a value V(s, g) and two critics Q_i(s, a, g), with slow copies.

    Its arguments are those of every goal policy.
    """

    def build(self) -> None:
        super().build()
        dims = (self.observation_dim, self.goal_dim, self.hidden_sizes)
        self.value = GoalValue(*dims, n_heads=1)
        self.critic = GoalValue(*dims, action_dim=self.action_dim)
        self.target_critic = slow_copy(self.critic)


MultiInputPolicy = GCIQLPolicy
