"""A diagnosis as one picture: what held-out trajectories say about map, controller and keypoints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from proq_agent.proq.hop_evidence import natural_hop
from zoo.figures.canvas import BLUE, GREEN, VERMILLION, saved_figure

if TYPE_CHECKING:
    from proq_agent.proq.diagnosis import Diagnosis, Measured

GREY = "#777777"
PANELS = {  # of each, the checks that it shows
    "distance": ("calibration",),
    "ways": ("shortcuts",),
    "psi": ("separation",),
    "controller": ("support", "hop"),
    "keypoints": ("coverage", "routes"),
}


def draw_diagnosis(diagnosis: Diagnosis, path: str | Path) -> None:
    """
    Draw what the checks are based on, with their verdicts below.

    :param diagnosis: of an agent
    :param path: file to write
    :raises ValueError: if nothing was measured
    """
    if diagnosis.measured is None:
        raise ValueError("there is nothing to draw: the diagnosis is not based on any trajectories")
    drawers = (_draw_distance, _draw_ways, _draw_psi, _draw_controller, _draw_keypoints)
    with saved_figure(path, 11.0, 5.6) as figure:
        grid = figure.subplots(2, 3)
        for axes, name, draw in zip(grid.flat, PANELS, drawers, strict=False):
            faults = [check.name for check in diagnosis.faults if check.name in PANELS[name]]
            draw(axes, diagnosis.measured)
            axes.set_title(axes.get_title() + (f" (wrong: {', '.join(faults)})" if faults else ""))
            axes.title.set_color(VERMILLION if faults else "black")
            axes.spines[["top", "right"]].set_visible(False)
        _write_verdicts(grid.flat[-1], diagnosis)


def _draw_distance(axes: Axes, measured: Measured) -> None:
    leads, quantiles, _ = measured.calibration
    axes.fill_between(leads, quantiles[:, 0], quantiles[:, 2], color=BLUE, alpha=0.25, linewidth=0, label="90 %")
    axes.plot(leads, quantiles[:, 1], color=BLUE, marker="o", markersize=3, label="median")
    axes.plot(leads, leads, color=GREY, linestyle="--", linewidth=0.8, label="as long as the log took")
    axes.axvline(measured.max_hop, color=GREY, linestyle=":", linewidth=0.8)
    axes.set(
        xscale="log", yscale="log", xlabel="steps between two logged states", ylabel="d", title="Distance and time"
    )
    axes.set_ylim(bottom=max(0.1, quantiles[:, 0].min()))
    axes.legend(loc="upper left")


def _draw_ways(axes: Axes, measured: Measured) -> None:
    promised, taken, *_ = measured.promises
    kept, arrived = measured.promises.kept, np.isfinite(taken)
    late = 2.2 * promised.max(initial=1.0)
    for chosen, colour, label in ((kept, BLUE, "in time"), (~kept, VERMILLION, "late, or never (top)")):
        axes.scatter(promised[chosen], np.where(arrived, taken, late)[chosen], s=6, color=colour, label=label)
    ends = np.array([0.0, promised.max(initial=1.0)])
    axes.plot(ends, ends, color=GREY, linestyle="--", linewidth=0.8)
    axes.set(xlabel="steps promised", ylabel="steps along pieces of the log", title="Ways within a hop")
    axes.legend(loc="upper left", bbox_to_anchor=(0.0, 0.93))


def _draw_psi(axes: Axes, measured: Measured) -> None:
    bins = np.linspace(0.0, 1.0, 26).tolist()
    for values, colour, label in (
        (measured.separation.data, BLUE, "on held-out states"),
        (measured.separation.off_data, VERMILLION, "off the data"),
    ):
        weights = np.full(len(values), 1.0 / max(len(values), 1))
        axes.hist(values, bins, weights=weights, color=colour, alpha=0.6, label=label)
    axes.axvline(0.5, color=GREY, linestyle="--", linewidth=0.8)
    axes.set(xlabel="psi", ylabel="share", title="Where the data are")
    axes.legend(loc="upper center")


def _draw_controller(axes: Axes, measured: Measured) -> None:
    leads, share, chance = measured.likelihood
    axes.plot(leads, share, color=BLUE, marker="o", markersize=3, label="logged action")
    axes.plot(leads, chance, color=GREY, marker="o", markersize=3, label="another action")
    axes.axvline(measured.max_hop, color=GREY, linestyle=":", linewidth=0.8, label="longest hop of a plan")
    if len(leads) > 2:
        axes.axvline(natural_hop(measured.likelihood), color=GREEN, linewidth=0.8, label="natural hop")
    axes.set(xscale="log", ylim=(0.0, 1.0), xlabel="steps to the goal")
    axes.set(ylabel="likelier than with a random goal", title="What the controller knows")
    axes.legend(loc="lower left")


def _draw_keypoints(axes: Axes, measured: Measured) -> None:
    for values, colour, label in (
        (measured.coverage.there, BLUE, "to the nearest keypoint"),
        (measured.coverage.back, GREEN, "from it"),
    ):
        finite = np.sort(values[np.isfinite(values)])
        if len(finite):
            axes.plot(finite, np.arange(1, len(finite) + 1) / len(values), color=colour, label=label)
            axes.legend(loc="lower right")
    axes.axvline(measured.max_hop, color=GREY, linestyle=":", linewidth=0.8)
    axes.set(xlabel="d of held-out states", ylabel="share of states", ylim=(0.0, 1.05), title="Keypoints within a hop")


def _write_verdicts(axes: Axes, diagnosis: Diagnosis) -> None:
    axes.set_axis_off()
    words = {True: ("fine", GREEN), False: ("wrong", VERMILLION), None: ("-", GREY)}
    for number, check in enumerate(diagnosis.checks):
        word, colour = words[check.ok]
        y = 0.95 - 0.11 * number
        number_ = "" if check.ok is None else f"{check.value:.3g}  (limit {check.threshold:g})"
        axes.text(0.02, y, word, color=colour, weight="bold", transform=axes.transAxes)
        axes.text(0.2, y, check.name, transform=axes.transAxes)
        axes.text(0.5, y, number_, transform=axes.transAxes)
