"""A maze with one more wall than the agent's map, episodes in it, and a picture of them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import gymnasium as gym
import numpy as np
from matplotlib.patches import Rectangle

from proq_agent import ProQ
from proq_agent.planning.navigator import Plan
from wrappers import GoalDict, make_goal_env
from zoo.figures.canvas import BLUE, GREEN, VERMILLION, draw_legend, draw_points, figure_size, saved_figure
from zoo.figures.learned_map import LearnedMap
from zoo.figures.maps import draw_backdrop
from zoo.figures.maze_geometry import MazeGeometry

Box = tuple[np.ndarray, np.ndarray]
TITLE = 0.3  # inches that the second line of a title takes, and the legend


def make_walled_env(env_id: str, cell: tuple[int, int], task: int | None = None) -> GoalDict:
    """
    An OGBench maze with one more wall.

    :param env_id: as for :func:`wrappers.make_goal_env`
    :param cell: row and column of the free cell that becomes a wall
    :param task: see :class:`~wrappers.goal_dict.GoalDict`
    """
    original: Any = make_goal_env(env_id).unwrapped
    free = np.argwhere(getattr(original, "maze_map", 1) == 0)
    if list(cell) not in free.tolist():
        raise ValueError(f"row {cell[0]}, column {cell[1]} is no free cell of an OGBench maze in {env_id}")

    class WalledOff(type(original)):  # type: ignore[misc]
        def update_tree(self, tree: Any) -> None:
            """Called once by the constructor, between drawing the map and building walls from it."""
            self.maze_map[cell] = 1
            super().update_tree(tree)

    def build(loco_env_type: str, maze_env_type: str, **kwargs: Any) -> gym.Env:
        return WalledOff(**kwargs)  # the first two chose the class

    spec = copy.deepcopy(gym.spec(original.spec.id))  # not the environment's own, which lacks the time limit
    spec.entry_point = cast(Any, build)
    spec.kwargs = original.spec.kwargs
    return GoalDict(gym.make(spec), task)


def cell_box(env: gym.Env, cell: tuple[int, int]) -> Box:
    """Low and high corner of a cell, in goal space."""
    maze = MazeGeometry.of_env(env)
    assert maze is not None
    centre = np.array(maze.first) + np.array([cell[1] * maze.unit, cell[0] * maze.row_step])
    return centre - maze.unit / 2, centre + maze.unit / 2


class Walks(NamedTuple):
    """Episodes side by side."""

    reached: np.ndarray  #: ``[episodes]``, whether the goal was
    steps: np.ndarray  #: ``[episodes]``
    first: np.ndarray  #: ``[steps + 1, 2]``, where the first of them went
    state: tuple[np.ndarray, ...] | None  #: what the agents have found out

    def describe_first(self) -> str:
        return f"{'reached' if self.reached[0] else 'failed'} after {self.steps[0]} steps"


def play(
    model: ProQ,
    envs: Sequence[gym.Env],
    seed: int,
    deterministic: bool,
    state: tuple[np.ndarray, ...] | None = None,
) -> Walks:
    """
    One episode in each environment, all at once.

    :param model: who acts
    :param envs: where
    :param seed: of the first; the others have the next
    :param deterministic: mean actions instead of sampled ones
    :param state: what the agents know from before
    """
    observations = [env.reset(seed=seed + number)[0] for number, env in enumerate(envs)]
    running, reached, steps = np.ones(len(envs), bool), np.zeros(len(envs), bool), np.zeros(len(envs), int)
    way = [observations[0]["achieved_goal"]]
    while running.any():
        batch = {key: np.stack([observation[key] for observation in observations]) for key in observations[0]}
        actions, state = model.predict(batch, state, deterministic=deterministic)
        for i in np.flatnonzero(running).tolist():
            observations[i], _, terminated, truncated, info = envs[i].step(actions[i])
            steps[i] += 1
            reached[i] = info["is_success"]
            running[i] = not (terminated or truncated or reached[i])
            if i == 0:
                way.append(observations[0]["achieved_goal"])
    return Walks(reached, steps, np.array(way), state)


def draw_walks(
    path: Path, model: ProQ, panels: dict[str, tuple[Plan, np.ndarray]], maze: MazeGeometry, wall: Box
) -> None:
    """
    Plans, and where the agent went with each of them, side by side.

    :param path: file to write
    :param model: whose map they were made on
    :param panels: by title, a plan and a walk ``[steps + 1, 2]`` from its start
    :param maze: its walls are drawn
    :param wall: the new one, hatched
    """
    low, high = wall
    width, height = figure_size(maze.bounds, panels=len(panels))
    with saved_figure(path, width, height + TITLE) as figure:
        for axes, (title, (plan, walk)) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
            draw_backdrop(axes, LearnedMap(model), maze.bounds, maze)
            new = Rectangle(tuple(low), *(high - low), fill=False, hatch="//////", linewidth=0.8, zorder=3)
            axes.add_patch(new).set_label("new wall")
            stops = np.array([walk[0], *plan.points])
            axes.plot(*stops.T, "o-", color=VERMILLION, linewidth=1.2, markersize=2.5, zorder=4, label="plan")
            axes.plot(*walk.T, color=BLUE, linewidth=1.0, zorder=5, label="walk")
            draw_points(axes, walk[0], 40, BLUE, zorder=6, label="start")
            draw_points(axes, stops[-1], 110, GREEN, zorder=6, marker="*", label="goal")
            axes.set_title(title)
            axes.label_outer()
        draw_legend(figure, columns=6)
