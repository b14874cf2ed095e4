from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrappers.goal_dict import GoalDict
from wrappers.goal_from_observation import GoalFromObservation
from wrappers.make import make_goal_env

if TYPE_CHECKING:
    from wrappers.keypoint_goal import KeypointGoal

__all__ = ["GoalDict", "GoalFromObservation", "KeypointGoal", "make_goal_env"]


def __getattr__(name: str) -> Any:
    if name != "KeypointGoal":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from wrappers.keypoint_goal import KeypointGoal  # the only wrapper that needs torch

    return KeypointGoal
