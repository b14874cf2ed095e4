"""
Make datasets locally: OGBench's PointMaze with the official counts, behaviour, keys and dtypes, its manipulation with
its own oracles, and worlds of our own, with small datasets by default::

    python -m zoo.generate --env pointmaze-giant-stitch-v0 --seed 0
    python -m zoo.generate --env cube-single-play-v0
    python -m zoo.generate --env PointMaze_Large-v3
    python -m zoo.generate --maze my_maze.txt
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.cli import run
from zoo.data.catalogue import DEFAULT_DATASET_DIR, MAZE_PREFIX, SPLITS, WORLDS, train_path, val_path
from zoo.data.generation import generate, save


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zoo.generate",
        description="Make a dataset locally: one of OGBench's (the official behaviour, keys and dtypes), or one of "
        "another world, or of a maze of your own.",
        epilog=f"Datasets: {', '.join(WORLDS)}.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--env", metavar="ID", help="dataset id, as listed below")
    which.add_argument(
        "--maze",
        dest="env",
        type=lambda path: MAZE_PREFIX + path,
        metavar="FILE",
        help="layout of a maze as text, see zoo.worlds.text_maze; the same as --env maze:FILE",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="the data depend on it, not on --workers (default: %(default)s)",
    )
    parser.add_argument(
        "--episodes", type=int, metavar="N", help="training episodes (default: the official number, or the world's)"
    )
    parser.add_argument("--val-episodes", type=int, metavar="N", help="validation episodes (default: a tenth)")
    parser.add_argument("--noise", type=float, metavar="S", help="std of the action noise (default: the world's)")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, metavar="W", help="processes (default: one a core)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help=f"training file, the validation file goes beside it (default: {DEFAULT_DATASET_DIR}/ID.npz)",
    )
    parser.add_argument("--minari", metavar="NAME", help="write the training split as this Minari dataset instead")
    parser.add_argument("--overwrite", action="store_true", help="replace files or a Minari dataset that exist")
    return parser


def _paths(args: argparse.Namespace) -> dict[str, Path]:
    path: Path = (args.out or train_path(DEFAULT_DATASET_DIR, args.env)).expanduser()
    if path.suffix != ".npz":
        raise ValueError(f"--out must end in .npz, got {path}")
    paths = dict(zip(SPLITS, (path, val_path(path)), strict=True))
    existing = [str(p) for p in paths.values() if p.exists()]
    if existing and not args.overwrite:
        raise ValueError(f"{' and '.join(existing)} exist(s); give --overwrite, or another --out")
    return paths


def _write(args: argparse.Namespace) -> None:
    if args.minari:
        from zoo.data.minari import check_minari_name, write_minari

        check_minari_name(args.minari, args.overwrite)
    paths = {} if args.minari else _paths(args)
    splits = generate(args.env, args.seed, args.episodes, args.val_episodes, args.noise, args.workers, progress=True)
    if args.minari:
        n_transitions = write_minari(args.minari, splits["train"], args.env, args.overwrite)
        print(f"minari:{args.minari}: {n_transitions} transitions")
    for split, path in paths.items():
        save(path, splits[split])
        print(f"{path}: {len(splits[split]['terminals']) - splits[split]['terminals'].sum()} transitions")


def main(argv: Sequence[str] | None = None) -> int:
    return run(build_parser(), _write, argv)


if __name__ == "__main__":
    sys.exit(main())
