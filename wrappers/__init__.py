"""Goal environments in one form, by name, and with ProQ's keypoints as goals."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wrappers.goal_dict import GoalDict
    from wrappers.keypoint_goal import KeypointGoal
    from wrappers.make import make_goal_env

__all__ = ["GoalDict", "KeypointGoal", "make_goal_env"]

_HOMES = {
    "GoalDict": "wrappers.goal_dict",
    "KeypointGoal": "wrappers.keypoint_goal",
    "make_goal_env": "wrappers.make",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, and no more: only keypoints need PyTorch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
