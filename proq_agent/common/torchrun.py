"""Processes that ``torchrun`` has started, as one group that trains one agent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch as th
from torch import distributed as dist

from proq_agent.common import distributed
from proq_agent.common.launched import started_together

PATIENCE = timedelta(days=7)  # an evaluation may take long; that a process has ended is noticed at once


@contextmanager
def processes(device: str) -> Iterator[str]:
    """
    Within this block the processes that ``torchrun`` has started train one agent, and all but the main one print
    nothing.

    :param device: as the user named it
    :return: the device of this process
    :raises ValueError: if there are fewer GPUs than processes on this machine
    """
    if not started_together():
        yield device
        return
    device = _own_device(device)
    with distributed.asking():
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo", timeout=PATIENCE)
    with contextlib.ExitStack() as stack:
        if not distributed.is_main():
            nowhere = stack.enter_context(open(os.devnull, "w"))
            stack.enter_context(contextlib.redirect_stdout(nowhere))
            stack.enter_context(contextlib.redirect_stderr(nowhere))
        yield device
    dist.destroy_process_group()  # not after an error: others hear of it only once it has been said


def _own_device(device: str) -> str:
    """One GPU a process."""
    if device == "auto":
        device = "cuda" if th.cuda.is_available() else "cpu"
    if not device.startswith("cuda"):
        return device
    own, there = int(os.environ.get("LOCAL_RANK", "0")), th.cuda.device_count()
    if device != "cuda" or own >= there:
        n = os.environ.get("LOCAL_WORLD_SIZE", "several")
        raise ValueError(f"--device {device}: {n} processes need a GPU each, and there are {there}; give --device cuda")
    th.cuda.set_device(own)
    return f"cuda:{own}"


@contextmanager
def main_first() -> Iterator[None]:
    """Let the main process through this block before the others: what it makes, they find."""
    if not distributed.is_main():
        distributed.all_agree(True)
    try:
        yield
    finally:
        if distributed.is_main():
            distributed.all_agree(True)
