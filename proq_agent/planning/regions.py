"""Parts of goal space, and the straight hops that pass through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

# A predicate is sampled at least this often along the longest side of the map.
_SAMPLES = 500
# Coordinates in one temporary: 2 MB of doubles, about a core's cache.
_CHUNK = 1 << 18

Corner = Sequence[float] | np.ndarray
Crosses = Callable[[np.ndarray, np.ndarray], np.ndarray]  # segments: starts, ends [N, dim] -> [N] bool


def crosses_box(low: Corner, high: Corner, dim: int) -> Crosses:
    """Which segments touch the box: clip each against the slab of every axis."""
    low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    if low.shape != (dim,) or high.shape != (dim,) or not (low <= high).all():
        raise ValueError(f"box must be (low, high), {dim} coordinates each, low <= high; got {low}, {high}.")

    def crosses(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            one, other = (low - starts) / (ends - starts), (high - starts) / (ends - starts)
        # NaN: the segment runs along a face of that slab, inside all the way; fmax and fmin pass over it.
        enter = np.fmax.reduce(np.minimum(one, other), axis=1, initial=0.0)
        leave = np.fmin.reduce(np.maximum(one, other), axis=1, initial=1.0)
        return enter <= leave

    return crosses


def crosses_region(region: Callable[[np.ndarray], np.ndarray], extent: float) -> Crosses:
    """Which segments have a sampled point in the region."""

    def crosses(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        longest = float(np.linalg.norm(ends - starts, axis=1).max(initial=0.0))
        n_samples = int(np.ceil(_SAMPLES * longest / max(extent, longest))) + 1 if longest else 1
        steps = np.linspace(0, 1, n_samples)[:, None]
        hit = np.zeros(len(starts), dtype=bool)
        chunk = max(1, _CHUNK // (n_samples * starts.shape[1]))
        for i in range(0, len(starts), chunk):
            start, end = starts[i : i + chunk, None], ends[i : i + chunk, None]
            samples = (start + steps * (end - start)).reshape(-1, starts.shape[1])
            inside = np.asarray(region(samples))
            if inside.shape != (len(samples),):
                raise ValueError(f"region must map points [N, goal_dim] to [N] bool, got {inside.shape}.")
            hit[i : i + chunk] = inside.astype(bool).reshape(-1, n_samples).any(axis=1)
        return hit

    return crosses
