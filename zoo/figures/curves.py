"""Learning curves: the mean over the seeds of a group of runs, and how sure one can be of it."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from zoo.figures.canvas import COLOURS, saved_figure
from zoo.runs.folder import run_in

SUCCESS = {"success": "successes", "success-deterministic": "successes_deterministic"}  # arrays of evaluations.npz
CONFIDENCE = 0.95


class Curve(NamedTuple):
    """One number over the course of a run."""

    updates: np.ndarray  #: ``[n]``, increasing
    values: np.ndarray  #: ``[n]``


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


def mean_and_band(curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Mean over runs and the half-width of its confidence interval (Student's t; zero for a single run).

    :param curves: one a run; where their updates differ they are interpolated, as far as all of them reach
    :return: updates, mean, half-width
    :raises ValueError: if they share no updates
    """
    first, last = max(c.updates[0] for c in curves), min(c.updates[-1] for c in curves)
    if first > last:
        raise ValueError(f"the runs share no updates: one ends at {last:g}, another begins at {first:g}")
    updates = np.unique(np.concatenate([c.updates for c in curves]))
    updates = updates[(first <= updates) & (updates <= last)]
    values = np.stack([np.interp(updates, *c) for c in curves])
    n = len(curves)
    if n == 1:
        return updates, values[0], np.zeros_like(values[0])
    half = stats.t.ppf(0.5 + CONFIDENCE / 2, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n)
    return updates, values.mean(axis=0), half


def draw_curves(groups: Mapping[str, Sequence[Path]], path: str | Path, metric: str = "success") -> None:
    """
    One line a group of runs with its confidence band, and every single run as a faint line.

    :param groups: run folders under the name that the legend gives them, see :func:`read_trainings`
    :param path: file to write
    :param metric: see :func:`read_curve`
    """
    curves = {name: read_trainings(folders, metric) for name, folders in groups.items()}
    bands = {}
    for name, runs in curves.items():
        try:
            bands[name] = mean_and_band(runs)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    with saved_figure(path, 4.5, 3.0) as figure:
        axes = figure.add_subplot(xlabel="gradient updates")
        for (name, runs), colour in zip(curves.items(), COLOURS * len(curves), strict=False):
            updates, mean, half = bands[name]
            label = f"{name} ({len(runs)} {'runs' if len(runs) > 1 else 'run'})"
            axes.plot(updates, mean, color=colour, linewidth=1.5, label=label, marker="o", markersize=2.5)
            low, high = mean - half, mean + half
            if metric in SUCCESS:
                low, high = low.clip(0.0), high.clip(None, 100.0)
            if len(runs) > 1:
                axes.fill_between(updates, low, high, color=colour, alpha=0.2, linewidth=0)
                for run in runs:
                    axes.plot(*run, color=colour, linewidth=0.5, alpha=0.5)
        if metric in SUCCESS:
            axes.set_ylim(-2.0, 102.0)
            axes.set_ylabel(f"success rate (%), {'mean' if 'det' in metric else 'sampled'} actions")
        else:
            axes.set_ylabel(metric)
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")
        note = f"band: {CONFIDENCE:.0%} confidence interval of the mean over runs"
        several = any(len(runs) > 1 for runs in curves.values())
        figure.legend(loc="outside lower center", title=note if several else None, title_fontsize=7)
