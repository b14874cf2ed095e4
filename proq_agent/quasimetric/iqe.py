"""
The quasimetric ``d(x, y)``: interval quasimetric embedding (IQE) with the maxmean reduction.

An embedding of M·N numbers is read as N components of M numbers, laid out ``[..., M, N]``. In each component, the M
intervals ``[x_m, y_m]`` with ``y_m > x_m`` ("active") have a union; ``d`` is ``alpha`` times the longest union plus
``1 - alpha`` times the mean one. Hence ``d >= 0``, ``d(x, x) = 0`` and the triangle inequality, but not symmetry.

The gradient of a union's length is +1 at each end and -1 at each start that bounds the union. It is not unique where
numbers tie; every implementation here takes the same one:

- an inactive interval gets none; intervals that merely touch count as two;
- of equal starts the first index counts, of equal ends the last;
- of equally long components the first is the longest.
"""

from __future__ import annotations

import functools
from typing import Literal

import torch as th
from torch import nn
from torch.utils.checkpoint import checkpoint

from proq_agent.quasimetric.max_mean import broadcast, cpu_kernels, max_mean, runs_triton

Implementation = Literal["auto", "reference", "torch", "cpu", "triton"]

# Elements of the [rows, L, M, M, N] masks that the chunked pairwise form holds at once: what a CPU's cache holds;
# elsewhere every chunk is some thirty kernels to launch, and a hundred keypoints of the paper's size are one.
CPU_CHUNK, CHUNK = 2**22, 2**26


def iqe(
    x: th.Tensor, y: th.Tensor, alpha: th.Tensor, *, n_components: int, implementation: Implementation = "auto"
) -> th.Tensor:
    """
    Distances from ``x`` to ``y``, differentiable in all three tensors.

    :param x: embeddings ``[..., M * n_components]`` of where to start
    :param y: embeddings of where to end; leading dimensions broadcast against those of ``x``
    :param alpha: scalar tensor in [0, 1], the share of the longest component against the mean
    :param n_components: N, the number of components
    :param implementation: "reference" sorts and is meant to be read; "torch" runs on any device and compiles;
        "cpu" (Numba) and "triton" (CUDA) are kernels for float32 and float64, which do not expand broadcast inputs;
        "auto" takes one of these where it can and "torch" elsewhere
    :return: distances ``[...]``
    """
    _check(x, y, alpha, n_components)
    if not th.compiler.is_compiling():
        try:
            broadcast(x, y)
        except ValueError:
            raise ValueError(
                f"the leading dimensions of x {tuple(x.shape)} and y {tuple(y.shape)} do not broadcast; "
                "insert dimensions of size 1 or use iqe_pairwise"
            ) from None
    return _distances(x, y, alpha, n_components, _choose(implementation, x))


