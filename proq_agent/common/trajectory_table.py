"""
Statistics of each trajectory, taken in one pass; those of any set of trajectories follow from them at once.

A table is an array ``[trajectories, 5, features]`` of float64: sum, sum of squared deviations from the trajectory's own
mean, least, greatest, and longest step from one row to the next.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

N_FIELDS = 5
_CHUNK_NUMBERS = 1 << 22  # of a table that are looked at together
_SUM, _SQUARES, _LOW, _HIGH, _STEP = range(N_FIELDS)


class Summary(NamedTuple):
    """Of all rows of some trajectories, feature by feature."""

    mean: np.ndarray
    std: np.ndarray
    low: np.ndarray
    high: np.ndarray
    longest_step: np.ndarray


def trajectory_table(rows: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """
    The table of whole trajectories.

    :param rows: ``[rows, features]`` of float32
    :param ends: the last row of each trajectory
    """
    starts = np.r_[0, ends[:-1] + 1]
    lengths = np.diff(ends, prepend=-1)
    steps = np.abs(np.diff(rows, axis=0, append=rows[-1:]))
    steps[ends] = 0.0
    sums = np.add.reduceat(rows, starts, axis=0, dtype=np.float64)
    deviations = rows - np.repeat(sums / lengths[:, None], lengths, axis=0)
    squares = np.add.reduceat(np.square(deviations, out=deviations), starts, axis=0)
    low, high = np.minimum.reduceat(rows, starts, axis=0), np.maximum.reduceat(rows, starts, axis=0)
    return np.stack([sums, squares, low, high, np.maximum.reduceat(steps, starts, axis=0)], axis=1)


def summarise(table: np.ndarray, lengths: np.ndarray, trajectories: np.ndarray) -> Summary:
    """
    What a table says about some of its trajectories together.

    :param table: may be a file that is mapped
    :param lengths: ``[n]`` rows of each trajectory
    :param trajectories: ``[n]`` which of them count, one at least
    """
    chosen = np.flatnonzero(trajectories)
    size = max(1, _CHUNK_NUMBERS // (N_FIELDS * table.shape[2]))
    chunks = [chosen[k : k + size] for k in range(0, len(chosen), size)]
    n = lengths[chosen].sum()
    mean = sum(table[chunk, _SUM].sum(axis=0) for chunk in chunks) / n
    squares = np.zeros_like(mean)
    low, high, step = np.full_like(mean, np.inf), np.full_like(mean, -np.inf), np.zeros_like(mean)
    for chunk in chunks:
        part, rows = table[chunk], lengths[chunk, None]
        squares += (part[:, _SQUARES] + rows * (part[:, _SUM] / rows - mean) ** 2).sum(axis=0)
        low, high = np.minimum(low, part[:, _LOW].min(axis=0)), np.maximum(high, part[:, _HIGH].max(axis=0))
        step = np.maximum(step, part[:, _STEP].max(axis=0))
    return Summary(mean, np.sqrt(squares / n), low, high, step)


def longest_steps(table: np.ndarray) -> np.ndarray:
    """``[trajectories, features]``."""
    return table[:, _STEP]
