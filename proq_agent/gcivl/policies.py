"""The policy of GCIVL: actor and values of states."""

from __future__ import annotations

from typing import Any

from proq_agent.common.goal_networks import GoalValue, slow_copy
from proq_agent.common.goal_policy import GoalPolicy


class GCIVLPolicy(GoalPolicy):
    """
    μ(s, g) and two values V_i(s, g), with slow copies.

    :param args: as of :class:`~proq_agent.common.goal_policy.GoalPolicy`
    :param kwargs: likewise
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.value = GoalValue(self.observation_dim, self.goal_dim, self.hidden_sizes)
        self.target_value = slow_copy(self.value)


MultiInputPolicy = GCIVLPolicy
