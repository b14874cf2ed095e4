"""
CPU kernels of the interval quasimetric: union lengths of intervals and their gradient, without a sort by index.

Rows hold M blocks of N components, so that vectors of components are contiguous in memory and every lane runs the
same branch-free code. That code depends on M alone and is emitted as LLVM vectors (Numba's own vectoriser gives up
on that many live values), all in registers:

- The length needs the starts and the ends sorted *separately*, by a network of minima and maxima: between the k-th
  start and the next one the union is covered up to the k-th end, whichever interval that end belongs to.
- The gradient needs to know which ends bound the union: those that no other interval covers. These masks cost
  M(M-1)/2 comparisons of pairs and are recomputed rather than stored.

Conventions at ties are those of :mod:`proq_agent.quasimetric.iqe`.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

LANES = 8  # components per vector: one AVX2 register of float32, two of float64
PAIRS_PER_THREAD = 1024  # below about a quarter of a millisecond of work, starting a thread costs more than it saves


def sorting_network(size: int) -> list[tuple[int, int]]:
    """
    Batcher's odd-even merge sort: exchanges (i, j) that sort any ``size`` values.

    :param size: number of values
    """
    exchanges = []
    top = 1 << max(size - 1, 1).bit_length() - 1
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while True:
            exchanges += [(i, i + d) for i in range(size - d) if i & p == r]
            if q == p:
                break
            q, r, d = q // 2, p, q - p
        p //= 2
    return exchanges


class _Emitter:
    """
    Vectors of ``lanes`` components in rows of NumPy arrays, as LLVM values.

    :param context: Numba's code generation context
    :param builder: where instructions are appended
    :param lanes: components per vector
    """

    def __init__(self, context: Any, builder: Any, lanes: int) -> None:
        self.context, self.builder, self.lanes = context, builder, lanes

    def pointers(self, array_type: Any, array: Any, row: Any, n: Any, size: int) -> list[Any]:
        """Addresses of component ``n`` in each of the ``size`` blocks of a row."""
        builder = self.builder
        fields = self.context.make_array(array_type)(self.context, builder, array)
        width = builder.extract_value(fields.shape, array_type.ndim - 1)
        stride = builder.sdiv(width, ir.Constant(width.type, size))
        offset = builder.add(builder.mul(row, width), n)
        vector = ir.VectorType(self.context.get_data_type(array_type.dtype), self.lanes).as_pointer()
        addresses = []
        for _ in range(size):
            addresses.append(builder.bitcast(builder.gep(fields.data, [offset]), vector))
            offset = builder.add(offset, stride)
        return addresses

    def load(self, array_type: Any, array: Any, row: Any, n: Any, size: int) -> list[Any]:
        addresses = self.pointers(array_type, array, row, n, size)
        return [self.builder.load(address, align=array_type.dtype.bitwidth // 8) for address in addresses]

    def sort(self, values: list[Any]) -> list[Any]:
        """Sort in place. Both selects share one comparison, so that a NaN is moved about but never lost."""
        for i, j in sorting_network(len(values)):
            a, b = values[i], values[j]
            less = self.builder.fcmp_ordered("<", a, b)
            values[i], values[j] = self.builder.select(less, a, b), self.builder.select(less, b, a)
        return values


@intrinsic(prefer_literal=True)
def _store_lengths(typingctx, x, x_row, y, y_row, n, out, size, lanes):  # type: ignore[no-untyped-def]
    """``out[n : n + lanes]`` = union lengths of these components of the pair (x[x_row], y[y_row])."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x_array, i, y_array, j, first, out_array, *_ = args
        emit, m = _Emitter(context, builder, lanes.literal_value), size.literal_value
        starts, ends = emit.load(x, x_array, i, first, m), emit.load(y, y_array, j, first, m)
        # An inactive interval is empty: it ends where it starts and adds nothing.
        ends = [builder.select(builder.fcmp_ordered(">=", s, e), s, e) for s, e in zip(starts, ends, strict=True)]
        starts, ends = emit.sort(starts), emit.sort(ends)
        length = builder.fsub(ends[-1], starts[-1])
        for start, end, following in zip(starts, ends, starts[1:], strict=False):
            covered_until = builder.select(builder.fcmp_ordered("<", following, end), following, end)
            length = builder.fadd(length, builder.fsub(covered_until, start))
        (address,) = emit.pointers(out, out_array, ir.Constant(i.type, 0), first, 1)
        builder.store(length, address, align=out.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(x, x_row, y, y_row, n, out, size, lanes), codegen


@intrinsic(prefer_literal=True)
def _add_gradients(typingctx, x, x_row, y, y_row, n, weights, grad_x, grad_y, size, lanes):  # type: ignore[no-untyped-def]
    """Add ``weights[n : n + lanes]`` times the gradient of the union lengths to the rows of both gradients."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x_array, i, y_array, j, first, weights_array, grad_x_array, grad_y_array, *_ = args
        emit, m = _Emitter(context, builder, lanes.literal_value), size.literal_value
        starts, ends = emit.load(x, x_array, i, first, m), emit.load(y, y_array, j, first, m)
        (weight,) = emit.load(weights, weights_array, ir.Constant(i.type, 0), first, 1)
        less = functools.partial(builder.fcmp_ordered, "<")
        both, either, invert = builder.and_, builder.or_, builder.not_

        hidden_starts = [builder.fcmp_ordered(">=", s, e) for s, e in zip(starts, ends, strict=True)]
        hidden_ends = list(hidden_starts)
        for a, b in itertools.combinations(range(m), 2):
            b_starts_first = less(starts[b], starts[a])  # of equal starts the first index, a, counts
            a_ends_last = less(ends[b], ends[a])  # of equal ends the last index, b, counts
            a_before_end, b_before_end = less(starts[a], ends[b]), less(starts[b], ends[a])
            hidden_starts[a] = either(hidden_starts[a], both(b_starts_first, a_before_end))
            hidden_starts[b] = either(hidden_starts[b], both(invert(b_starts_first), b_before_end))
            hidden_ends[a] = either(hidden_ends[a], both(invert(a_ends_last), b_before_end))
            hidden_ends[b] = either(hidden_ends[b], both(a_ends_last, a_before_end))

        nothing = ir.Constant(weight.type, [0.0] * emit.lanes)
        align = x.dtype.bitwidth // 8
        for hidden, addresses, add in (
            (hidden_starts, emit.pointers(grad_x, grad_x_array, i, first, m), builder.fsub),
            (hidden_ends, emit.pointers(grad_y, grad_y_array, j, first, m), builder.fadd),
        ):
            for mask, address in zip(hidden, addresses, strict=True):
                change = builder.select(mask, nothing, weight)
                builder.store(add(builder.load(address, align=align), change), address, align=align)
        return context.get_dummy_value()

    return types.void(x, x_row, y, y_row, n, weights, grad_x, grad_y, size, lanes), codegen


def _compile(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile on the first call, and keep the result on disk unless no cache directory is writable."""
    try:
        return njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:
        return njit(nogil=True, **options)(function)


def _sum(values):  # type: ignore[no-untyped-def]
    total = values.dtype.type(0)
    for n in range(values.size):
        total += values[n]
    return total


# Only here may additions be reordered: elsewhere it would make the implementations differ at ties.
_vector_sum = _compile(_sum, fastmath={"reassoc", "nsz"})


@functools.cache
def _compiled(size: int, lanes: int) -> tuple[Callable[..., None], Callable[..., None]]:
    """
    The forward and the backward loop over pairs of rows. Where ``lanes`` does not divide the number of components,
    the last vector overlaps the one before.

    :param size: M, the number of intervals of a component
    :param lanes: components per vector
    """

    def forward_pairs(x, y, x_pairs, y_pairs, largest, mean, longest):  # type: ignore[no-untyped-def]
        n_components = x.shape[1] // size
        lengths = np.empty(n_components, x.dtype)
        for p in range(x_pairs.size):
            for n in range(0, n_components, lanes):
                _store_lengths(x, x_pairs[p], y, y_pairs[p], min(n, n_components - lanes), lengths, size, lanes)
            best = 0
            for n in range(1, n_components):
                if lengths[n] > lengths[best]:
                    best = n
            longest[p] = best
            largest[p] = lengths[best]
            mean[p] = _vector_sum(lengths) / n_components

    def backward_pairs(x, y, x_pairs, y_pairs, longest, grad_largest, grad_mean, grad_x, grad_y):  # type: ignore[no-untyped-def]
        n_components = x.shape[1] // size
        weights = np.empty(n_components, x.dtype)
        for p in range(x_pairs.size):
            if grad_largest[p] == 0 and grad_mean[p] == 0:  # as of keypoints beyond each other's reach
                continue
            weights[:] = grad_mean[p] / n_components
            weights[longest[p]] += grad_largest[p]
            for n in range(0, n_components, lanes):
                first = min(n, n_components - lanes)
                weights[first:n] = 0  # these were added with the vector before
                _add_gradients(x, x_pairs[p], y, y_pairs[p], first, weights, grad_x, grad_y, size, lanes)

    return _compile(forward_pairs), _compile(backward_pairs)


def _kernels_for(x: np.ndarray, n_components: int) -> tuple[Callable[..., None], Callable[..., None]]:
    return _compiled(x.shape[1] // n_components, LANES if n_components >= LANES else 1)


def _usable_threads(n_pairs: int, n_threads: int) -> int:
    return max(1, min(n_threads, n_pairs // PAIRS_PER_THREAD))


def _in_threads(function: Callable[[int, slice], None], n_pairs: int, n_threads: int) -> None:
    """Call ``function(thread, pairs)`` on consecutive shares of the pairs, which free the GIL."""
    bounds = [n_pairs * i // n_threads for i in range(n_threads + 1)]
    shares = [slice(*pair) for pair in itertools.pairwise(bounds)]
    threads = [threading.Thread(target=function, args=(i + 1, share)) for i, share in enumerate(shares[1:])]
    for thread in threads:
        thread.start()
    function(0, shares[0])
    for thread in threads:
        thread.join()


def forward(
    x: np.ndarray,
    y: np.ndarray,
    x_pairs: np.ndarray,
    y_pairs: np.ndarray,
    n_components: int,
    out: Sequence[np.ndarray],
    n_threads: int,
) -> None:
    """
    Longest and mean union length of each pair of rows.

    :param x: embeddings ``[rows, M * n_components]``, C-contiguous
    :param y: likewise, with as many columns
    :param x_pairs: the row of x of each pair
    :param y_pairs: the row of y of each pair
    :param n_components: N
    :param out: where to write the longest length, the mean length and the (first) longest component of each pair
    :param n_threads: how many threads may be used
    """
    kernel, _ = _kernels_for(x, n_components)

    def run(thread: int, pairs: slice) -> None:
        kernel(x, y, x_pairs[pairs], y_pairs[pairs], *(array[pairs] for array in out))

    _in_threads(run, len(x_pairs), _usable_threads(len(x_pairs), n_threads))


def backward(
    x: np.ndarray,
    y: np.ndarray,
    x_pairs: np.ndarray,
    y_pairs: np.ndarray,
    n_components: int,
    saved: Sequence[np.ndarray],
    n_threads: int,
) -> list[np.ndarray]:
    """
    Gradients with respect to x and y; the parameters not listed are those of :func:`forward`.

    :param saved: longest component of each pair, and the gradients of the longest and of the mean lengths
    :return: gradients of the shapes of x and y
    """
    _, kernel = _kernels_for(x, n_components)
    n_threads = _usable_threads(len(x_pairs), n_threads)
    # Rows that occur in many pairs would be written by several threads at once: each gets its own copy.
    shapes = [(1 if len(rows) == len(x_pairs) else n_threads, *rows.shape) for rows in (x, y)]
    # One allocation: two of this size often go back to the system when freed and are faulted in anew each time.
    memory = np.split(np.zeros(sum(map(math.prod, shapes)), x.dtype), [math.prod(shapes[0])])
    grads = [part.reshape(shape) for part, shape in zip(memory, shapes, strict=True)]

    def run(thread: int, pairs: slice) -> None:
        own = [grad[thread % len(grad)] for grad in grads]
        kernel(x, y, x_pairs[pairs], y_pairs[pairs], *(array[pairs] for array in saved), *own)

    _in_threads(run, len(x_pairs), n_threads)
    return [grad[0] if len(grad) == 1 else grad.sum(0) for grad in grads]
