"""Rows of numbers on disk, indexed like a tensor: what is asked for is read, and hardly more stays in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch as th

from proq_agent.common.trajectory_table import Summary, longest_steps, summarise

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# Where rows come from a disk instead of the system's cache, many are asked for at once: disks are quick only then.
N_READERS = 16
COLD = 0.1  # share of the rows
N_SOME = 100_000  # rows tell what the others are like


class FloatFile:
    """
    A file of float32 numbers in rows. It is not mapped: systems map hundreds of kilobytes around each row that is
    looked at, which takes longer than to read it, and adds up.

    :param path: the file
    :param shape: rows and numbers in each
    :param offset: bytes before the first row
    :raises ValueError: naming the file, if it is shorter
    """

    def __init__(self, path: Path, shape: tuple[int, int], offset: int = 0) -> None:
        self.path, self.shape, self.offset = path, shape, offset
        self._file, self._reading = path.open("rb", buffering=0), Lock()  # also of a file that is replaced meanwhile
        if os.fstat(self._file.fileno()).st_size < offset + shape[0] * shape[1] * 4:
            raise ValueError(f"{path} has fewer than {shape[0]} rows of {shape[1]} numbers")
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        self._pool: tuple[int, ThreadPoolExecutor] | None = None
        self._is_cold = False

    def __reduce__(self) -> Any:
        return FloatFile, (self.path, self.shape, self.offset)

    def take(self, rows: th.Tensor, columns: slice) -> th.Tensor:
        """
        Copies of rows.

        :param rows: ``[n]`` numbers on the CPU
        :param columns: of each row
        :raises IndexError: if there are no such rows
        """
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < self.shape[0]:
            raise IndexError(f"rows must lie in 0..{self.shape[0] - 1}, got {int(rows.min())}..{int(rows.max())}")
        first, end, _ = columns.indices(self.shape[1])
        taken = np.empty((len(rows), end - first), "<f4")
        places = (self.offset + 4 * (rows * self.shape[1] + first)).tolist()
        read = _blocks_read()
        if self._is_cold and len(rows) > N_READERS:
            shares = range(N_READERS)
            list(self._readers().map(lambda k: self._fill(taken[k::N_READERS], places[k::N_READERS]), shares))
        else:
            self._fill(taken, places)
        self._is_cold = _blocks_read() - read > COLD * len(rows)
        return th.from_numpy(taken)

    def _fill(self, taken: np.ndarray, places: list[int]) -> None:
        """Read one row after the other, from bytes of the file."""
        for row, place in zip(taken, places, strict=True):
            if self._read_at(place, row) < row.nbytes:
                raise self._shorter()

    def _read_at(self, place: int, row: np.ndarray) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [row.data], place)
        with self._reading:
            self._file.seek(place)
            return self._file.readinto(row.data)

    def _shorter(self) -> ValueError:
        return ValueError(f"{self.path} has become shorter while it was read")

    def _readers(self) -> ThreadPoolExecutor:
        if self._pool is None or self._pool[0] != os.getpid():  # threads do not survive a fork
            self._pool = os.getpid(), ThreadPoolExecutor(N_READERS, thread_name_prefix="rows")
        return self._pool[1]

    def read(self, first: int, rows: int) -> np.ndarray:
        """Some rows in a sequence."""
        taken = np.empty((rows, self.shape[1]), "<f4")
        rest = taken.data.cast("B")
        with self._reading:
            self._file.seek(self.offset + first * self.shape[1] * 4)
            while rest:
                n = self._file.readinto(rest)
                if not n:
                    raise self._shorter()
                rest = rest[n:]
        return taken


def _blocks_read() -> int:
    """How much this process has read that was not in the system's cache."""
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_inblock


