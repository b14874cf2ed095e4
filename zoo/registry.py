"""The algorithms by name. One is imported only when it is asked for: to list them must not take seconds."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proq_agent.common.offline import OfflineAlgorithm

DEFAULT_ALGO = "proq"
PRESETS = ("tuned", "paper")  # entries that every algorithm has settings for
ALGOS: dict[str, str] = {  # name -> module:class
    "proq": "proq_agent.proq:ProQ",
    "gcbc": "proq_agent.gcbc:GCBC",
    "gcivl": "proq_agent.gcivl:GCIVL",
    "gciql": "proq_agent.gciql:GCIQL",
    "qrl": "proq_agent.qrl:QRL",
    "crl": "proq_agent.crl:CRL",
    "hiql": "proq_agent.hiql:HIQL",
}


def algorithm(name: str) -> type[OfflineAlgorithm]:
    """
    The class of an algorithm.

    :param name: as ``--algo`` has it
    :raises ValueError: if there is none of this name
    """
    if name not in ALGOS:
        raise ValueError(f"unknown algorithm {name!r}; choose one of {', '.join(ALGOS)}")
    module, _, attribute = ALGOS[name].partition(":")
    return getattr(import_module(module), attribute)
