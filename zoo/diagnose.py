"""
Find out whether a trained agent can be trusted, by trajectories that it did not learn from::

    python -m zoo.diagnose --env pointmaze-giant-stitch-v0 --plot diagnosis.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.cli import (
    ENVIRONMENT_HABITS,
    add_agent_arguments,
    add_common_arguments,
    add_dataset_arguments,
    agent_options,
    check_counts,
    run,
)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zoo.diagnose",
        description="Check an agent's map, controller and keypoints by trajectories that were set aside when it was "
        "trained: the -val file of its dataset, or a share of the trajectories.",
        epilog="Exit code 0 if no fault was found, 1 if there is one.",
    )
    add_agent_arguments(parser)
    add_common_arguments(parser)
    add_dataset_arguments(parser, trust=False)
    group = parser.add_argument_group("output")
    group.add_argument(
        "--n-episodes",
        type=int,
        metavar="N",
        help="also act: N episodes of each task from one logged hop to the next, N with a plan and N without",
    )
    group.add_argument("--plot", type=Path, metavar="FILE", help="all checks as a picture: .png, .pdf, .svg, .jpg")
    return parser


def diagnose(args: argparse.Namespace) -> None:
    """Do what the command line asks for; a fault is an error."""
    from zoo.data.source import DataSource
    from zoo.runs import diagnosing
    from zoo.runs.agents import AgentChoice

    check_counts(n_episodes=args.n_episodes)
    agent = AgentChoice(**agent_options(args))
    data = DataSource(args.dataset_dir, args.dataset_path, args.dataset_source, args.trust_dataset)
    found = diagnosing.diagnose(agent, data, args.n_episodes or 0, args.plot)
    if not found.ok:
        raise ValueError(f"faults were found: {', '.join(check.name for check in found.faults)}")


def main(argv: Sequence[str] | None = None) -> int:
    return run(build_parser(), diagnose, argv, ENVIRONMENT_HABITS)


if __name__ == "__main__":
    sys.exit(main())
