"""States that satisfy a goal: where a goal leaves something open, the nearest of them is what an agent wants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch as th
from torch import nn

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset

N_STATES = 4096  # of the data, among which those that satisfy a goal are looked for
N_MEMBERS = 8  # states of a goal that plans are made for
# Where nobody says how close is close enough: this share of the data's spread.
DEFAULT_TOLERANCE = 0.05


class GoalStates(nn.Module):
    """
    Some states of the data, the goals that they are, and when a goal is reached.

    :param goal_dim: coordinates of a goal
    :param state_dim: coordinates of a state on the map
    :param on_observation: states are observations; otherwise they are goals, and a goal is one of its own states
    :param coordinates: those of goals that states are of; None for all
    """

    states: th.Tensor
    goals: th.Tensor
    tolerances: th.Tensor
    periods: th.Tensor
    entries: th.Tensor

    def __init__(
        self, goal_dim: int, state_dim: int, on_observation: bool, coordinates: Sequence[int] | None = None
    ) -> None:
        super().__init__()
        self.on_observation = on_observation
        self.coordinates = list(range(state_dim) if coordinates is None else coordinates)
        self.register_buffer("states", th.zeros(N_STATES, state_dim))
        self.register_buffer("goals", th.zeros(N_STATES, goal_dim))
        self.register_buffer("tolerances", th.ones(goal_dim))
        self.register_buffer("periods", th.full((goal_dim,), th.inf))
        self.register_buffer("entries", th.full((goal_dim,), -1))

    def remember(self, dataset: GoalDataset, generator: th.Generator | None) -> None:
        """
        Take states from the data.

        :param dataset: with the goals that users ask for
        :param generator: source of randomness
        """
        spec, goal_dim, device = dataset.goal_spec, dataset.achieved_goals.shape[1], self.states.device
        rows = dataset.random_rows(N_STATES, generator)
        self.goals.copy_(dataset.achieved_goals[rows])
        states = (dataset.observations if self.on_observation else dataset.achieved_goals)[rows]
        self.states.copy_(states[:, self.coordinates])
        tolerances = DEFAULT_TOLERANCE * dataset.goal_scale
        if spec.tolerance is not None:
            tolerances = th.as_tensor(spec.tolerances(goal_dim), dtype=th.float32, device=device)
        self.tolerances.copy_(tolerances)
        self.periods.copy_(th.as_tensor(spec.periods(goal_dim), dtype=th.float32))
        entries = th.arange(goal_dim, device=device)
        if self.on_observation and dataset.observations is not dataset.achieved_goals:
            entries = th.as_tensor([-1] * goal_dim if spec.indices is None else list(spec.indices), device=device)
        kept = th.full((states.shape[1] + 1,), -1, device=device)  # the last for those that are no coordinate of states
        kept[self.coordinates] = th.arange(len(self.coordinates), device=device)
        self.entries.copy_(kept[entries].masked_fill(tolerances.isinf(), -1))

    def forward(self, desired: th.Tensor) -> th.Tensor:
        """
        ``[B, N_MEMBERS, state_dim]`` states that satisfy each goal.

        A coordinate that matters is the goal's own; the others are those of states of the data that come as close as
        asked for in all that matters. Where there is none, it is the goal itself, or the closest state if goals are no
        states.

        :param desired: ``[B, goal_dim]``
        """
        apart = (self.goals - desired[:, None]).abs()
        wrapped = apart % self.periods
        apart = th.where(self.periods.isinf(), apart, th.minimum(wrapped, self.periods - wrapped))
        off = (apart / self.tolerances).nan_to_num(0.0).amax(dim=-1)  # 0 / 0: exactly as asked for
        off, nearest = off.topk(N_MEMBERS, dim=1, largest=False)
        members = self.states[nearest]
        own = self.entries >= 0
        members[..., self.entries[own]] = desired[:, None, own].expand(-1, N_MEMBERS, -1)
        if not self.on_observation:
            members = th.where((off > 1.0)[..., None], desired[:, None, self.coordinates], members)
        return members
