"""
Train the walker that AntMaze data are made with; its weights are shipped, so nobody has to::

    python -m zoo.expert --env ant --out ant.npz        # an hour of one core; resumes where it was stopped
    python -m zoo.expert --env ant --measure            # of the shipped one: speed, and falls in 100,000 steps

The shipped one is of seed 0 after 40,000 of these updates: 0.204 units a step under noise, no fall in 100,000 steps. To
make data with another walker, put its file in the place of ``zoo/data/experts/ant.npz``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.cli import run


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zoo.expert",
        description="Train the walker that AntMaze data are made with, or measure one.",
    )
    parser.add_argument("--env", choices=("ant",), default="ant", help="the body that walks (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="weights, an .npz; the training's state goes beside it, as .pt"
    )
    parser.add_argument("--updates", type=int, default=120_000, metavar="N", help="in all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--num-threads", type=int, default=1, metavar="N", help="for PyTorch (default: %(default)s)")
    parser.add_argument(
        "--measure", action="store_true", help="only measure the walker in --out, or the shipped one, and train nothing"
    )
    return parser


def _train(args: argparse.Namespace) -> None:
    from zoo.data.expert_training import measure_walker, train_walker

    if args.measure:
        print(measure_walker(args.out))
        return
    if args.out is None or args.out.suffix != ".npz":
        raise ValueError("say with --out where the weights go, in a file that ends in .npz")
    if args.updates < 1:
        raise ValueError(f"--updates must be at least 1, got {args.updates}")
    train_walker(args.out, args.updates, args.seed)


def main(argv: Sequence[str] | None = None) -> int:
    return run(build_parser(), _train, argv)


if __name__ == "__main__":
    sys.exit(main())
