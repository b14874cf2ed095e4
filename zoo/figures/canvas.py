"""Figures fit for a paper: one style, vector output by suffix, axes with the walls of a maze. No pyplot, no windows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerPatch
from matplotlib.patches import Circle, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import Formatter

from proq_agent.common.files import atomic_file

if TYPE_CHECKING:
    from zoo.figures.maze_geometry import MazeGeometry


Bounds = tuple[float, float, float, float]  # left, right, bottom, top

SUFFIXES = ("png", "pdf", "svg", "jpg")
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # text stays text, as journals ask
    "svg.fonttype": "none",
    "hatch.linewidth": 0.5,
    "svg.hashsalt": "proq",  # the same figure gives the same bytes
}
# Okabe and Ito's palette, told apart by people with any kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, VERMILLION, GREEN, PURPLE = COLOURS[:4]
WALL = "#c8c8c8"
OUTLINE = "#222222"
KEYPOINT = "#777777"
HATCH = "#8a8a8a"


def check_suffix(path: str | Path) -> str:
    """
    The format that a file's name asks for.

    :raises ValueError: if it is none that can be drawn
    """
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in SUFFIXES:
        raise ValueError(f"cannot draw {path}: its name must end in .{', .'.join(SUFFIXES[:-1])} or .{SUFFIXES[-1]}")
    return suffix


@contextmanager
def saved_figure(path: str | Path, width: float = 4.5, height: float = 3.0) -> Iterator[Figure]:
    """
    A figure that is written when the block ends without an error, whole or not at all.

    :param path: the suffix chooses the format
    :param width: in inches
    :param height: in inches
    """
    suffix = check_suffix(path)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(suffix)
        with atomic_file(Path(path)) as file:
            figure.savefig(file, format=suffix, dpi=200, bbox_inches="tight", metadata=undated)


def figure_size(bounds: Bounds, panels: int = 1) -> tuple[float, float]:
    """Width and height in inches for maps side by side, each with a colour bar."""
    left, right, bottom, top = bounds
    aspect = min(max((top - bottom) / (right - left), 0.3), 1.5)
    width = 4.5 if panels == 1 else 3.6 * panels
    return width, 0.85 * width / panels * aspect + 0.6


def padded(bounds: Bounds) -> Bounds:
    """Bounds with a margin, and never flat."""
    left, right, bottom, top = bounds
    across, up = right - left, top - bottom
    x, y = 0.05 * (across or up or 1.0), 0.05 * (up or across or 1.0)
    return left - x, right + x, bottom - y, top + y


def set_up_axes(axes: Axes, bounds: Bounds, maze: MazeGeometry | None) -> None:
    """
    Limits, labels and, where x and y are comparable, equal scales.

    :param axes: to draw on
    :param bounds: what to show
    :param maze: whose axes are lengths
    """
    left, right, bottom, top = bounds
    axes.set(xlim=(left, right), ylim=(bottom, top))
    if 0.1 < (top - bottom) / (right - left) < 10.0:
        axes.set_aspect("equal")
    labels = ("x (m)", "y (m)") if maze is not None else ("goal dimension 0", "goal dimension 1")
    axes.set(xlabel=labels[0], ylabel=labels[1])


def draw_walls(axes: Axes, maze: MazeGeometry | None, filled: bool = True) -> None:
    """
    Walls and portals.

    :param axes: to draw on
    :param maze: nothing is drawn without one
    :param filled: cover what is inside the walls; else they are hatched, so that it shows
    """
    if maze is None:
        return
    half = maze.unit / 2
    cells = [Rectangle((x - half, y - half), maze.unit, maze.unit) for x, y in maze.wall_centres()]
    inside: dict[str, Any] = {"facecolor": WALL, "edgecolor": WALL, "linewidth": 0.2}
    if not filled:
        inside = {"facecolor": "none", "edgecolor": HATCH, "linewidth": 0.0, "hatch": "/////"}
    axes.add_collection(PatchCollection(cells, zorder=1.5, **inside))
    axes.add_collection(LineCollection(list(maze.outline()), colors=OUTLINE, linewidths=1.1, zorder=2))
    for centres, style, label in ((maze.entrances, "-", "portal"), (maze.exits, ":", "its exits")):
        for number, centre in enumerate(centres):
            circle = Circle(centre, maze.unit / 4, fill=False, edgecolor=PURPLE, linestyle=style, linewidth=1.4)
            circle.set(
                zorder=2.5, label="_" if number else label, path_effects=[withStroke(linewidth=2.6, foreground="w")]
            )
            axes.add_patch(circle)


def draw_points(axes: Axes, points: np.ndarray, size: float, colour: str, zorder: float, **style: Any) -> None:
    """Markers with a thin black edge at points ``[n, 2]``, or at a single one."""
    x, y = np.atleast_2d(points).T
    edge: dict[str, Any] = {"edgecolors": "black", "linewidths": 0.5}
    axes.scatter(x, y, s=size, c=colour, zorder=zorder, **edge | style)


def draw_colour_bar(axes: Axes, mappable: ScalarMappable, label: str, ticks: Formatter | None = None) -> None:
    """A colour bar as tall as the axes, to their right."""
    assert isinstance(axes.figure, Figure)
    axes.figure.colorbar(mappable, cax=axes.inset_axes((1.03, 0.0, 0.035, 1.0)), label=label, format=ticks)


def draw_legend(figure: Figure, columns: int = 4) -> None:
    """Below the figure, what is labelled in any of its panels, each label once."""
    found = [axes.get_legend_handles_labels() for axes in figure.axes]
    handles = {label: handle for handles, labels in found for handle, label in zip(handles, labels, strict=True)}
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=columns, handlelength=1.4,
        columnspacing=1.2, handler_map={Circle: HandlerPatch(_legend_circle)},
    )  # fmt: skip


def _legend_circle(width: float, height: float, xdescent: float, ydescent: float, **_: Any) -> Circle:
    """A circle as a circle: a legend shows every patch as a rectangle by default."""
    return Circle(((width - xdescent) / 2, (height - ydescent) / 2), 0.6 * height)


def grid_points(bounds: Bounds, longest: int = 240) -> tuple[np.ndarray, tuple[int, int]]:
    """
    Centres of the pixels of a picture.

    :param bounds: of the picture
    :param longest: pixels along its longer side
    :return: ``[rows * columns, 2]`` points from the bottom up, and ``(rows, columns)``
    """
    left, right, bottom, top = bounds
    pixel = max(right - left, top - bottom) / longest
    columns, rows = (max(2, round(side / pixel)) for side in (right - left, top - bottom))
    x = left + (np.arange(columns) + 0.5) * (right - left) / columns
    y = bottom + (np.arange(rows) + 0.5) * (top - bottom) / rows
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2), (rows, columns)