def iqe_pairwise(
    x: th.Tensor, y: th.Tensor, alpha: th.Tensor, *, n_components: int, implementation: Implementation = "auto"
) -> th.Tensor:
    """
    Distances from every row of ``x`` to every row of ``y``, without ever holding K·L embeddings.

    :param x: embeddings ``[K, M * n_components]``
    :param y: embeddings ``[L, M * n_components]``
    :param alpha: as for :func:`iqe`
    :param n_components: as for :func:`iqe`
    :param implementation: as for :func:`iqe`
    :return: distances ``[K, L]``
    """
    _check(x, y, alpha, n_components)
    if x.ndim != 2 or y.ndim != 2:
        raise ValueError(f"pairwise distances need x [K, D] and y [L, D], not {tuple(x.shape)} and {tuple(y.shape)}")
    implementation = _choose(implementation, x)
    x, y = x.unsqueeze(1), y.unsqueeze(0)
    size = x.shape[-1] // n_components
    chunk = CPU_CHUNK if x.device.type == "cpu" else CHUNK
    rows = max(1, chunk // max(1, y.numel() * size))
    if implementation in ("cpu", "triton") or len(x) <= rows:
        return _distances(x, y, alpha, n_components, implementation)
    # Checkpointing makes the backward pass recompute a chunk's masks, so that they exist for one chunk at a time.
    recomputed = functools.partial(checkpoint, _distances, use_reentrant=False, preserve_rng_state=False)
    return th.cat([recomputed(chunk, y, alpha, n_components, implementation) for chunk in x.split(rows)])


class Quasimetric(nn.Module):
    """
    IQE with a learned ``alpha``, which starts at one half.

    :param n_components: number of components of the embeddings
    :param symmetric: take the mean of both directions, a metric: to see what asymmetry is worth
    """

    def __init__(self, n_components: int, symmetric: bool = False) -> None:
        super().__init__()
        self.n_components, self.symmetric = n_components, symmetric
        self.alpha_logit = nn.Parameter(th.zeros(()))

    @property
    def alpha(self) -> th.Tensor:
        return self.alpha_logit.sigmoid()

    def forward(self, x: th.Tensor, y: th.Tensor) -> th.Tensor:
        """See :func:`iqe`."""
        there = iqe(x, y, self.alpha, n_components=self.n_components)
        return (there + iqe(y, x, self.alpha, n_components=self.n_components)) / 2 if self.symmetric else there

    def pairwise(self, x: th.Tensor, y: th.Tensor) -> th.Tensor:
        """See :func:`iqe_pairwise`."""
        there = iqe_pairwise(x, y, self.alpha, n_components=self.n_components)
        return (
            (there + iqe_pairwise(y, x, self.alpha, n_components=self.n_components).T) / 2 if self.symmetric else there
        )

    def extra_repr(self) -> str:
        return f"n_components={self.n_components}, symmetric={self.symmetric}"


def _check(x: th.Tensor, y: th.Tensor, alpha: th.Tensor, n_components: int) -> None:
    if x.ndim == 0 or y.ndim == 0 or x.shape[-1] != y.shape[-1]:
        raise ValueError(f"x and y must share their last dimension, got shapes {tuple(x.shape)} and {tuple(y.shape)}")
    if n_components < 1 or x.shape[-1] < 1 or x.shape[-1] % n_components:
        raise ValueError(
            f"n_components={n_components} does not divide the embedding size {x.shape[-1]}; "
            "choose an embedding size that is a multiple of the number of components"
        )
    if x.dtype != y.dtype or not x.dtype.is_floating_point:
        raise ValueError(f"x and y must have one floating dtype, got {x.dtype} and {y.dtype}; convert one of them")
    if x.device != y.device:
        raise ValueError(f"x is on {x.device} but y is on {y.device}; move one of them")
    if alpha.ndim:
        raise ValueError(f"alpha must be a scalar tensor, got shape {tuple(alpha.shape)}")


def _choose(implementation: Implementation, x: th.Tensor) -> Implementation:
    """Resolve "auto", and refuse what cannot run."""
    if implementation in ("reference", "torch"):
        return implementation
    if implementation not in ("auto", "cpu", "triton"):
        raise ValueError(f'implementation={implementation!r} is none of "auto", "reference", "torch", "cpu", "triton"')
    wanted = {"cpu": "cpu", "cuda": "triton"}.get(x.device.type) if implementation == "auto" else implementation
    if x.dtype in (th.float32, th.float64) and not th.compiler.is_compiling():
        if wanted == "cpu" and x.device.type == "cpu" and cpu_kernels() is not None:
            return "cpu"
        if wanted == "triton" and runs_triton(x.device):
            return "triton"
    if implementation == "auto":
        return "torch"
    package, device = ("Numba", "the CPU") if implementation == "cpu" else ("Triton", "a CUDA device")
    raise ValueError(
        f"implementation={implementation!r} needs {package} (pip install {package.lower()}) and eager float32 or "
        f'float64 tensors on {device}, got {x.dtype} on {x.device}; use "auto"'
    )


def _distances(x: th.Tensor, y: th.Tensor, alpha: th.Tensor, n_components: int, implementation: str) -> th.Tensor:
    if implementation in ("cpu", "triton"):
        largest, mean = max_mean(x, y, n_components, implementation)
    else:
        x, y = x.unflatten(-1, (-1, n_components)), y.unflatten(-1, (-1, n_components))
        lengths = _lengths_by_sorting(x, y) if implementation == "reference" else _lengths_by_masks(x, y)
        largest = lengths.gather(-1, lengths.argmax(-1, keepdim=True)).squeeze(-1)
        mean = lengths.mean(-1)
    return th.lerp(mean, largest, alpha.to(mean.dtype))


def _lengths_by_sorting(x: th.Tensor, y: th.Tensor) -> th.Tensor:
    """
    Union lengths ``[..., N]`` of the intervals from x to y ``[..., M, N]``.

    Between the k-th start and the next, the union is covered up to the k-th end: starts and ends sort separately.
    """
    infinity = th.full_like(x[..., :1, :], th.inf)
    active = y > x
    starts = th.where(active, x, infinity).sort(dim=-2, stable=True).values
    ends = th.where(active, y, infinity).sort(dim=-2, stable=True).values
    next_starts = th.cat([starts[..., 1:, :], infinity.expand_as(starts[..., :1, :])], dim=-2)
    covered_until = th.where(ends <= next_starts, ends, next_starts)
    return th.where(starts < th.inf, covered_until - starts, 0).sum(-2)


def _lengths_by_masks(x: th.Tensor, y: th.Tensor) -> th.Tensor:
    """
    Union lengths as the sum of the ends minus the sum of the starts that no other interval covers.

    An inactive interval cannot cover anything: ``x_j <= t < y_j`` and ``x_j < t <= y_j`` both imply ``x_j < y_j``.
    """
    index = th.arange(x.shape[-2], device=x.device).unsqueeze(-1)
    earlier, later = index < index.unsqueeze(1), index > index.unsqueeze(1)  # [M, M, 1]: j before, after i
    x_i, y_i = x.unsqueeze(-2), y.unsqueeze(-2)
    x_j, y_j = x.unsqueeze(-3), y.unsqueeze(-3)
    start_covered = (x_i < y_j) & ((x_j < x_i) | ((x_j == x_i) & earlier))
    end_covered = (x_j < y_i) & ((y_i < y_j) | ((y_i == y_j) & later))
    active = ~(y <= x)  # so that a NaN is counted, and seen in the result
    starts, ends = active & ~start_covered.any(-2), active & ~end_covered.any(-2)
    return (th.where(ends, y, 0) - th.where(starts, x, 0)).sum(-2)
