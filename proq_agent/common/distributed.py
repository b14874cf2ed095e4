"""
One training in several processes, each with its own rows of every batch; in a single process nothing happens here.

Every process draws the whole batch from the same generator. Its networks see its own rows (:func:`own_rows`), losses
see all of them (:func:`whole`), and gradients are averaged (:func:`average_gradients`), so that the result is that of
one process with that batch, up to rounding, whatever a loss computes of its rows. All that an update asks of others, it
asks before it changes anything: a process that is lost leaves the agent as it was after the update before.

Processes are those of the default group of ``torch.distributed``; :mod:`~proq_agent.common.torchrun` makes one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, overload

import torch as th
from torch import distributed as dist

Batch = TypeVar("Batch", bound=Any)


class ProcessLost(ChildProcessError):
    """Another process of the same training has ended."""

    agent: Path | None = None  #: file of an agent that the training can be gone on with


def size() -> int:
    """Number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_main() -> bool:
    """Whether this process is the one that logs, evaluates and saves."""
    return size() == 1 or dist.get_rank() == 0


# ------------------------------------------------------------------------------------------------------------ an update


def own(tensor: th.Tensor, dim: int = 0) -> th.Tensor:
    """
    The rows of this process.

    :param tensor: with the rows of all
    :param dim: along which they follow each other
    """
    return tensor if size() == 1 else tensor.chunk(size(), dim)[dist.get_rank()]


def own_rows(batch: Batch) -> Batch:
    """
    The part of a batch that this process computes.

    :param batch: a named tuple of tensors
    """
    return batch if size() == 1 else batch._make(map(own, batch))


def own_uniform(shape: Sequence[int], generator: th.Generator | None, device: th.device, dim: int = 0) -> th.Tensor:
    """
    Uniform random numbers for the rows of this process; those of all are drawn, so that generators stay alike.

    :param shape: of the result
    :param generator: source of randomness
    :param device: where to draw them
    :param dim: of the rows
    """
    of_all = [n * size() if d == dim else n for d, n in enumerate(shape)]
    return own(th.rand(of_all, generator=generator, device=device), dim)


@overload
def whole(tensor: th.Tensor, /, *, dim: int = -1) -> th.Tensor: ...
@overload
def whole(*tensors: th.Tensor, dim: int = -1) -> tuple[th.Tensor, ...]: ...
def whole(*tensors: th.Tensor, dim: int = -1) -> th.Tensor | tuple[th.Tensor, ...]:
    """
    The rows of all processes, in the order of the batch. Gradients reach the rows of this one.

    :param tensors: with the rows of this process, of one dtype
    :param dim: of the rows, from the end
    :return: one for each of them
    """
    if size() > 1:  # in a single exchange
        first = [tensor.movedim(dim, 0) for tensor in tensors]
        flat = [rows.reshape(len(rows), -1) for rows in first]
        parts = _Gather.apply(th.cat(flat, dim=1)).split([rows.shape[1] for rows in flat], dim=1)
        tensors = tuple(
            part.reshape(-1, *rows.shape[1:]).movedim(0, dim) for part, rows in zip(parts, first, strict=True)
        )
    return tensors if len(tensors) > 1 else tensors[0]


class _Gather(th.autograd.Function):
    """Every process computes the same loss of all rows; its gradient is averaged later, where a sum is due."""

    @staticmethod
    @th.compiler.disable
    def forward(ctx: Any, rows: th.Tensor) -> th.Tensor:
        everyone = [th.empty_like(rows) for _ in range(size())]
        with asking():
            dist.all_gather(everyone, rows)
        return th.cat(everyone)

    @staticmethod
    @th.compiler.disable
    def backward(ctx: Any, gradient: th.Tensor) -> th.Tensor:
        return size() * own(gradient)


def average_gradients(parameters: Iterable[th.Tensor]) -> None:
    """
    Give every process the mean of all gradients.

    :param parameters: whose gradients were computed
    """
    if size() == 1:
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = th.cat([gradient.flatten() for gradient in gradients]) / size()
    with asking():
        dist.all_reduce(flat)
    for gradient, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


@contextmanager
def whole_or_not_at_all(generator: th.Generator | None) -> Iterator[None]:
    """
    An update that a lost process interrupts has not been.

    :param generator: what the update draws from; the only thing that it changes before it has heard of all others
    """
    before = None if size() == 1 or generator is None else generator.get_state()
    try:
        yield
    except ProcessLost:
        assert generator is not None and before is not None
        generator.set_state(before)
        raise


# ---------------------------------------------------------------------------------------------------------- a training


def all_agree(go_on: bool) -> bool:
    """Whether all processes want to go on: a signal, or a callback, may have told one of them not to."""
    return not greatest(not go_on)


def greatest(number: int) -> int:
    """The greatest of the numbers that all processes have."""
    if size() == 1:
        return number
    numbers = th.tensor(number, dtype=th.int32)  # on the CPU: nothing waits for a GPU here
    with asking():
        dist.all_reduce(numbers, dist.ReduceOp.MAX)
    return int(numbers)


def from_main(value: Any) -> Any:
    """What the main process has for a value."""
    if size() == 1:
        return value
    values = [value]
    with asking():
        dist.broadcast_object_list(values)
    return values[0]


def check_same(**values: Any) -> None:
    """
    Find out whether all processes are about to train one and the same agent.

    :param values: by name, what must be the same
    :raises ValueError: in all of them, naming what differs
    """
    if size() == 1:
        return
    everyone: list[dict[str, Any]] = [{}] * size()
    with asking():
        dist.all_gather_object(everyone, values)
    for name in values:
        if len({other[name] for other in everyone}) > 1:
            found = ", ".join(str(other[name]) for other in everyone)
            raise ValueError(f"processes of one training must have the same {name}, got {found}")


def copy_from_main(tensors: Iterable[th.Tensor]) -> None:
    """
    Let tensors be what they are in the main process: statistics of the data may be rounded in other ways on another
    machine.

    :param tensors: overwritten
    """
    if size() > 1:
        with asking(), th.no_grad():
            for tensor in tensors:
                dist.broadcast(tensor, 0)


def checksum(tensor: th.Tensor) -> int:
    """A number that differs if a tensor does, exact on any machine."""
    bits = tensor.detach().view({8: th.int64, 4: th.int32, 2: th.int16}.get(tensor.element_size(), tensor.dtype))
    return int(bits.sum(dtype=th.int64))


@contextmanager
def asking() -> Iterator[None]:
    """What the backends raise when nobody answers, under one name."""
    try:
        yield
    except RuntimeError as error:
        raise ProcessLost(f"another process of this training has ended ({str(error).splitlines()[0]:.200})") from error
