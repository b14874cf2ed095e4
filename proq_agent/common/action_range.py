"""Actions in their range, and at its limits, beyond which noise, or whoever acted, would have gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch as th
from gymnasium import spaces

from proq_agent.common.row_file import some_rows

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset

AT_LIMIT = 1.0 - 1e-5  # of actions scaled to [-1, 1]
MANY, MOST = 1 / 3, 0.95  # share of the rows; a coordinate that has no other values is a switch


def scale_actions(actions: th.Tensor, low: th.Tensor, high: th.Tensor) -> th.Tensor:
    """
    To [-1, 1].

    :param actions: ``[..., action_dim]``
    :param low: ``[action_dim]`` the limits
    :param high: likewise
    """
    return 2.0 * (actions - low) / (high - low) - 1.0


def are_clipped(dataset: GoalDataset, action_space: spaces.Box) -> bool:
    """
    Whether many actions lie at a limit of their range, in one coordinate at least: a mean of these is no longer what
    was meant.

    :param dataset: shows actions
    :param action_space: has their range
    """
    if dataset.device.type == "meta":
        return False
    actions = some_rows(dataset.actions)
    low, high = (th.as_tensor(limit).to(actions) for limit in (action_space.low, action_space.high))
    at_limit = (scale_actions(actions, low, high).abs() >= AT_LIMIT).float().mean(dim=0)
    return bool(((at_limit >= MANY) & (at_limit <= MOST)).any())
