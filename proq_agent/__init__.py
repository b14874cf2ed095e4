"""Offline goal-conditioned RL with projective quasimetric planning, and six algorithms to compare it with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.common.goals import GoalSpec
    from proq_agent.crl import CRL
    from proq_agent.gcbc import GCBC
    from proq_agent.gciql import GCIQL
    from proq_agent.gcivl import GCIVL
    from proq_agent.hiql import HIQL
    from proq_agent.proq.policies import MultiInputPolicy
    from proq_agent.proq.proq import ProQ
    from proq_agent.qrl import QRL

__all__ = ["CRL", "GCBC", "GCIQL", "GCIVL", "HIQL", "QRL", "GoalDataset", "GoalSpec", "MultiInputPolicy", "ProQ"]

_HOMES = {
    "CRL": "proq_agent.crl",
    "GCBC": "proq_agent.gcbc",
    "GCIQL": "proq_agent.gciql",
    "GCIVL": "proq_agent.gcivl",
    "HIQL": "proq_agent.hiql",
    "QRL": "proq_agent.qrl",
    "GoalDataset": "proq_agent.common.dataset",
    "GoalSpec": "proq_agent.common.goals",
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
