"""Learning curves from the folders of runs."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from proq_agent.common.errors import within
from proq_agent.common.npz import read_npz
from zoo.figures.curves import MAP_PROGRESS, SUCCESS, Curve
from zoo.runs.folder import run_in, split_name

STEPS = "time/total_timesteps"  # a column of progress.csv


def read_groups(folders: Sequence[Path], metric: str = "success") -> dict[str, list[Curve]]:
    """
    Read the runs of several environments and algorithms.

    :param folders: of the runs
    :param metric: see :func:`read_curve`
    :return: by environment, and where the runs are of several algorithms by these too
    """
    return {name: read_trainings(same, metric) for name, same in _grouped(folders).items()}


def read_map_progress(folders: Sequence[Path]) -> dict[str, list[Curve]]:
    """
    Read how the maps of runs came along, of those groups in which every run has a record of it.

    :param folders: of the runs
    :return: as :func:`read_groups`, but groups may be missing
    """
    found = {}
    for name, same in _grouped(folders).items():
        with suppress(ValueError):
            for folder in same:
                read_curve(folder, MAP_PROGRESS)
            found[name] = read_trainings(same, MAP_PROGRESS)
    return found


def _grouped(folders: Sequence[Path]) -> dict[str, list[Path]]:
    algos = {folder: folder.resolve().parent.name for folder in folders}
    groups: dict[str, list[Path]] = {}
    for folder in folders:
        name = split_name(folder.resolve().name)[0]
        groups.setdefault(f"{algos[folder]}, {name}" if len({*algos.values()}) > 1 else name, []).append(folder)
    return groups


def read_curve(folder: Path, metric: str = "success") -> Curve:
    """
    Read a metric of one run.

    :param folder: of the run
    :param metric: ``success`` or ``success-deterministic`` (in percent, from ``evaluations.npz``), or a column of
        ``progress.csv``
    :raises ValueError: if the run has no such record
    """
    if metric in SUCCESS:
        path = folder / "evaluations.npz"
        if not path.is_file():
            raise ValueError(f"{folder} has no evaluations.npz: it is no run folder, or was never evaluated")
        arrays = read_npz(path, ("timesteps", SUCCESS[metric]))
        with within(f"{path} is damaged", kind=ValueError):
            shares = arrays[SUCCESS[metric]]
            if not shares.size or not ((shares >= 0) & (shares <= 1)).all():
                raise ValueError("its successes are not shares from 0 to 1")
            return _curve(arrays["timesteps"], 100.0 * shares.mean(axis=1))
    path = folder / "progress.csv"
    if not path.is_file():
        raise ValueError(f"{folder} has no progress.csv: it is no run folder")
    with within(f"{path} is damaged", kind=ValueError), path.open(newline="") as text:
        rows = list(csv.DictReader(text))
    columns = [name for name in (rows[0] if rows else ()) if name]
    for name in (metric, STEPS):
        if name not in columns:
            raise ValueError(f"{path} has no column {name!r}; it has {', '.join(sorted(columns))}")
    # A row is written whenever anything is logged; most columns are empty in it.
    rows = [row for row in rows if row[metric]]
    if not rows:
        raise ValueError(f"{path} has no value of {metric} yet")
    with within(f"{path} is damaged", kind=ValueError):
        return _curve(*np.array([(float(row[STEPS]), float(row[metric])) for row in rows]).T)


def _curve(updates: np.ndarray, values: np.ndarray) -> Curve:
    if updates.ndim != 1 or updates.shape != values.shape or not len(updates):
        raise ValueError(f"{updates.shape} updates and {values.shape} values are no curve")
    if not {updates.dtype.kind, values.dtype.kind} <= set("iuf"):
        raise ValueError(f"{updates.dtype} and {values.dtype} are no numbers")
    if not np.isfinite(updates).all() or (np.diff(updates) < 0).any():
        raise ValueError("its updates do not increase")
    return Curve(updates, values)


def read_trainings(folders: Sequence[Path], metric: str = "success") -> list[Curve]:
    """
    Read a metric of several trainings. A run and the one that it was resumed from are one; a training without a
    record is left out with a note.

    :param folders: of the runs
    :param metric: see :func:`read_curve`
    :raises ValueError: if none of them has a record
    """
    runs = filter(None, map(run_in, folders))
    resumed = {before.path.resolve() for run in runs if (before := run.resumed_from())}
    curves, errors = [], []
    for folder in folders:
        if folder.resolve() not in resumed:
            try:
                curves.append(_read_joined(folder, metric))
            except ValueError as error:
                errors.append(error)
    if not curves:
        raise errors[0] if errors else ValueError(f"{folders[0]} was resumed from itself: repair its config.yml")
    for reason in errors:
        print(f"note: left out a run: {reason}", file=sys.stderr)
    return curves


def _read_joined(folder: Path, metric: str, after: tuple[Path, ...] = ()) -> Curve:
    """
    :param after: runs that this one was resumed by, however often
    """
    after = (*after, folder.resolve())
    run = run_in(folder)
    before = run.resumed_from() if run else None
    if before is None or before.path.resolve() in after:
        return read_curve(folder, metric)
    try:
        curve = read_curve(folder, metric)
    except ValueError:
        return _read_joined(before.path, metric, after)
    try:
        earlier = _read_joined(before.path, metric, after)
    except ValueError:
        return curve
    kept = earlier.updates < curve.updates[0]  # it may have gone on after the agent that was resumed
    return Curve(*(np.concatenate([old[kept], new]) for old, new in zip(earlier, curve, strict=True)))
