"""
Share an agent on the Hugging Face Hub, with its results, its map and a video::

    python -m zoo.push_to_hub --env pointmaze-giant-stitch-v0 --organization me
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.cli import add_agent_arguments, add_common_arguments, agent_options, run


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zoo.push_to_hub", description="Upload an agent and its model card to the Hugging Face Hub."
    )
    add_agent_arguments(parser)
    add_common_arguments(parser)
    group = parser.add_argument_group("repository", "It is <organization>/<algo>-<env>.")
    group.add_argument("-orga", "--organization", metavar="NAME", help="organization or user")
    group.add_argument("-name", "--repo-name", metavar="NAME", help="instead of <algo>-<env>")
    group.add_argument("-m", "--commit-message", default="Add an agent", metavar="TEXT", help="of the commit")
    group.add_argument("--private", action="store_true", help="nobody else shall see a new repository")
    group.add_argument("--video", type=Path, metavar="FILE", help=".mp4 or .gif; by default one in the run's folder")
    group.add_argument("--out", type=Path, metavar="DIR", help="write the repository's files here, and upload nothing")
    return parser


def push(args: argparse.Namespace) -> None:
    """Do what the command line asks for."""
    from proq_agent.common.files import env_name
    from zoo.runs.agents import AgentChoice
    from zoo.sharing.hub import check_package, push_to_hub
    from zoo.sharing.repository import write_repository

    check_package()
    agent = AgentChoice(**agent_options(args)).path()
    if agent is None:
        raise ValueError(f"there is no run of {args.env} in {args.log_folder / args.algo}; or give --agent FILE")
    name = args.repo_name or f"{args.algo}-{env_name(args.env or agent.stem)}"
    if args.organization is None and args.out is None:
        raise ValueError("whose repository is it? give --organization NAME, or --out DIR to look at its files first")
    repo_id = f"{args.organization or 'me'}/{name}"
    if args.out is None:
        url = push_to_hub(agent, repo_id, args.algo, args.env, args.video, args.commit_message, args.private)
        print(f"pushed {agent} to {url}")
    else:
        write_repository(agent, args.out, repo_id, args.algo, args.env, args.video)
        print(f"wrote {', '.join(sorted(path.name for path in args.out.iterdir()))} to {args.out}")


def main(argv: Sequence[str] | None = None) -> int:
    return run(build_parser(), push, argv)


if __name__ == "__main__":
    sys.exit(main())
