"""A corridor is walled off after training. Told of it, the agent goes the other way round; untold, it finds out.

::

    python -m zoo.examples.walled_off --env pointmaze-giant-navigate-v0 --cell 8 5 --plot plans.png

The wall is built in the simulator; the agent's map is the one it learned without it.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import numpy as np
from matplotlib.patches import Rectangle

from proq_agent import ProQ
from proq_agent.planning.navigator import Plan
from wrappers import GoalDict, make_goal_env
from zoo.cli import add_agent_arguments, add_common_arguments, agent_options, print_table, run
from zoo.figures.canvas import BLUE, GREEN, VERMILLION, figure_size, saved_figure
from zoo.figures.learned_map import LearnedMap
from zoo.figures.maps import draw_backdrop
from zoo.figures.maze_geometry import MazeGeometry
from zoo.runs.agents import AgentChoice

Box = tuple[np.ndarray, np.ndarray]


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


def play(model: ProQ, envs: Sequence[gym.Env], seed: int, deterministic: bool) -> tuple[np.ndarray, np.ndarray]:
    """
    One episode in each environment, all at once.

    :param model: who acts
    :param envs: where
    :param seed: of the first; the others have the next
    :param deterministic: mean actions instead of sampled ones
    :return: for each, whether the goal was reached and in how many steps
    """
    observations = [env.reset(seed=seed + number)[0] for number, env in enumerate(envs)]
    running, reached, steps = np.ones(len(envs), bool), np.zeros(len(envs), bool), np.zeros(len(envs), int)
    state = None
    while running.any():
        batch = {key: np.stack([observation[key] for observation in observations]) for key in observations[0]}
        actions, state = model.predict(batch, state, deterministic=deterministic)
        for i in np.flatnonzero(running).tolist():
            observations[i], _, terminated, truncated, info = envs[i].step(actions[i])
            steps[i] += 1
            reached[i] = info["is_success"]
            running[i] = not (terminated or truncated or reached[i])
    return reached, steps


def draw_plans(
    path: Path, model: ProQ, plans: dict[str, Plan], start: np.ndarray, maze: MazeGeometry, wall: Box
) -> None:
    """
    Plans side by side.

    :param path: file to write
    :param model: whose map they were made on
    :param plans: by title
    :param start: where they begin
    :param maze: its walls are drawn
    :param wall: the new one, hatched
    """
    low, high = wall
    with saved_figure(path, *figure_size(maze.bounds, panels=len(plans))) as figure:
        for axes, (title, plan) in zip(figure.subplots(1, len(plans)), plans.items(), strict=True):
            draw_backdrop(axes, LearnedMap(model), maze.bounds, maze)
            axes.add_patch(Rectangle(tuple(low), *(high - low), fill=False, hatch="//////", linewidth=0.8, zorder=3))
            stops = [start, *plan.points]
            for begin, end in pairwise(stops):
                arrow = {"arrowstyle": "-|>", "color": VERMILLION, "lw": 1.3, "shrinkA": 0, "shrinkB": 2}
                axes.annotate("", end, begin, arrowprops=arrow, zorder=4)
            axes.scatter(*start, s=40, c=BLUE, edgecolors="black", linewidths=0.6, zorder=6)
            axes.scatter(*stops[-1], marker="*", s=110, c=GREEN, edgecolors="black", linewidths=0.6, zorder=6)
            axes.set_title(f"{title}: cost {plan.cost:.0f}")


def walled_off(args: argparse.Namespace) -> None:
    """Compare the agent in the maze as it was, and in the walled one: trusting its map, told, and untold but alert."""
    cell = (args.cell[0], args.cell[1])
    args.env = args.env or "pointmaze-giant-navigate-v0"
    walled = [make_walled_env(args.env, cell, task) for task in args.tasks for _ in range(args.episodes)]
    before = [make_goal_env(args.env, task) for task in args.tasks for _ in range(args.episodes)]
    model: Any = AgentChoice(**agent_options(args)).load(walled[0])
    walk = partial(play, model, seed=args.seed, deterministic=args.deterministic)
    model.set_planning(patience=None)
    observation, _ = walled[0].reset(seed=args.seed)
    start, goal = observation["achieved_goal"], observation["desired_goal"]
    plans = {"as trained": model.plan(start, goal)}
    results = {"no wall": walk(before), "walled off, untold": walk(walled)}

    wall = cell_box(walled[0], cell)
    handle = model.planner.block(box=wall)
    plans["told of the wall"] = model.plan(start, goal)
    results["walled off, told"] = walk(walled)
    model.planner.unblock(handle)

    model.set_planning(patience=args.patience)
    results[f"walled off, untold, patience {args.patience}"] = walk(walled)
    results["walled off, found out before"] = walk(walled)
    plans["found out"] = model.plan(start, goal)

    rows = [
        (name, f"{reached.sum()} of {len(reached)}", f"{steps[reached].mean():.0f}" if reached.any() else "")
        for name, (reached, steps) in results.items()
    ]
    print_table(f"{args.env}, wall at row {cell[0]}, column {cell[1]}", ("", "reached", "steps"), rows)
    if args.plot is not None:
        maze = MazeGeometry.of_env(walled[0])
        assert maze is not None
        draw_plans(args.plot, model, plans, start, maze, wall)
    for env in [*walled, *before]:
        env.close()


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m zoo.examples.walled_off", description=__doc__.split("\n")[0])
    add_agent_arguments(parser)
    add_common_arguments(parser)
    parser.add_argument(
        "--cell", type=int, nargs=2, default=(8, 5), metavar=("ROW", "COLUMN"), help="what is walled off"
    )
    parser.add_argument("--tasks", type=int, nargs="+", default=[2, 4], metavar="N", help="tasks to play")
    parser.add_argument("--episodes", type=int, default=5, metavar="N", help="of each task (default: %(default)s)")
    parser.add_argument("--patience", type=int, default=20, help="steps without progress (default: %(default)s)")
    parser.add_argument("--deterministic", action="store_true", help="mean actions instead of sampled ones")
    parser.add_argument("--seed", type=int, default=0, help="of the episodes (default: %(default)s)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the plans before, told and found out")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    return run(build_parser(), walled_off, argv)


if __name__ == "__main__":
    raise SystemExit(main())
