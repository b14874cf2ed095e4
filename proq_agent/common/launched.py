"""Processes that ``torchrun`` has started together: whether there are others, and which of them speaks."""

from __future__ import annotations

import os
from datetime import timedelta


def started_together() -> bool:
    """Whether ``torchrun`` has started other processes for the same training."""
    return "MASTER_PORT" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"


def is_first(topic: str) -> bool:
    """
    Whether no other process has asked this before: what all find wrong is said by one of them.

    :param topic: that one of them is to speak of
    """
    if not started_together():
        return True
    from torch import distributed as dist  # takes seconds, which a process by itself need not wait for

    topic = f"proq/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{topic}"
    try:
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = dist.TCPStore(address, port, is_master=False, timeout=timedelta(seconds=10))
        return store.add(topic, 1) == 1
    except (RuntimeError, ValueError):  # nobody to ask: better twice than not at all
        return True
