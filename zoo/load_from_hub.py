"""
Get an agent from the Hugging Face Hub, as a run that the other commands find::

    python -m zoo.load_from_hub --env pointmaze-giant-stitch-v0 --organization somebody
    python -m zoo.enjoy --env pointmaze-giant-stitch-v0
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from zoo.cli import add_log_folder_argument, run
from zoo.registry import ALGOS, DEFAULT_ALGO


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zoo.load_from_hub", description="Download an agent from the Hugging Face Hub as a new run."
    )
    parser.add_argument("--repo-id", metavar="OWNER/NAME", help="the repository, or a folder with its files")
    parser.add_argument("--algo", choices=ALGOS, default=DEFAULT_ALGO, help="algorithm (default: %(default)s)")
    parser.add_argument("--env", metavar="ID", help="environment or dataset id")
    parser.add_argument("-orga", "--organization", metavar="NAME", help="whose <algo>-<env>, without --repo-id")
    parser.add_argument("-name", "--repo-name", metavar="NAME", help="instead of <algo>-<env>")
    parser.add_argument("--revision", metavar="NAME", help="branch, tag or commit")
    add_log_folder_argument(parser, "the run will be DIR/<algo>/<env>_<number>")
    return parser


def load(args: argparse.Namespace) -> None:
    """Do what the command line asks for."""
    from proq_agent.common.files import env_name
    from zoo.sharing.hub import load_from_hub

    repo_id = args.repo_id
    if repo_id is None:
        if args.organization is None or (args.env is None and args.repo_name is None):
            raise ValueError("which repository? give --repo-id OWNER/NAME, or --organization NAME and --env ID")
        repo_id = f"{args.organization}/{args.repo_name or f'{args.algo}-{env_name(args.env)}'}"
    print(f"agent: {load_from_hub(repo_id, args.log_folder, args.revision)}")


def main(argv: Sequence[str] | None = None) -> int:
    return run(build_parser(), load, argv)


if __name__ == "__main__":
    sys.exit(main())
