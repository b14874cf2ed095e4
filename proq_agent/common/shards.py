"""Files of logged trajectories, read a block of whole trajectories at a time; a stranger's are never unpickled."""

from __future__ import annotations

import glob
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from proq_agent.common.errors import DamagedFile, within
from proq_agent.common.goals import GoalSpec
from proq_agent.common.minari_files import check_h5py, read_minari_folder
from proq_agent.common.npz import Header, check_names, check_sizes, open_array, read_header
from proq_agent.common.parquet_footer import declared_values
from proq_agent.common.state_rows import NEEDED, OPTIONAL, episode_arrays
from proq_agent.common.transitions import as_flags

BLOCK_NUMBERS = 1 << 22  # that are read together, but for trajectories that are longer
KNOWN = (*NEEDED, *OPTIONAL, "oracle_reps")
Block = dict[str, np.ndarray]


class Shard(NamedTuple):
    """One of the files, or folders, that a dataset consists of."""

    path: Path
    kind: str  #: a key of ``_READERS``

    @property
    def files(self) -> list[Path]:
        """Those on disk that it depends on."""
        if self.kind == "npy":
            return [path for name in KNOWN if (path := self.path / f"{name}.npy").is_file()]
        return sorted(p for p in _minari_folder(self.path).iterdir() if p.is_file()) if self.is_minari else [self.path]

    @property
    def is_minari(self) -> bool:
        return self.kind == "minari"

    def read(self, goal: GoalSpec) -> Iterator[Block]:
        """
        Its arrays, in blocks of whole trajectories; the same blocks every time.

        :param goal: of the dataset
        :raises ValueError: naming the shard, if it is damaged
        """
        blocks = _READERS[self.kind](self.path, goal)
        rest: Block = {}
        while True:
            with within(f"{self.path} is damaged or no dataset", "repair it or leave it out", DamagedFile):
                block = next(blocks, None)
                if block is None:
                    break
                block = {name: np.concatenate([rest[name], array]) if rest else array for name, array in block.items()}
                flag = "valids" if "valids" in block else "terminals"
                flags = as_flags(flag, block[flag], len(block[flag]))
                ends = np.flatnonzero(flags if flag == "terminals" else ~flags)
                n = ends[-1] + 1 if len(ends) else 0
                rest = {name: array[n:] for name, array in block.items()}
            if n:
                yield {name: array[:n] for name, array in block.items()}
        if rest and len(rest["terminals"]):
            yield rest  # which has no end, and will be told so

    def mappable(self) -> dict[str, tuple[Path, tuple[int, int], int]] | None:
        """
        Observations and actions that can be used as they lie on disk: the file, shape and first byte of each.

        :return: None if they have to be converted
        """
        if self.kind != "npy" or (self.path / "next_observations.npy").is_file():
            return None
        found = {}
        for name in ("observations", "actions"):
            path = self.path / f"{name}.npy"
            with within(f"{path} is damaged", "repair it or leave it out", ValueError), path.open("rb") as file:
                header = read_header(file)
                if header.dtype != np.dtype("<f4") or header.is_fortran or len(header.shape) != 2:
                    return None
                found[name] = path, (header.shape[0], header.shape[1]), file.tell()
        return found


def find_shards(files: str | PathLike[str] | Iterable[str | PathLike[str]]) -> list[Shard]:
    """
    The shards that paths, folders and patterns stand for.

    :param files: a folder stands for what lies in it, in the order of the names
    :raises ValueError: naming what is not there or of no known kind
    """
    given = [files] if isinstance(files, str | PathLike) else list(files)
    shards = [shard for each in given for shard in _find(Path(each).expanduser())]
    if not shards:
        raise ValueError("no files are given")
    if any(shard.kind == "parquet" for shard in shards):
        _parquet()  # that it is missing shall not be said of a file
    if any(shard.is_minari for shard in shards):
        check_h5py()
    return shards


def _find(path: Path) -> list[Shard]:
    what = ".npz, .parquet, folders with observations.npy, actions.npy and terminals.npy, or Minari datasets"
    if (kind := _kind(path)) is not None:
        return [Shard(path, kind)]
    if path.is_dir():
        within_ = sorted(path.iterdir())
    elif not path.exists() and glob.has_magic(str(path)):
        within_ = sorted(map(Path, glob.glob(str(path), recursive=True)))
    elif path.exists():
        raise ValueError(f"{path} is no dataset file; give {what}")
    else:
        raise ValueError(f"there is no dataset file {path}")
    shards = [Shard(p, kind) for p in within_ if not p.name.startswith(".") and (kind := _kind(p)) is not None]
    if not shards:
        raise ValueError(f"there is no dataset file in {path}; give {what}")
    return shards


def _kind(path: Path) -> str | None:
    if path.is_file():
        return {".npz": "npz", ".parquet": "parquet"}.get(path.suffix)
    if (path / "observations.npy").is_file():
        return "npy"
    return "minari" if (_minari_folder(path) / "metadata.json").is_file() else None


