"""Offline goal-conditioned RL with projective quasimetric planning."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.proq.policies import MultiInputPolicy
    from proq_agent.proq.proq import ProQ

__all__ = ["GoalDataset", "MultiInputPolicy", "ProQ"]

_HOMES = {
    "GoalDataset": "proq_agent.common.dataset",
    "MultiInputPolicy": "proq_agent.proq.policies",
    "ProQ": "proq_agent.proq.proq",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, and no more: files and names of settings can be had without PyTorch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
