"""
Files of trajectories as rows of float32 on disk, read once and checked on the way::

    .proq-cache/<key>.lock
    .proq-cache/<key>/dataset.json        what was read, and how much of it there is
                      rows.f32            a row a state: observation, action, and the goal if that is another thing
                      ends.i64            the last row of each trajectory
                      observations.f64    statistics of each trajectory, and the same of actions and goals

The key is of the files' names, of what the goal is and of the code that reads them; their sizes and times of change are
in ``dataset.json``. While it is being made the folder is called ``<key>.part``; whoever finds one goes on with it.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tqdm import tqdm

from proq_agent.common import state_rows as state_rows_module
from proq_agent.common import trajectory_table as trajectory_table_module
from proq_agent.common.errors import DamagedFile, within
from proq_agent.common.files import locked, write_text
from proq_agent.common.goals import GoalSpec
from proq_agent.common.row_file import FloatFile, RowFile
from proq_agent.common.state_rows import check_actions_lie_in, known_arrays, state_rows
from proq_agent.common.trajectory_table import N_FIELDS, trajectory_table

if TYPE_CHECKING:
    from proq_agent.common.shards import Block, Shard

FOLDER = ".proq-cache"
SAVE_SECONDS = 10.0  # of work that an interruption costs at most
SPARE_BYTES = 1 << 28  # that stay free on the disk
N_COMPARED = 256  # rows that tell whether a function of the observations is still the same


class StoredRows(NamedTuple):
    """Trajectories on disk."""

    observations: RowFile
    actions: RowFile
    goals: RowFile  #: the observations themselves if these are the goals
    ends: np.ndarray  #: the last row of each trajectory
    fingerprint: str  #: of all rows


@dataclass
class _Written:
    """What lies in a folder; all of the files if ``shard`` is their number."""

    files: list[list[Any]]  #: name, size and time of change of each
    shard: int = 0  #: how many are done
    blocks: int = 0  #: of the next one that are done, too
    rows: int = 0
    trajectories: int = 0
    dims: list[int] = field(default_factory=list)  #: of observations, actions, and goals or 0 if these are the same
    in_place: bool = False  #: observations and actions are where they were
    fingerprint: str = ""

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each file."""
        observation, action, goal = self.dims or (0, 0, 0)
        table = 8 * N_FIELDS * self.trajectories
        return {
            "rows.f32": 4 * self.rows * ((0 if self.in_place else observation + action) + goal),
            "ends.i64": 8 * self.trajectories,
            "observations.f64": table * observation,
            "actions.f64": table * action,
            "goals.f64": table * goal,
        }

    @classmethod
    def load(cls, folder: Path) -> _Written | None:
        """What a folder says that it holds, if it does."""
        try:
            written = cls(**json.loads((folder / "dataset.json").read_text()))
            held = {name: (folder / name).stat().st_size for name in written.sizes}
        except (OSError, ValueError, TypeError):
            return None
        return written if all(held[name] >= size for name, size in written.sizes.items()) else None


def open_rows(
    shards: list[Shard],
    goal: GoalSpec,
    action_space: Any = None,
    cache: Path | None = None,
    progress: bool = False,
) -> StoredRows:
    """
    Rows of trajectories that lie in files; read from these once, and from the cache ever after.

    :param shards: the files
    :param goal: what of the observations is the goal, if the files do not tell
    :param action_space: actions are checked against it
    :param cache: folder; by default one beside the first of the files
    :param progress: show how far the reading is
    :raises ValueError: naming the file that is wrong
    """
    parent = (cache or shards[0].path.absolute().parent / FOLDER).expanduser()
    paths = [path for shard in shards for path in shard.files]
    names = [os.path.relpath(path, parent) for path in paths]
    listed = [[n, p.stat().st_size, p.stat().st_mtime_ns] for n, p in zip(names, paths, strict=True)]
    folder = parent / _key(names, goal, type(shards[0]))
    try:
        with _no_empty_folder(parent), locked(folder.with_suffix(".lock")):
            stored = _open(folder, listed, shards, goal)
            if stored is None:
                _build(folder, listed, shards, goal, action_space, progress)
                stored = _open(folder, listed, shards, goal)
                assert stored is not None
    except PermissionError as error:
        raise ValueError(f"cannot write to {parent} ({error.strerror}); give another folder with cache=...") from error
    if action_space is not None:
        summary = stored.actions.summary()
        check_actions_lie_in(np.stack([summary.low, summary.high]), action_space)
    return stored


