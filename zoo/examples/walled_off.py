"""A corridor is walled off after training. Told of it, the agent goes the other way round; untold, it finds out.

::

    python -m zoo.examples.walled_off --env pointmaze-giant-navigate-v0 --cell 8 5 --plot plans.png

The wall is built in the simulator; the agent's map is the one it learned without it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from zoo.cli import add_agent_arguments, add_common_arguments, agent_options, print_table, run


def walled_off(args: argparse.Namespace) -> None:
    """Compare the agent in the maze as it was, and in the walled one: trusting its map, told, and untold but alert."""
    from wrappers import make_goal_env
    from zoo.examples.walls import cell_box, draw_walks, make_walled_env, play
    from zoo.figures.maze_geometry import MazeGeometry
    from zoo.runs.agents import AgentChoice

    cell = (args.cell[0], args.cell[1])
    args.env = args.env or "pointmaze-giant-navigate-v0"
    walled = [make_walled_env(args.env, cell, task) for task in args.tasks for _ in range(args.episodes)]
    before = [make_goal_env(args.env, task) for task in args.tasks for _ in range(args.episodes)]
    model: Any = AgentChoice(**agent_options(args)).load(walled[0])
    walk = partial(play, model, seed=args.seed, deterministic=args.deterministic)
    model.set_planning(patience=None)
    observation, _ = walled[0].reset(seed=args.seed)
    start, goal = observation["achieved_goal"], observation["desired_goal"]
    trusted = model.plan(start, goal)
    results = {"no wall": walk(before), "walled off, untold": walk(walled)}

    wall = cell_box(walled[0], cell)
    handle = model.planner.block(box=wall)
    told = model.plan(start, goal)
    results["walled off, told"] = walk(walled)
    model.planner.unblock(handle)

    model.set_planning(patience=args.patience)
    patient = f"walled off, untold, patience {args.patience}"
    results[patient] = walk(walled)
    known = results[patient].state
    assert known is not None
    found_out, _ = model.navigator.follow(start, goal, tuple(part[:1] for part in known))
    results["walled off, found out before"] = walk(walled, state=known)

    rows = [
        (name, f"{reached.sum()} of {len(reached)}", f"{steps[reached].mean():.0f}" if reached.any() else "")
        for name, (reached, steps, *_) in results.items()
    ]
    print_table(f"{args.env}, wall at row {cell[0]}, column {cell[1]}", ("", "reached", "steps"), rows)
    if args.plot is not None:
        maze = MazeGeometry.of_env(walled[0])
        assert maze is not None
        plans = {"walled off, untold": trusted, "walled off, told": told, patient: found_out}
        panels = {
            f"{name.removeprefix('walled off, ')}\n{results[name].describe_first()}": (plan, results[name].first)
            for name, plan in plans.items()
        }
        draw_walks(args.plot, model, panels, maze, wall)
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
    parser.add_argument("--patience", type=int, default=30, help="steps without progress (default: %(default)s)")
    parser.add_argument("--deterministic", action="store_true", help="mean actions instead of sampled ones")
    parser.add_argument("--seed", type=int, default=0, help="of the episodes (default: %(default)s)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw plans and walks: untold, told and finding out")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    return run(build_parser(), walled_off, argv)


if __name__ == "__main__":
    raise SystemExit(main())
