"""
CUDA kernels of the interval quasimetric, in Triton: a pair of rows is read once, and nothing but its result is written.

The same masks as in ``_lengths_by_masks`` of :mod:`proq_agent.quasimetric.iqe`, whose conventions at ties they share,
but in registers: as tensors they have M² times the size of the embeddings. With ``TRITON_INTERPRET=1`` in the
environment before Triton is imported, the kernels run on CPU tensors, slowly.
"""

from __future__ import annotations

from typing import Any

import torch as th
import triton
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction

ELEMENTS = 256  # components of one program's pairs


@triton.jit
def _bounds(x, y, rows_x, rows_y, n, valid, i: tl.constexpr, N: tl.constexpr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Start and end of interval ``i`` in every component, and whether each bounds the union."""
    start = tl.load(x + rows_x + i * N + n, mask=valid, other=0.0)
    end = tl.load(y + rows_y + i * N + n, mask=valid, other=0.0)
    start_counts = (end <= start) == 0  # so that a NaN is counted, and seen in the result
    end_counts = start_counts
    for j in tl.static_range(SIZE):
        if j != i:
            other_start = tl.load(x + rows_x + j * N + n, mask=valid, other=0.0)
            other_end = tl.load(y + rows_y + j * N + n, mask=valid, other=0.0)
            if j < i:  # of equal starts the first counts, of equal ends the last
                starts_before, ends_after = other_start <= start, other_end > end
            else:
                starts_before, ends_after = other_start < start, other_end >= end
            start_counts = start_counts & ((starts_before & (start < other_end)) == 0)
            end_counts = end_counts & ((ends_after & (other_start < end)) == 0)
    return start, end, start_counts, end_counts


@triton.jit
def _forward(  # type: ignore[no-untyped-def]
    x, y, x_pairs, y_pairs, largest, mean, longest, n_pairs,
    N: tl.constexpr, SIZE: tl.constexpr, PAIRS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pairs = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    here = pairs < n_pairs
    n = tl.arange(0, BLOCK)[None, :]
    valid = here[:, None] & (n < N)
    rows_x = tl.load(x_pairs + pairs, mask=here, other=0)[:, None] * (N * SIZE)
    rows_y = tl.load(y_pairs + pairs, mask=here, other=0)[:, None] * (N * SIZE)
    lengths = tl.zeros((PAIRS, BLOCK), x.dtype.element_ty)
    for i in tl.static_range(SIZE):
        start, end, start_counts, end_counts = _bounds(x, y, rows_x, rows_y, n, valid, i, N, SIZE)
        lengths += tl.where(end_counts, end, 0.0) - tl.where(start_counts, start, 0.0)
    tl.store(mean + pairs, tl.sum(lengths, axis=1) / N, mask=here)
    lengths = tl.where(n < N, lengths, -1.0)  # a length is not negative
    tl.store(largest + pairs, tl.max(lengths, axis=1), mask=here)
    tl.store(longest + pairs, tl.argmax(lengths, axis=1).to(tl.int64), mask=here)


@triton.jit
def _backward(  # type: ignore[no-untyped-def]
    x, y, x_pairs, y_pairs, longest, grad_largest, grad_mean, grad_x, grad_y, n_pairs,
    N: tl.constexpr, SIZE: tl.constexpr, PAIRS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pairs = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    here = pairs < n_pairs
    n = tl.arange(0, BLOCK)[None, :]
    valid = here[:, None] & (n < N)
    rows_x = tl.load(x_pairs + pairs, mask=here, other=0)[:, None] * (N * SIZE)
    rows_y = tl.load(y_pairs + pairs, mask=here, other=0)[:, None] * (N * SIZE)
    of_largest = tl.load(grad_largest + pairs, mask=here, other=0.0)[:, None]
    of_mean = tl.load(grad_mean + pairs, mask=here, other=0.0)[:, None]
    best = tl.load(longest + pairs, mask=here, other=0)[:, None]
    weights = of_mean / N + tl.where(n == best, of_largest, 0.0)
    felt = valid & (weights != 0.0)  # keypoints beyond each other's reach are not
    for i in tl.static_range(SIZE):
        _, _, start_counts, end_counts = _bounds(x, y, rows_x, rows_y, n, valid, i, N, SIZE)
        # A row may be in many pairs.
        tl.atomic_add(grad_x + rows_x + i * N + n, -weights, mask=felt & start_counts)
        tl.atomic_add(grad_y + rows_y + i * N + n, weights, mask=felt & end_counts)


INTERPRETED = isinstance(_forward, InterpretedFunction)  #: whether CPU tensors will do


def _launch(kernel: Any, tensors: tuple[th.Tensor, ...], n_pairs: int, n_components: int) -> None:
    block = triton.next_power_of_2(n_components)
    pairs = max(1, ELEMENTS // block)
    size = tensors[0].shape[1] // n_components
    if n_pairs:
        kernel[(triton.cdiv(n_pairs, pairs),)](*tensors, n_pairs, N=n_components, SIZE=size, PAIRS=pairs, BLOCK=block)


def forward(
    x: th.Tensor, y: th.Tensor, x_pairs: th.Tensor, y_pairs: th.Tensor, n_components: int
) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
    """
    Longest union length, mean length and (first) longest component of each pair of rows.

    :param x: embeddings ``[rows, M * n_components]``, contiguous
    :param y: likewise, with as many columns
    :param x_pairs: the row of x of each pair
    :param y_pairs: the row of y of each pair
    :param n_components: N
    """
    largest, mean = x.new_empty(2, len(x_pairs))
    longest = th.empty_like(x_pairs)
    _launch(_forward, (x, y, x_pairs, y_pairs, largest, mean, longest), len(x_pairs), n_components)
    return largest, mean, longest


def backward(
    x: th.Tensor,
    y: th.Tensor,
    x_pairs: th.Tensor,
    y_pairs: th.Tensor,
    n_components: int,
    saved: tuple[th.Tensor, th.Tensor, th.Tensor],
) -> tuple[th.Tensor, th.Tensor]:
    """
    Gradients with respect to x and y; the parameters not listed are those of :func:`forward`.

    :param saved: longest component of each pair, and the gradients of the longest and of the mean lengths
    :return: gradients of the shapes of x and y
    """
    grads = th.zeros_like(x), th.zeros_like(y)
    _launch(_backward, (x, y, x_pairs, y_pairs, *saved, *grads), len(x_pairs), n_components)
    return grads