class RowFile:
    """
    Some columns of a file's rows, all of them or those of some trajectories, and their statistics.

    It stands where a tensor ``[rows, features]`` does and answers, as that would, to ``shape``, ``device``, ``len``,
    to an index of row numbers, ``split`` and ``aminmax``.

    :param file: may be shared
    :param columns: of each row
    :param table: of its trajectories, see :mod:`proq_agent.common.trajectory_table`
    :param lengths: rows of each trajectory in the file
    :param trajectories: which of them are here; all by default
    :param chosen: numbers of those features that are wanted, which the table has alone; all by default
    :param device: where rows go that are asked for
    """

    def __init__(
        self,
        file: FloatFile,
        columns: slice,
        table: np.ndarray,
        lengths: np.ndarray,
        trajectories: np.ndarray | None = None,
        chosen: Sequence[int] | None = None,
        device: th.device | str = "cpu",
    ) -> None:
        self._file, self._columns, self._table, self._lengths = file, columns, table, lengths
        self._chosen = None if chosen is None else list(chosen)
        self._trajectories = np.ones(len(lengths), dtype=bool) if trajectories is None else trajectories
        self.device = th.device(device)
        # Runs of rows that follow each other in the file: where they begin here, and there.
        kept = np.r_[False, self._trajectories, False]
        first, last = np.flatnonzero(kept[1:] & ~kept[:-1]), np.flatnonzero(kept[:-1] & ~kept[1:])
        borders = np.r_[0, np.cumsum(lengths)]
        self._run_starts, self._run_lengths = borders[first], borders[last] - borders[first]
        ends = np.cumsum(self._run_lengths)
        self._run_ends = th.as_tensor(ends)
        self._shifts = th.as_tensor(self._run_starts - (ends - self._run_lengths))
        self.shape = th.Size((int(ends[-1]), table.shape[2]))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: th.Tensor | np.ndarray | slice) -> th.Tensor:
        rows = th.arange(*rows.indices(len(self))) if isinstance(rows, slice) else th.as_tensor(rows)
        flat = rows.cpu().reshape(-1)
        if len(self) < self._file.shape[0]:
            flat = flat + self._shifts[th.searchsorted(self._run_ends, flat, right=True)]
        taken = self._file.take(flat, self._columns)
        taken = taken if self._chosen is None else taken[:, self._chosen]
        return taken.view(*rows.shape, self.shape[1]).to(self.device)

    def to(self, device: th.device | str) -> RowFile:
        """The same rows for another device; none is read."""
        return self._with(device=th.device(device))

    def only(self, trajectories: np.ndarray) -> RowFile:
        """
        The rows of some of these trajectories; none is read.

        :param trajectories: ``[n]`` whether each is kept
        """
        kept = self._trajectories.copy()
        kept[kept] = trajectories
        return self._with(trajectories=kept)

    def features(self, chosen: Sequence[int]) -> RowFile:
        """
        Some columns of these; no row is read.

        :param chosen: their numbers
        """
        numbers = [number if self._chosen is None else self._chosen[number] for number in chosen]
        return self._with(table=self._table[:, :, list(chosen)], chosen=numbers)

    def _with(self, **changes: Any) -> RowFile:
        own = {"table": self._table, "trajectories": self._trajectories, "chosen": self._chosen, "device": self.device}
        return RowFile(self._file, self._columns, lengths=self._lengths, **own | changes)

    def split(self, size: int) -> Iterator[th.Tensor]:
        """All rows in their order, at most ``size`` at a time."""
        for start, length in zip(self._run_starts.tolist(), self._run_lengths.tolist(), strict=True):
            for done in range(0, length, size):
                rows = self._file.read(start + done, min(size, length - done))
                rows = rows[:, self._columns] if self._chosen is None else rows[:, self._columns][:, self._chosen]
                yield th.from_numpy(np.ascontiguousarray(rows)).to(self.device)

    def summary(self) -> Summary:
        """Statistics of these rows; none is read."""
        return summarise(self._table, self._lengths, self._trajectories)

    def aminmax(self, dim: int = 0) -> tuple[th.Tensor, th.Tensor]:
        """As of a tensor; of the features only."""
        summary = self.summary()
        low, high = (th.as_tensor(bound, dtype=th.float32, device=self.device) for bound in (summary.low, summary.high))
        return low, high

    def longest_steps(self) -> np.ndarray:
        """``[trajectories, features]``, how far apart consecutive rows of each trajectory are at most."""
        return longest_steps(self._table)[self._trajectories]


Rows = th.Tensor | RowFile


def whole(rows: Rows) -> th.Tensor:
    """All rows as one tensor."""
    return rows if isinstance(rows, th.Tensor) else th.cat(list(rows.split(1 << 16)))


def some_rows(rows: Rows) -> th.Tensor:
    """Rows at equal distances, at most :data:`N_SOME`."""
    step = -(-len(rows) // N_SOME)
    return rows[th.arange(0, len(rows), step, device=rows.device)]
