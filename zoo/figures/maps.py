"""Pictures of a learned map: what is reachable, how far it is, where the keypoints lie, how a plan runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.image import AxesImage
from matplotlib.patches import Circle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter

from zoo.figures.canvas import (
    BLUE,
    COLOURS,
    GREEN,
    KEYPOINT,
    VERMILLION,
    WALL,
    Bounds,
    draw_colour_bar,
    draw_legend,
    draw_points,
    draw_walls,
    figure_size,
    grid_points,
    padded,
    saved_figure,
    set_up_axes,
)
from zoo.figures.learned_map import LearnedMap, has_map, in_plane

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.common.offline import OfflineAlgorithm
    from proq_agent.planning.navigator import Plan
    from zoo.figures.maze_geometry import MazeGeometry


REACHABILITY = LinearSegmentedColormap.from_list("reachability", ["white", "#9ecae1", "#2b6ca3"])
AMOUNT = LinearSegmentedColormap.from_list("amount", ["#eef5fb", "#7fb4d8", "#2b6ca3", "#123a63"])
PALE = LinearSegmentedColormap.from_list("pale", [WALL, "white"])
HOP = "#0b2540"


class Trajectory(NamedTuple):
    """One episode, for a picture of several."""

    points: np.ndarray  #: ``[steps + 1, goal_dim]``
    goal: np.ndarray  #: ``[goal_dim]``
    success: bool
    label: str  #: equal labels share a colour


def draw_map(
    model: OfflineAlgorithm, path: str | Path, maze: MazeGeometry | None = None, title: str | None = None
) -> None:
    """
    The paper's figure of a map: ψ over the goal space, keypoints, and the hops that the planner may take.

    :param model: a trained agent
    :param path: file to write; ``.pdf`` and ``.svg`` are vector graphics
    :param maze: its walls are drawn
    :param title: above the picture
    """
    learned = LearnedMap(model)
    bounds = map_bounds(learned, maze)
    with saved_figure(path, *figure_size(bounds)) as figure:
        axes = figure.add_subplot(title=title or "")
        image = _draw_reachability(axes, learned, bounds, maze)
        points = in_plane(learned.keypoints)
        hops = learned.graph.graph.open_hops.among(len(points)).pairs
        ends = np.unique(np.sort(hops, axis=1), axis=0)
        lines = LineCollection(list(points[ends]), colors=HOP, linewidths=0.4, alpha=0.45, zorder=3, label="hop")
        axes.add_collection(lines)
        draw_points(axes, points, 13, VERMILLION, zorder=4, label="keypoint")
        _draw_chance(axes, learned)
        draw_colour_bar(axes, image, r"in distribution, $\psi$")
        draw_legend(figure)


def _draw_chance(axes: Axes, learned: LearnedMap) -> None:
    """Chance: a circle around each region, and arrows to its exits with their odds, one line a region."""
    halo = [withStroke(linewidth=2, foreground="white")]
    for number, edge in enumerate(learned.model.chance_edges):
        colour = COLOURS[number % len(COLOURS)]
        entrance = in_plane(edge.entrance)
        circle = Circle((entrance[0], entrance[1]), edge.radius, fill=False, color=colour, lw=1.5, zorder=5)
        circle.set_label("_" if number else "chance, and its odds")
        axes.add_patch(circle)
        for place, odds in zip(in_plane(edge.exits), edge.probabilities, strict=True):
            arrow = {"arrowstyle": "->", "color": colour, "lw": 1.0, "connectionstyle": "arc3,rad=0.15"}
            axes.annotate("", tuple(place), tuple(entrance), arrowprops=arrow, zorder=5)
            # Regions share their exits: each writes on a line of its own.
            axes.annotate(
                f"{odds:.0%}", tuple(place), (7, 9 * number), textcoords="offset points",
                color=colour, fontsize=7, fontweight="bold", path_effects=halo, zorder=6,
            )  # fmt: skip


def draw_comparison(
    model: OfflineAlgorithm,
    path: str | Path,
    other: OfflineAlgorithm | int,
    maze: MazeGeometry | None = None,
    titles: Sequence[str] = (),
) -> None:
    """
    The paper's ablation: keypoints held by the OOD barrier, and the same without it.

    :param model: a trained agent
    :param path: file to write
    :param other: an agent trained without the barrier; or for so many updates the agent's own keypoints move on by
        repulsion alone
    :param maze: its walls are drawn
    :param titles: of the two panels
    """
    learned = LearnedMap(model)
    right = learned if isinstance(other, int) else LearnedMap(other)
    freed = right.model.keypoints_without_barrier(other) if isinstance(other, int) else right.keypoints
    bounds = map_bounds(learned, maze)
    with saved_figure(path, *figure_size(bounds, panels=2)) as figure:
        panels = figure.subplots(1, 2, sharex=True, sharey=True)
        titles = titles or ("with OOD barrier", "without OOD barrier")
        for axes, shown, keypoints, title in zip(
            panels, (learned, right), (learned.keypoints, freed), titles, strict=True
        ):
            image = _draw_reachability(axes, shown, bounds, maze)
            draw_points(axes, in_plane(keypoints), 13, VERMILLION, zorder=4, label="keypoint")
            axes.set_title(title)
        panels[1].set_ylabel("")
        draw_colour_bar(panels[1], image, r"in distribution, $\psi$")
        draw_legend(figure)


def draw_difficulty(
    model: OfflineAlgorithm,
    path: str | Path,
    other: OfflineAlgorithm | None = None,
    maze: MazeGeometry | None = None,
    titles: Sequence[str] = (),
) -> None:
    """
    Where it is hard to go, as an agent's map has it, and its keypoints; beside it, those of another agent on its own.

    :param model: a trained agent
    :param path: file to write
    :param other: the other
    :param maze: its walls are drawn
    :param titles: one for each agent
    """
    maps = [LearnedMap(agent) for agent in (model, other) if agent is not None]
    bounds = map_bounds(maps[0], maze)
    points, shape = grid_points(bounds, longest=120)
    fields = []
    for learned in maps:
        inside = learned.reachability(points) > 0.5
        fields.append(np.ma.masked_where(~inside, learned.difficulty(points)).reshape(shape))
    least, most = np.percentile(np.concatenate([field.compressed() for field in fields]), (2, 98))
    with saved_figure(path, *figure_size(bounds, panels=len(maps))) as figure:
        panels = figure.subplots(1, len(maps), sharex=True, sharey=True, squeeze=False)[0]
        for axes, learned, field in zip(panels, maps, fields, strict=True):
            image = axes.imshow(field, AMOUNT, origin="lower", extent=bounds, vmin=least, vmax=most, zorder=1)
            draw_walls(axes, maze, filled=False)
            set_up_axes(axes, bounds, maze)
            draw_points(axes, in_plane(learned.keypoints), 13, VERMILLION, zorder=4, label="keypoint")
        for axes, title in zip(panels, titles, strict=False):
            axes.set_title(title)
        for axes in panels[1:]:
            axes.set_ylabel("")
        draw_colour_bar(panels[-1], image, "way / straight line")
        draw_legend(figure)


def draw_plan(
    model: OfflineAlgorithm, path: str | Path, start: np.ndarray, goal: np.ndarray, maze: MazeGeometry | None = None
) -> None:
    """
    A plan with its hops, and the keypoints it was chosen from.

    :param model: a trained agent
    :param path: file to write
    :param start: x and y, or a whole point of goal space
    :param goal: the same
    :param maze: its walls are drawn
    """
    learned = LearnedMap(model)
    bounds = map_bounds(learned, maze)
    plan = learned.plan(start, goal)
    points = in_plane(np.concatenate([learned.to_goals(start), plan.points]))
    keypoints = in_plane(learned.keypoints)[[node for node in plan.nodes if node < len(learned.keypoints)]]
    with saved_figure(path, *figure_size(bounds)) as figure:
        axes = figure.add_subplot()
        draw_backdrop(axes, learned, bounds, maze)
        for begin, end in pairwise(points):
            arrow = {"arrowstyle": "-|>", "color": VERMILLION, "lw": 1.3, "shrinkA": 0, "shrinkB": 2}
            axes.annotate("", end, begin, arrowprops=arrow, zorder=4)
        draw_points(axes, keypoints, 18, VERMILLION, zorder=5, label="on the plan")
        _draw_ends(axes, points[0], in_plane(learned.to_goals(goal))[0])
        axes.set_title(_describe_plan(plan, learned.model.planner.max_hop))
        draw_legend(figure)


def count_hops(plan: Plan) -> str:
    """How many hops a plan has, in words."""
    return "1 hop" if len(plan.nodes) == 1 else f"{len(plan.nodes)} hops"


def _describe_plan(plan: Plan, max_hop: float) -> str:
    if np.isinf(plan.cost):
        return "no route"
    hops = f"{count_hops(plan)}, cost {plan.cost:.0f}"
    return f"{hops} (no route with hops of at most {max_hop:g} steps)" if plan.fallback else hops


def draw_distance(
    model: OfflineAlgorithm, path: str | Path, goal: np.ndarray, maze: MazeGeometry | None = None
) -> None:
    """
    The quasimetric's distance to a goal from everywhere, as contours.

    :param model: a trained agent
    :param path: file to write
    :param goal: x and y, or a whole point of goal space
    :param maze: its walls are drawn
    """
    learned = LearnedMap(model)
    bounds = map_bounds(learned, maze)
    points, shape = grid_points(bounds)
    x, y = points.reshape(*shape, 2).transpose(2, 0, 1)
    distances = learned.distances(points, goal).reshape(shape)
    with saved_figure(path, *figure_size(bounds)) as figure:
        axes = figure.add_subplot()
        filled = axes.contourf(x, y, distances, levels=20, cmap=AMOUNT, zorder=1)
        axes.contour(x, y, distances, levels=filled.levels, colors="white", linewidths=0.4, zorder=1)
        _shade_unreachable(axes, learned, bounds, maze)
        draw_walls(axes, maze)
        set_up_axes(axes, bounds, maze)
        _draw_ends(axes, None, in_plane(learned.to_goals(goal))[0])
        draw_colour_bar(axes, filled, "distance to the goal, $d$ (steps)")


def draw_coverage(dataset: GoalDataset, path: str | Path, maze: MazeGeometry | None = None, title: str = "") -> None:
    """
    How often the data visit each place.

    :param dataset: its achieved goals are counted
    :param path: file to write
    :param maze: its walls are drawn
    :param title: above the picture
    """
    goals = in_plane(dataset.some_goals().cpu().numpy())
    bounds = maze.bounds if maze else _around(goals)
    _, (rows, columns) = grid_points(bounds, longest=160)
    with saved_figure(path, *figure_size(bounds)) as figure:
        axes = figure.add_subplot(title=title)
        counts, x, y = np.histogram2d(goals[:, 0], goals[:, 1], (columns, rows), (bounds[:2], bounds[2:]))
        visited = np.ma.masked_equal(counts.T, 0)
        image = axes.pcolormesh(x, y, visited, norm=LogNorm(), cmap=AMOUNT)
        image.set_rasterized(True)  # thousands of squares would bloat a vector file
        draw_walls(axes, maze)
        set_up_axes(axes, bounds, maze)
        draw_colour_bar(axes, image, "states per bin", FuncFormatter(lambda value, _: f"{value:g}"))


def draw_trajectories(
    model: OfflineAlgorithm, path: str | Path, trajectories: Sequence[Trajectory], maze: MazeGeometry | None = None
) -> None:
    """
    What an agent did: episodes over its map, if it has one.

    :param model: the agent
    :param path: file to write
    :param trajectories: a colour for each label
    :param maze: its walls are drawn
    """
    learned = LearnedMap(model) if has_map(model) else None
    everywhere = np.concatenate([in_plane(np.vstack([*t.points, t.goal])) for t in trajectories])
    bounds = _around(everywhere) if learned is None and maze is None else map_bounds(learned, maze)
    labels = list(dict.fromkeys(trajectory.label for trajectory in trajectories))
    with saved_figure(path, *figure_size(bounds)) as figure:
        axes = figure.add_subplot()
        draw_backdrop(axes, learned, bounds, maze)
        for label, colour in zip(labels, COLOURS * len(labels), strict=False):
            for number, episode in enumerate(t for t in trajectories if t.label == label):
                points = in_plane(episode.points)
                axes.plot(*points.T, color=colour, linewidth=1.0, zorder=4, label=None if number else label)
                draw_points(axes, points[0], 22, colour, zorder=5)
                draw_points(axes, in_plane(episode.goal), 70, colour, zorder=6, marker="*")
                if not episode.success:
                    draw_points(axes, points[-1], 45, "black", zorder=7, marker="X", edgecolors="white")
        reached = sum(t.success for t in trajectories)
        axes.set_title(f"{reached} of {len(trajectories)} goals reached")
        draw_legend(figure)


def map_bounds(learned: LearnedMap | None, maze: MazeGeometry | None) -> Bounds:
    """
    What a picture should show.

    :raises ValueError: if there is neither a maze nor a map that would tell
    """
    if maze is not None:
        return maze.bounds
    if learned is None:
        raise ValueError("nothing tells what to show: this is no maze, and the agent has no map")
    return padded(learned.bounds)


def draw_backdrop(axes: Axes, learned: LearnedMap | None, bounds: Bounds, maze: MazeGeometry | None) -> None:
    """Something quiet for something else to stand out from: walls or pale ψ, small keypoints."""
    if maze is None and learned is not None:
        _draw_reachability(axes, learned, bounds, maze, PALE)
    draw_walls(axes, maze)
    set_up_axes(axes, bounds, maze)
    if learned is not None:
        draw_points(axes, in_plane(learned.keypoints), 8, KEYPOINT, zorder=3, linewidths=0, label="keypoint")


def _draw_reachability(
    axes: Axes,
    learned: LearnedMap,
    bounds: Bounds,
    maze: MazeGeometry | None,
    colours: str | LinearSegmentedColormap = REACHABILITY,
) -> AxesImage:
    points, shape = grid_points(bounds)
    psi = learned.reachability(points).reshape(shape)
    image = axes.imshow(psi, colours, origin="lower", extent=bounds, vmin=0.0, vmax=1.0, interpolation="bilinear")
    x, y = points.reshape(*shape, 2).transpose(2, 0, 1)
    axes.contour(x, y, psi, levels=[0.5], colors="#2b6ca3", linewidths=0.7, zorder=1.8)
    draw_walls(axes, maze, filled=False)
    set_up_axes(axes, bounds, maze)
    return image


def _shade_unreachable(axes: Axes, learned: LearnedMap, bounds: Bounds, maze: MazeGeometry | None) -> None:
    """Where there are no walls to draw, cover what ψ takes for out of distribution: d means nothing there."""
    if maze is None:
        points, shape = grid_points(bounds)
        x, y = points.reshape(*shape, 2).transpose(2, 0, 1)
        psi = learned.reachability(points).reshape(shape)
        axes.contourf(x, y, psi, levels=[-1.0, 0.5], colors=[WALL], zorder=1.2)


def _draw_ends(axes: Axes, start: np.ndarray | None, goal: np.ndarray) -> None:
    if start is not None:
        draw_points(axes, start, 40, BLUE, zorder=6, label="start")
    draw_points(axes, goal, 110, GREEN, zorder=6, marker="*", label="goal")


def _around(points: np.ndarray) -> Bounds:
    """What shows all points ``[n, 2]``."""
    (left, bottom), (right, top) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    return padded((left, right, bottom, top))
