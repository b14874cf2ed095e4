"""Learning curves: the mean over the seeds of a group of runs, and how sure one can be of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from scipy import stats

from zoo.figures.canvas import COLOURS, saved_figure

SUCCESS = {"success": "successes", "success-deterministic": "successes_deterministic"}  # arrays of evaluations.npz
MAP_PROGRESS = "train/distance_per_step"  # a column of progress.csv, of algorithms with a map
CONFIDENCE = 0.95
_LABELS = {
    "success": "success rate (%), sampled actions",
    "success-deterministic": "success rate (%), mean actions",
    MAP_PROGRESS: "learned distance\nfor each step of the data",
}


class Curve(NamedTuple):
    """One number over the course of a run."""

    updates: np.ndarray  #: ``[n]``, increasing
    values: np.ndarray  #: ``[n]``


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


Curves = Mapping[str, Sequence[Curve]]  # of each group, under the name that the legend gives it


def draw_curves(curves: Curves, path: str | Path, metric: str = "success", maps: Curves | None = None) -> None:
    """
    One line a group of runs with its confidence band, and every single run as a faint line.

    :param curves: of each group
    :param path: file to write
    :param metric: what they show
    :param maps: of some of these groups, how their maps came along, for a panel above: that begins with the training,
        while success is only measured once there is an actor to act
    """
    panels: list[tuple[Curves, str]] = [(maps, MAP_PROGRESS)] if maps else []
    panels.append((curves, metric))
    bands = [_bands(groups) for groups, _ in panels]
    colours = dict(zip(curves, COLOURS * len(curves), strict=False))
    with saved_figure(path, 4.5, 1.0 + 2.0 * len(panels)) as figure:
        rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (groups, name), band in zip(rows, panels, bands, strict=True):
            _draw_lines(axes, groups, band, colours, name in SUCCESS)
            axes.set_ylabel(_LABELS.get(name, name))
            if name == MAP_PROGRESS:  # no step may cost more
                axes.axhline(1.0, color="0.5", linewidth=0.8, linestyle="--")
        rows[-1].set(xlabel="gradient updates", xlim=(0, None))
        rows[-1].xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")
        note = f"band: {CONFIDENCE:.0%} confidence interval of the mean over runs"
        several = any(len(runs) > 1 for runs in curves.values())
        handles, labels = rows[-1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", title=note if several else None, title_fontsize=7)


def _bands(curves: Curves) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    bands = {}
    for name, runs in curves.items():
        try:
            bands[name] = mean_and_band(runs)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return bands


def _draw_lines(
    axes: Axes, curves: Curves, bands: Mapping[str, Any], colours: Mapping[str, str], percent: bool
) -> None:
    for name, runs in curves.items():
        updates, mean, half = bands[name]
        label, colour = f"{name} ({len(runs)} {'runs' if len(runs) > 1 else 'run'})", colours[name]
        marker: dict[str, Any] = {"marker": "o", "markersize": 2.5} if percent else {}
        axes.plot(updates, mean, color=colour, linewidth=1.5, label=label, **marker)
        low, high = mean - half, mean + half
        if percent:
            low, high = low.clip(0.0), high.clip(None, 100.0)
        if len(runs) > 1:
            axes.fill_between(updates, low, high, color=colour, alpha=0.2, linewidth=0)
            for run in runs:
                axes.plot(*run, color=colour, linewidth=0.5, alpha=0.5)
    if percent:
        axes.set_ylim(-2.0, 102.0)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