@contextmanager
def _no_empty_folder(folder: Path) -> Iterator[None]:
    """Nothing is left of a cache that nothing came of."""
    try:
        yield
    finally:
        with suppress(OSError):  # it holds something, as it should
            folder.rmdir()


def _key(names: list[str], goal: GoalSpec, reader: type) -> str:
    modules = inspect.getmodule(reader), state_rows_module, trajectory_table_module
    code = [inspect.getsource(module) for module in modules if module is not None]
    text = json.dumps([names, goal.indices, goal.function is not None and _description(goal.function), code])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _description(function: Any) -> str:
    """Of a function, by what it does; what this overlooks, as functions that it calls, is found by comparing rows."""

    def parts(code: CodeType) -> list[Any]:
        constants = [parts(part) if isinstance(part, CodeType) else repr(part) for part in code.co_consts]
        return [code.co_code.hex(), code.co_names, constants]

    code = getattr(function, "__code__", None)
    return json.dumps(parts(code)) if isinstance(code, CodeType) else getattr(function, "__qualname__", "")


def _open(folder: Path, listed: list[list[Any]], shards: list[Shard], goal: GoalSpec) -> StoredRows | None:
    """What was stored, if it is complete and of these files as they are now."""
    written = _Written.load(folder)
    if written is None or written.files != listed or written.shard != len(shards):
        return None
    (observation, action, extra), n = written.dims, written.trajectories
    ends = np.fromfile(folder / "ends.i64", "<i8")
    lengths = np.diff(ends, prepend=-1)

    def stored(name: str, dim: int, file: FloatFile, first: int) -> RowFile:
        table = np.memmap(folder / f"{name}.f64", "<f8", "r", shape=(n, N_FIELDS, dim))
        return RowFile(file, slice(first, first + dim), table, lengths)

    if written.in_place:
        found = shards[0].mappable()
        assert found is not None
        observed, acted = (FloatFile(*where) for where in found.values())
        rest = (FloatFile(folder / "rows.f32", (written.rows, extra)), 0) if extra else None
        observations, actions = stored("observations", observation, observed, 0), stored("actions", action, acted, 0)
    else:
        file = FloatFile(folder / "rows.f32", (written.rows, sum(written.dims)))
        observations = stored("observations", observation, file, 0)
        actions = stored("actions", action, file, observation)
        rest = (file, observation + action) if extra else None
    goals = stored("goals", extra, *rest) if rest else observations
    if goal.function is not None:
        some = slice(0, None, max(1, written.rows // N_COMPARED))
        if not np.array_equal(goal.of(observations[some].numpy()).astype(np.float32), goals[some].numpy()):
            return None
    return StoredRows(observations, actions, goals, ends, written.fingerprint)


def _build(
    folder: Path, listed: list[list[Any]], shards: list[Shard], goal: GoalSpec, action_space: Any, progress: bool
) -> None:
    """
    Read the files, going on where an earlier attempt was interrupted, and put what was written in its place. If a file
    is damaged, the rows of those before it are kept for the next attempt.
    """
    part = folder.with_suffix(".part")
    written = _Written.load(part)
    begun = 0 if written is None else sum(len(s.files) for s in shards[: written.shard + bool(written.blocks)])
    if written is None or len(written.files) != len(listed) or written.files[:begun] != listed[:begun]:
        shutil.rmtree(part, ignore_errors=True)
        in_place = len(shards) == 1 and shards[0].mappable() is not None
        written = _Written(listed, in_place=in_place)
    written.files = listed
    part.mkdir(parents=True, exist_ok=True)
    try:
        _read_rest(part, written, shards, goal, action_space, progress)
        if not written.rows:
            raise DamagedFile(f"there is no row in {shards[0].path}{', nor in the other files' * (len(shards) > 1)}")
    except DamagedFile:
        if not (written.shard and written.rows):
            shutil.rmtree(part)
        raise
    shutil.rmtree(folder, ignore_errors=True)  # of files that have changed
    os.replace(part, folder)


def _read_rest(
    part: Path, written: _Written, shards: list[Shard], goal: GoalSpec, action_space: Any, progress: bool
) -> None:
    files = {name: (part / name).open("ab") for name in written.sizes}
    for name, size in written.sizes.items():
        files[name].truncate(size)
    saved = time.monotonic()
    what = f"reading {len(shards)} files once, into {part.parent.name}"
    bar = tqdm(desc=what, unit=" rows", unit_scale=True, initial=written.rows, disable=None if progress else True)
    try:
        with bar:
            while written.shard < len(shards):
                shard, first = shards[written.shard], 0
                bar.set_postfix_str(f"{shard.path.name}, {written.shard + 1} of {len(shards)}")
                for number, block in enumerate(shard.read(goal)):
                    if number >= written.blocks:
                        where = f"{shard.path} cannot be used" + (f" (rows are counted from {first})" if first else "")
                        with within(where, "repair it or leave it out", DamagedFile):
                            arrays = _checked(block, goal, action_space, written)
                        before = written.rows
                        _append(arrays, files, written)
                        bar.update(written.rows - before)
                    first += len(block["terminals"])
                    if time.monotonic() - saved > SAVE_SECONDS:
                        _save(part, files, written)
                        saved = time.monotonic()
                written.shard, written.blocks = written.shard + 1, 0
    finally:
        try:
            _save(part, files, written)
        finally:
            for file in files.values():
                file.close()


def _checked(block: Block, goal: GoalSpec, action_space: Any, written: _Written) -> list[np.ndarray]:
    """The files' further content: observations, actions, goals if they are something else, and ends."""
    rows = state_rows(**known_arrays(block, goal), goal=goal, action_space=action_space)
    goals = rows.goals if rows.goals is not rows.observations else np.empty((len(rows.observations), 0), np.float32)
    arrays = [rows.observations, rows.actions, goals]
    dims = [array.shape[1] for array in arrays]
    if written.dims and dims != written.dims:
        names = "observations, actions and goals of their own"
        raise ValueError(f"its {names} have {dims} features, but {written.dims} in the files before")
    written.dims = dims
    return [*arrays, rows.ends]


def _append(arrays: list[np.ndarray], files: dict[str, Any], written: _Written) -> None:
    observations, actions, goals, ends = arrays
    rows = np.hstack([goals] if written.in_place else [observations, actions, goals])
    folder = Path(files["rows.f32"].name).parent
    if shutil.disk_usage(folder).free < rows.nbytes + SPARE_BYTES:
        raise ValueError(f"the disk of {folder.parent} is full; give another folder with cache=...")
    taken = actions.copy()
    taken[ends] = taken[ends - 1]  # there is no action in the last state of a trajectory
    digest = hashlib.sha256(written.fingerprint.encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    files["rows.f32"].write(rows)
    files["ends.i64"].write((ends + written.rows).astype("<i8"))
    for name, array in (("observations", observations), ("actions", taken), ("goals", goals)):
        if array.shape[1]:
            files[f"{name}.f64"].write(np.ascontiguousarray(trajectory_table(array, ends), dtype="<f8"))
    written.rows += len(observations)
    written.trajectories += len(ends)
    written.blocks += 1
    written.fingerprint = digest.hexdigest()


def _save(part: Path, files: dict[str, Any], written: _Written) -> None:
    for file in files.values():
        file.flush()
        os.fsync(file.fileno())
    write_text(part / "dataset.json", json.dumps(asdict(written)))
