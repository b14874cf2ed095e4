"""The policy of GCIVL: an actor and values of states."""

from __future__ import annotations

from proq_agent.common.goal_networks import GoalValue, slow_copy
from proq_agent.common.goal_policy import GoalPolicy


class GCIVLPolicy(GoalPolicy):
    """μ(s, g) and two values V_i(s, g), with slow copies. Its arguments are those of every goal policy."""

    def build(self) -> None:
        super().build()
        self.value = GoalValue(self.observation_dim, self.goal_dim, self.hidden_sizes)
        self.target_value = slow_copy(self.value)


MultiInputPolicy = GCIVLPolicy
