"""Learning curves from the folders of runs."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zoo.figures.curves import SUCCESS, Curve
from zoo.runs.folder import run_in, split_name


def read_groups(folders: Sequence[Path], metric: str = "success") -> dict[str, list[Curve]]:
    """
    Read the runs of several environments and algorithms.

    :param folders: of the runs
    :param metric: see :func:`read_curve`
    :return: by environment, and where the runs are of several algorithms by these too
    """
    algos = {folder: folder.resolve().parent.name for folder in folders}
    groups: dict[str, list[Path]] = {}
    for folder in folders:
        name = split_name(folder.resolve().name)[0]
        groups.setdefault(f"{algos[folder]}, {name}" if len({*algos.values()}) > 1 else name, []).append(folder)
    return {name: read_trainings(same, metric) for name, same in groups.items()}


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
        with np.load(path, allow_pickle=False) as file:
            if SUCCESS[metric] not in file:
                raise ValueError(f"{path} has no {SUCCESS[metric]}, only {', '.join(file.files)}")
            return Curve(file["timesteps"], 100.0 * file[SUCCESS[metric]].mean(axis=1))
    path = folder / "progress.csv"
    if not path.is_file():
        raise ValueError(f"{folder} has no progress.csv: it is no run folder")
    with path.open(newline="") as text:
        rows = list(csv.DictReader(text))
    columns = [name for name in (rows[0] if rows else ()) if name]
    if metric not in columns:
        raise ValueError(f"{path} has no column {metric!r}; it has {', '.join(sorted(columns))}")
    # A row is written whenever anything is logged; most columns are empty in it.
    pairs = [(float(row["time/total_timesteps"]), float(row[metric])) for row in rows if row[metric]]
    if not pairs:
        raise ValueError(f"{path} has no value of {metric} yet")
    return Curve(*np.array(pairs).T)


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
        raise errors[0]
    for reason in errors:
        print(f"note: left out a run: {reason}", file=sys.stderr)
    return curves


def _read_joined(folder: Path, metric: str) -> Curve:
    run = run_in(folder)
    before = run.resumed_from() if run else None
    if before is None:
        return read_curve(folder, metric)
    try:
        curve = read_curve(folder, metric)
    except ValueError:
        return _read_joined(before.path, metric)
    try:
        earlier = _read_joined(before.path, metric)
    except ValueError:
        return curve
    kept = earlier.updates < curve.updates[0]  # it may have gone on after the agent that was resumed
    return Curve(*(np.concatenate([old[kept], new]) for old, new in zip(earlier, curve, strict=True)))
