"""Longest and mean union lengths by kernels of the device, with a gradient that saves one index a pair."""

from __future__ import annotations

import functools
import math
from types import ModuleType
from typing import Any

import numpy as np
import torch as th
from torch.autograd.function import once_differentiable


@functools.cache
def cpu_kernels() -> ModuleType | None:
    """The module of CPU kernels, imported when first needed; None where Numba is missing or does not work."""
    try:
        from proq_agent.quasimetric import kernels
    except ImportError:
        return None
    return kernels


@functools.cache
def triton_kernels() -> ModuleType | None:
    """The module of CUDA kernels, imported when first needed; None where Triton is missing or does not work."""
    try:
        from proq_agent.quasimetric import triton_kernels
    except ImportError:
        return None
    return triton_kernels


def runs_triton(device: th.device) -> bool:
    """Whether Triton's kernels run there: on CUDA devices, and on the CPU in its interpreter."""
    if device.type not in ("cuda", "cpu"):
        return False
    kernels = triton_kernels()
    return kernels is not None and (device.type == "cpu") == kernels.INTERPRETED


def max_mean(x: th.Tensor, y: th.Tensor, n_components: int, implementation: str) -> tuple[th.Tensor, th.Tensor]:
    """
    Longest and mean union length of each pair.

    :param x: embeddings ``[..., M * n_components]``
    :param y: embeddings; leading dimensions broadcast against those of ``x``
    :param n_components: N
    :param implementation: "cpu" or "triton"
    """
    compute = _MaxMean.apply if th.is_grad_enabled() else _forward
    largest, mean = compute(x, y, n_components, implementation)[:2]
    return largest, mean


class _MaxMean(th.autograd.Function):
    """:func:`_forward` with a gradient. Saves its inputs and one index a pair, nothing larger."""

    @staticmethod
    def forward(
        ctx: Any, x: th.Tensor, y: th.Tensor, n_components: int, implementation: str
    ) -> tuple[th.Tensor, th.Tensor]:
        largest, mean, longest = _forward(x, y, n_components, implementation)
        ctx.n_components, ctx.implementation = n_components, implementation
        ctx.save_for_backward(x, y, longest)
        return largest, mean

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_largest: th.Tensor, grad_mean: th.Tensor) -> tuple[th.Tensor | None, ...]:
        x, y, longest = ctx.saved_tensors
        pairs = _rows_and_pairs(x, y, longest.shape)
        saved = [part.detach().reshape(-1).contiguous() for part in (longest, grad_largest, grad_mean)]
        if ctx.implementation == "triton":
            kernels = triton_kernels()
            assert kernels is not None
            grads = kernels.backward(*pairs, ctx.n_components, saved)
        else:
            kernels = cpu_kernels()
            assert kernels is not None
            arrays = [part.numpy() for part in saved]
            arguments = (*(part.numpy() for part in pairs), ctx.n_components, arrays, th.get_num_threads())
            grads = map(th.from_numpy, kernels.backward(*arguments))
        grad_x, grad_y = grads
        return grad_x.view(x.shape), grad_y.view(y.shape), None, None


def _forward(x: th.Tensor, y: th.Tensor, n_components: int, implementation: str) -> tuple[th.Tensor, ...]:
    """Longest union length, mean length and longest component of each pair."""
    shape = broadcast(x, y)
    pairs = _rows_and_pairs(x, y, shape)
    if implementation == "triton":
        kernels = triton_kernels()
        assert kernels is not None
        return tuple(part.view(shape) for part in kernels.forward(*pairs, n_components))
    kernels = cpu_kernels()
    assert kernels is not None
    arrays = [part.numpy() for part in pairs]
    n_pairs = len(arrays[-1])
    out = (*np.empty((2, n_pairs), dtype=arrays[0].dtype), np.empty(n_pairs, dtype=np.int64))
    kernels.forward(*arrays, n_components, out, th.get_num_threads())
    return tuple(th.from_numpy(array).view(shape) for array in out)


def broadcast(x: th.Tensor, y: th.Tensor) -> tuple[int, ...]:
    """The leading dimensions of the pairs; PyTorch's own function is slow."""
    return tuple(x.shape[:-1]) if x.shape == y.shape else np.broadcast_shapes(x.shape[:-1], y.shape[:-1])


def _rows_and_pairs(x: th.Tensor, y: th.Tensor, shape: tuple[int, ...]) -> list[th.Tensor]:
    """Embeddings as rows of matrices, and for each pair of the broadcast shape the row of x and that of y."""
    rows = [t.detach().reshape(-1, t.shape[-1]).contiguous() for t in (x, y)]
    return rows + [_row_of_pairs(tuple(t.shape[:-1]), shape, t.device) for t in (x, y)]


@functools.lru_cache(maxsize=16)
def _row_of_pairs(own: tuple[int, ...], shape: tuple[int, ...], device: th.device) -> th.Tensor:
    """The number of the row of a tensor with leading dimensions ``own`` in each pair. The same few come again."""
    rows = th.arange(math.prod(own), device=device).view(own)
    return rows.expand(shape).flatten().clone()  # each memory layout would be compiled anew
