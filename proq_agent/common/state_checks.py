"""What a file says an agent's state is, compared with what the agent would be, before it is believed."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch as th
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from proq_agent.common.errors import CheckpointError

CPU_GENERATOR_BYTES, OTHER_GENERATOR_BYTES = 5056, 64  # of its state; elsewhere a seed and a position, at most

CHOICES = "foreach", "fused"  # of an optimiser, which are its own if they are None


@contextmanager
def at_most_tensors(n: int) -> Iterator[None]:
    """
    Stop building modules in this thread when they have more parameters and buffers than their file can fill.

    :param n: how many
    :raises CheckpointError: in the constructor that asks for more
    """
    thread, left = threading.get_ident(), n

    def count(*_: Any) -> None:
        nonlocal left
        if threading.get_ident() == thread:
            left -= 1
            if left < 0:
                raise CheckpointError(f"they ask for more tensors than the {n} that the file could fill")

    handles = register_module_parameter_registration_hook(count), register_module_buffer_registration_hook(count)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def check_module_state(module: nn.Module, state: Any) -> None:
    """
    Compare names, shapes and types; values may be on another device, the module's on none.

    :param module: as it is built from the hyperparameters
    :param state: what is to be loaded into it; a module checks its ``_extra_state`` itself
    :raises ValueError: naming the tensor
    """
    own = module.state_dict()
    if not isinstance(state, dict) or state.keys() != own.keys():
        names = sorted(map(str, set(state) ^ own.keys())) if isinstance(state, dict) else [type(state).__name__]
        raise ValueError(f"its tensors do not fit the hyperparameters: missing or unknown {', '.join(names)[:200]}")
    for name, tensor in own.items():
        if not isinstance(tensor, th.Tensor):
            continue
        given = state[name]
        if not isinstance(given, th.Tensor) or (given.shape, given.dtype) != (tensor.shape, tensor.dtype):
            kind = f"{given.dtype}{list(given.shape)}" if isinstance(given, th.Tensor) else type(given).__name__
            raise ValueError(
                f"its tensors do not fit the hyperparameters: {name} is {kind}, not {tensor.dtype}{list(tensor.shape)}"
            )


def check_optimizer_state(optimizer: th.optim.Optimizer, state: Any) -> None:
    """
    Refuse a state with which the next step would fail.

    :param optimizer: as it is built from the hyperparameters
    :param state: what is to be loaded into it
    :raises Exception: of any kind, saying what does not fit
    """
    own = optimizer.state_dict()["param_groups"]
    groups, entries = state["param_groups"], state["state"]
    known = {index for group in own for index in group["params"]}
    if len(state) != 2 or len(groups) != len(own) or entries.keys() - known:
        raise ValueError("an optimiser's state is of other parameters")
    for mine, theirs, group in zip(own, groups, optimizer.param_groups, strict=True):
        # Flags may be missing: later versions of PyTorch have more of them.
        missing = [name for name in mine.keys() - theirs.keys() if not isinstance(mine[name], bool | None)]
        if missing or theirs.keys() - mine.keys() or theirs["params"] != mine["params"]:
            raise ValueError("an optimiser's state is of other parameters or of another optimiser")
        settings = {name: value for name, value in theirs.items() if name in optimizer.defaults}
        for name, value in settings.items():
            if not _alike(value, None if name in CHOICES else mine[name]):
                raise ValueError(f"an optimiser's {name} is {value!r:.40}")
        # A step on one number: its constructor checks the settings, and its state shows what belongs there.
        example = nn.Parameter(th.zeros(1))
        example.grad = th.zeros(1)
        if "fused" in settings:
            settings["fused"] = False  # on the CPU, for a single number
        probe = type(optimizer)([example], **settings)
        probe.step()
        expected = probe.state[example]
        for index, parameter in zip(theirs["params"], group["params"], strict=True):
            entry = entries.get(index, {})
            if entry and entry.keys() != expected.keys():
                raise ValueError(f"an optimiser remembers {sorted(entry)}, not {sorted(expected)}")
            for name, value in entry.items():
                counts = not expected[name].dim()  # steps, not something of each number
                shape = () if counts else parameter.shape
                if value.shape != shape or not value.is_floating_point() or (counts and value.item() < 0):
                    raise ValueError(f"an optimiser's {name} of parameter {index} is malformed")


def _alike(value: Any, model: Any) -> bool:
    if isinstance(model, tuple):
        return isinstance(value, tuple) and len(value) == len(model) and all(map(_alike, value, model))
    if isinstance(model, bool) or model is None:
        return isinstance(value, bool) or (value is None and model is None)
    return type(value) in (int, float) and math.isfinite(value)


def set_generator_state(generator: th.Generator, state: Any) -> bool:
    """
    Let a generator go on where another stopped.

    :param generator: to be set
    :param state: what ``get_state`` returned
    :return: False, and nothing is done, if it is the state of a generator on another kind of device
    :raises Exception: of any kind, if it is no state of a generator
    """
    size = state.numel()
    if size != generator.get_state().numel() and (size == CPU_GENERATOR_BYTES or 0 < size <= OTHER_GENERATOR_BYTES):
        return False
    generator.set_state(state)
    trial = generator.clone_state()
    for dtype in (th.float32, th.float64):  # one number may be waiting from the last pair
        if not th.randn(1, generator=trial, dtype=dtype, device=generator.device).isfinite():
            raise ValueError("a generator's next number is not finite")
    return True
