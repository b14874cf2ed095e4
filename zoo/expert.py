"""
Train the walker that AntMaze data are made with; its weights are shipped, so nobody has to::

    python -m zoo.expert --env ant --out ant.npz        # well under an hour of one core; resumes where it was stopped
    python -m zoo.expert --env ant --measure            # of the shipped one: speed, and falls in 100,000 steps

The shipped one is that of seed 0 after 40,000 of 120,000 updates, before the learning rate falls: 0.204 to 0.206 units
a step under action noise 0.2, and no fall, in 10,000, 15,000 and 15,000 steps of the seeds 0, 1 and 2 of ``measure``.
To make data with another walker, put its file in the place of ``zoo/data/experts/ant.npz``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch as th
from tqdm import tqdm

from proq_agent.common.files import atomic_file
from zoo.cli import run
from zoo.data.ant import WALKER_PATH, Walker
from zoo.data.expert_training import WalkerTraining
from zoo.data.flat_floor import measure

SAVE_INTERVAL = 5_000  # updates
MEASURED_STEPS = 10_000  # while it trains; --measure takes ten times as many


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


def _describe(walker: Walker, n_steps: int) -> str:
    speed, falls = measure(walker, n_steps)
    return f"{speed:.4f} units a step under action noise 0.2, {falls} falls in {n_steps} steps"


def _train(args: argparse.Namespace) -> None:
    if args.measure:
        print(_describe(Walker.load(args.out or WALKER_PATH), 10 * MEASURED_STEPS))
        return
    if args.out is None or args.out.suffix != ".npz":
        raise ValueError("say with --out where the weights go, in a file that ends in .npz")
    if args.updates < 1:
        raise ValueError(f"--updates must be at least 1, got {args.updates}")
    state = args.out.with_suffix(".pt")
    training = WalkerTraining(args.updates, args.seed)
    if state.exists():
        training.load_state_dict(th.load(state, weights_only=True))
        print(f"{state}: resumed after {training.updates} updates", flush=True)
    with tqdm(total=args.updates, initial=training.updates, unit="update", disable=None) as bar:
        while training.updates < args.updates:
            training.advance()
            bar.update()
            if training.updates % SAVE_INTERVAL == 0 or training.updates == args.updates:
                training.walker().save(args.out)
                with atomic_file(state) as file:
                    th.save(training.state_dict(), file)
                bar.write(f"{training.updates} updates: {_describe(training.walker(), MEASURED_STEPS)}")
                sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    return run(build_parser(), _train, argv)


if __name__ == "__main__":
    sys.exit(main())
