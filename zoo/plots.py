"""
Draw the paper's figures from a trained agent, a dataset or several runs::

    python -m zoo.plots map --env pointmaze-giant-stitch-v0 --out map.pdf
    python -m zoo.plots plan --env pointmaze-giant-stitch-v0 --task 1 --out plan.pdf
    python -m zoo.plots curves --env pointmaze-giant-stitch-v0 pointmaze-giant-navigate-v0 --out curves.pdf
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cli import add_agent_arguments, add_common_arguments, add_dataset_arguments, agent_options, run

if TYPE_CHECKING:
    import numpy as np

    from proq_agent.common.offline import OfflineAlgorithm
    from zoo.figures.maze_geometry import MazeGeometry


def _agent(args: argparse.Namespace) -> OfflineAlgorithm:
    from zoo.runs.agents import AgentChoice

    return AgentChoice(**agent_options(args)).load()


def _other(args: argparse.Namespace, path: Path | None) -> OfflineAlgorithm | None:
    from zoo.runs.agents import AgentChoice

    return AgentChoice(args.env, args.algo, file=path, device=args.device).load() if path else None


def _maze(env_id: str | None) -> MazeGeometry | None:
    from zoo.data.tasks import find_task_env
    from zoo.figures.maze_geometry import MazeGeometry

    return MazeGeometry.of_spare_env(find_task_env(env_id)) if env_id else None


def _map(args: argparse.Namespace) -> None:
    from zoo.figures.maps import draw_map

    draw_map(_agent(args), args.out, _maze(args.env), args.title)


def _plan(args: argparse.Namespace) -> None:
    from zoo.figures.maps import draw_plan

    start, goal = _ends(args)
    if start is None or goal is None:
        raise ValueError("a plan needs --start X Y and --goal X Y, or --task K for those of a task")
    draw_plan(_agent(args), args.out, start, goal, _maze(args.env))


def _distance(args: argparse.Namespace) -> None:
    from zoo.figures.maps import draw_distance

    _, goal = _ends(args)
    if goal is None:
        raise ValueError("a distance needs --goal X Y, or --task K for the goal of a task")
    draw_distance(_agent(args), args.out, goal, _maze(args.env))


def _compare(args: argparse.Namespace) -> None:
    from zoo.figures.maps import draw_comparison

    other = _other(args, args.without) or args.updates
    draw_comparison(_agent(args), args.out, other, _maze(args.env), args.titles)


def _difficulty(args: argparse.Namespace) -> None:
    from zoo.figures.maps import draw_difficulty

    draw_difficulty(_agent(args), args.out, _other(args, args.beside), _maze(args.env), args.titles)


def _coverage(args: argparse.Namespace) -> None:
    from zoo.data.source import DataSource
    from zoo.figures.maps import draw_coverage

    data = DataSource(args.dataset_dir, args.dataset_path, args.dataset_source, args.trust_dataset)
    dataset, info = data.load(args.env)
    title = f"{args.env}: {info.transitions:,} transitions" if args.title is None else args.title
    draw_coverage(dataset, args.out, _maze(args.env), title)


def _curves(args: argparse.Namespace) -> None:
    from zoo.figures.curves import SUCCESS, draw_curves
    from zoo.runs.folder import list_runs
    from zoo.runs.learning_curves import read_groups, read_map_progress

    folders: list[Path] = list(args.runs)
    for env_id in args.env:
        found = list_runs(args.log_folder, args.algo, env_id)
        if not found:
            train = f"python -m zoo.train --algo {args.algo} --env {env_id}"
            raise ValueError(f"there is no run of {env_id} in {args.log_folder / args.algo}; train one: {train}")
        folders += [folder for same_number in found.values() for folder in same_number]
    if not folders:
        raise ValueError("which runs? give their folders, or --env ID for all runs of an environment")
    maps = read_map_progress(folders) if args.metric in SUCCESS else None
    draw_curves(read_groups(folders, args.metric), args.out, args.metric, maps)


def _ends(args: argparse.Namespace) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Start and goal, as they are given or those of ``--task``."""
    import numpy as np

    from zoo.data.tasks import make_task_env

    start, goal = (None if point is None else np.array(point) for point in (getattr(args, "start", None), args.goal))
    if args.task is None:
        return start, goal
    if args.env is None:
        raise ValueError("--task needs --env ID: the agent file does not know its environment")
    env = make_task_env(args.env, args.task, trust_dataset=args.trust_dataset)
    observation, _ = env.reset(seed=args.seed)
    env.close()
    return (
        observation["achieved_goal"] if start is None else start,
        observation["desired_goal"] if goal is None else goal,
    )


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zoo.plots",
        description="Draw what an agent has learned, the data it learned from, or how well it learned.",
        epilog="Each figure has its own options: python -m zoo.plots plan --help",
    )
    figures = parser.add_subparsers(title="figures", required=True, metavar="FIGURE")

    def figure(name: str, command: Callable[[argparse.Namespace], None], text: str) -> argparse.ArgumentParser:
        sub = figures.add_parser(name, help=text, description=f"Draw {text}.")
        sub.set_defaults(command=command)
        sub.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="a .png, .pdf, .svg or .jpg")
        add_common_arguments(sub)
        return sub

    of_map = figure("map", _map, "the OOD map with keypoints and the hops between them")
    of_plan = figure("plan", _plan, "a plan with its hops, from any start to any goal")
    of_distance = figure("distance", _distance, "the learned distance to a goal from everywhere, as contours")
    of_compare = figure("compare", _compare, "the keypoints with and without the OOD barrier, side by side")
    of_difficulty = figure("difficulty", _difficulty, "where ways bend, and the keypoints of one agent or two")
    of_coverage = figure("coverage", _coverage, "how often a dataset visits each place")
    of_curves = figure("curves", _curves, "learning curves of map and success: mean and confidence band over runs")

    for sub in (of_map, of_plan, of_distance, of_compare, of_difficulty):
        add_agent_arguments(sub)
    of_plan.add_argument("--start", type=float, nargs="+", metavar="X", help="x and y, or a whole point of goal space")
    for sub in (of_plan, of_distance):
        sub.add_argument("--goal", type=float, nargs="+", metavar="X", help="x and y, or a whole point of goal space")
        sub.add_argument("--task", type=int, metavar="K", help="start and goal of the environment's task K")
        sub.add_argument("--seed", type=int, default=0, metavar="N", help="of the task's noise (default: %(default)s)")
    of_compare.add_argument(
        "--without", type=Path, metavar="FILE", help="an agent of zoo.train -params keypoints.barrier:false"
    )
    of_compare.add_argument(
        "--updates",
        type=int,
        default=1000,
        metavar="N",
        help="without such an agent, move this one's keypoints on by repulsion alone (default: %(default)s updates)",
    )
    of_difficulty.add_argument("--beside", type=Path, metavar="FILE", help="another agent, in a panel of its own")
    for sub in (of_compare, of_difficulty):
        sub.add_argument("--titles", nargs=2, default=(), metavar="TITLE", help="of the two panels")
    of_coverage.add_argument("--env", required=True, metavar="ID", help="dataset id")
    add_dataset_arguments(of_coverage)
    for sub in (of_map, of_coverage):
        sub.add_argument("--title", help="above the picture")
    of_curves.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="folders of runs")
    of_curves.add_argument("--env", nargs="+", default=[], metavar="ID", help="all runs of these environments")
    of_curves.add_argument(
        "--metric",
        default="success",
        help="success, success-deterministic or a column of progress.csv, as train/loss (default: %(default)s)",
    )
    return parser


def plot(args: argparse.Namespace) -> None:
    """Draw the figure that the command line asks for."""
    from zoo.figures.canvas import check_suffix

    check_suffix(args.out)  # before anything that takes time
    args.command(args)
    if args.verbose:
        print(f"wrote {args.out}")


def main(argv: Sequence[str] | None = None) -> int:
    return run(build_parser(), plot, argv)


if __name__ == "__main__":
    sys.exit(main())
