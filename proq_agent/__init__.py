"""Offline goal-conditioned RL with projective quasimetric planning."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from proq_agent.common.goals import GoalSpec

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.proq import MultiInputPolicy, ProQ

__all__ = ["GoalDataset", "GoalSpec", "MultiInputPolicy", "ProQ"]

_NEED_TORCH = {
    "GoalDataset": "proq_agent.common.dataset",
    "MultiInputPolicy": "proq_agent.proq",
    "ProQ": "proq_agent.proq",
}


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_NEED_TORCH[name]), name)