def _minari_folder(path: Path) -> Path:
    return path / "data" if (path / "data").is_dir() else path


def _npz(path: Path, goal: GoalSpec) -> Iterator[Block]:
    with zipfile.ZipFile(path) as file, ExitStack() as stack:
        there = [name.removesuffix(".npy") for name in file.namelist() if name.endswith(".npy")]
        check_names(path, there, NEEDED)
        members = {name: stack.enter_context(open_array(file, name)) for name in KNOWN if name in there}
        headers = {name: read_header(member) for name, member in members.items()}
        check_sizes({name: header.n_bytes for name, header in headers.items()}, path.stat().st_size)
        yield from _arrays(headers, members)


def _npy(path: Path, goal: GoalSpec) -> Iterator[Block]:
    there = [file.stem for file in path.glob("*.npy")]
    check_names(path, there, NEEDED)
    with ExitStack() as stack:
        files = {name: stack.enter_context((path / f"{name}.npy").open("rb")) for name in KNOWN if name in there}
        yield from _arrays({name: read_header(file) for name, file in files.items()}, files)


def _arrays(headers: Mapping[str, Header], files: Mapping[str, IO[bytes]]) -> Iterator[Block]:
    """Blocks of arrays that are read side by side, each from where its numbers begin to its end."""
    n = headers["observations"].shape[:1]
    for name, header in headers.items():
        if header.shape[:1] != n or not n:
            raise ValueError(f"{name} has shape {header.shape}, observations {headers['observations'].shape}")
        if header.dtype.kind not in "fiub":
            raise ValueError(f"{name} has dtype {header.dtype}; give real numbers (float32)")
        if header.is_fortran and len(header.shape) > 1:
            raise ValueError(f"{name} is in Fortran's order; write numpy.ascontiguousarray of it")
    width = sum(int(np.prod(header.shape[1:], dtype=np.int64)) for header in headers.values())
    size = max(1, BLOCK_NUMBERS // max(width, 1))
    for done in range(0, n[0], size):
        rows = min(size, n[0] - done)
        block = {}
        for name, header in headers.items():
            shape = (rows, *header.shape[1:])
            wanted = int(np.prod(shape, dtype=np.int64)) * header.dtype.itemsize
            data = files[name].read(wanted)
            if len(data) < wanted:
                raise ValueError(f"{name} ends before row {n[0]}, which it declares to have")
            block[name] = np.frombuffer(data, dtype=header.dtype).reshape(shape)
        yield block
    for name, file in files.items():
        if file.read(1):  # in a zip file, this also compares the checksum
            raise ValueError(f"{name} has more rows than it declares")


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need the package: pip install pyarrow") from error
    return pyarrow.parquet


def _parquet_blocks(path: Path, goal: GoalSpec) -> Iterator[Block]:
    with _parquet().ParquetFile(path, buffer_size=1 << 20) as file:
        there = file.schema_arrow.names
        check_names(path, there, NEEDED)
        names = [name for name in KNOWN if name in there]
        numbers = dict.fromkeys(names, 0)
        for i, n in declared_values(path):
            column = file.schema.column(i).path.partition(".")[0]
            if column in numbers:
                numbers[column] += 4 * n
        check_sizes(numbers, path.stat().st_size)
        width = sum(numbers.values()) // max(4 * file.metadata.num_rows, 1)
        for batch in file.iter_batches(max(1, BLOCK_NUMBERS // max(width, 1)), columns=names):
            yield {name: _column(name, batch.column(name)) for name in names}


def _column(name: str, array: Any) -> np.ndarray:
    """A column of numbers, or of lists of them that are equally long."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, rows = array.type, len(array)
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    flat = array.flatten() if is_list else array
    if array.null_count or flat.null_count:
        raise ValueError(f"{name} has empty cells")
    if is_list and rows and len(pc.unique(pc.list_value_length(array))) != 1:
        raise ValueError(f"{name} has lists of different lengths")
    numbers = flat.to_numpy(zero_copy_only=False)
    return numbers.reshape(rows, -1) if is_list else numbers


def _minari(path: Path, goal: GoalSpec) -> Iterator[Block]:
    episodes: list[tuple[Any, Any]] = []
    first = numbers = 0
    for number, (states, actions) in enumerate(read_minari_folder(_minari_folder(path), str(path)).episodes):
        episodes.append((states, actions))
        numbers += actions.size + sum(part.size for part in (states.values() if isinstance(states, dict) else [states]))
        if numbers > BLOCK_NUMBERS:
            yield episode_arrays(episodes, goal, first)
            episodes, first, numbers = [], number + 1, 0
    if episodes or not first:
        yield episode_arrays(episodes, goal, first)


_READERS: dict[str, Callable[[Path, GoalSpec], Iterator[Block]]] = {
    "npz": _npz,
    "npy": _npy,
    "parquet": _parquet_blocks,
    "minari": _minari,
}
