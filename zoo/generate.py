"""
Make OGBench's PointMaze datasets locally, with the official counts, behaviour, keys and dtypes, and datasets of our
own for the PointMaze environments of Gymnasium-Robotics::

    python -m zoo.generate --env pointmaze-giant-stitch-v0 --seed 0
    python -m zoo.generate --env PointMaze_Large-v3

A generated file carries an extra array, ``generated_by``, that OGBench's loader ignores and :mod:`zoo.datasets` reads:
it says how the file was made and keeps it from passing for the official one.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import os
import secrets
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import BinaryIO

import numpy as np
from tqdm import tqdm

DEFAULT_DATASET_DIR = Path("~/.ogbench/data")
# Of the official files: episodes for training, episodes for validation, rows an episode.
OFFICIAL_COUNTS = {
    "pointmaze-medium-navigate-v0": (1000, 100, 1001),
    "pointmaze-medium-stitch-v0": (5000, 500, 201),
    "pointmaze-large-navigate-v0": (1000, 100, 1001),
    "pointmaze-large-stitch-v0": (5000, 500, 201),
    "pointmaze-giant-navigate-v0": (500, 50, 2001),
    "pointmaze-giant-stitch-v0": (5000, 500, 201),
    "pointmaze-teleport-navigate-v0": (1000, 100, 1001),
    "pointmaze-teleport-stitch-v0": (5000, 500, 201),
}
DATASET_IDS = tuple(OFFICIAL_COUNTS)
# Nobody publishes files for these; the dataset is named after its environment.
ROBOTICS_IDS = ("PointMaze_UMaze-v3", "PointMaze_Medium-v3", "PointMaze_Large-v3")
ROBOTICS_COUNTS = (600, 60, 501)
GENERATED_IDS = DATASET_IDS + ROBOTICS_IDS
SPLITS = ("train", "val")
PROVENANCE_KEY = "generated_by"
EPISODES_PER_JOB = 25
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Provenance:
    """How one generated file was made; with the same code, enough to make it again."""

    dataset_id: str
    split: str
    seed: int
    episodes: int
    noise: float

    def to_array(self) -> np.ndarray:
        return np.array(json.dumps({"made_by": "zoo.generate", **asdict(self)}))

    @classmethod
    def from_array(cls, array: np.ndarray) -> Provenance:
        try:
            fields = json.loads(str(array))
            return cls(**{name: fields[name] for name in cls.__dataclass_fields__})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"the array {PROVENANCE_KEY} is not one that zoo.generate writes") from error


@dataclass(frozen=True)
class _Job:
    """A few consecutive episodes of one split. Each episode has its own seed, so that jobs can run anywhere."""

    origin: Provenance
    first: int

    def __len__(self) -> int:
        return min(EPISODES_PER_JOB, self.origin.episodes - self.first)


def unknown_id(dataset_id: str, known: Sequence[str] = GENERATED_IDS) -> ValueError:
    """The error for an id that is not among the known ones, with the closest of them."""
    closest = difflib.get_close_matches(dataset_id, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(closest)}?" if closest else f"known are {', '.join(GENERATED_IDS)}"
    return ValueError(f"unknown dataset {dataset_id!r}; {hint}")


def _play(job: _Job) -> Arrays:
    # Imported here: reading a dataset must not bring the maze's layout into the process.
    from zoo import maze_behaviour, robotics_behaviour

    origin = job.origin
    rows = OFFICIAL_COUNTS.get(origin.dataset_id, ROBOTICS_COUNTS)[2]
    episodes = []
    for number in range(job.first, job.first + len(job)):
        key = (SPLITS.index(origin.split), number)
        rng = np.random.default_rng(np.random.SeedSequence(origin.seed, spawn_key=key))
        if origin.dataset_id in ROBOTICS_IDS:
            robotics_maze = robotics_behaviour.get_maze(origin.dataset_id)
            episodes.append(robotics_behaviour.rollout(robotics_maze, rows, origin.noise, rng))
        else:
            _, name, kind, _ = origin.dataset_id.split("-")
            episodes.append(maze_behaviour.rollout(maze_behaviour.get_maze(name), kind, rows, origin.noise, rng))
    return _concatenate(episodes)


def _concatenate(parts: Sequence[Arrays]) -> Arrays:
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def generate(
    dataset_id: str,
    seed: int = 0,
    episodes: int | None = None,
    val_episodes: int | None = None,
    noise: float = 0.5,
    workers: int = 1,
    progress: bool = False,
) -> dict[str, Arrays]:
    """
    Make a dataset. It depends on the seed alone, not on the number of workers, and fewer episodes are the first of
    the full number.

    :param dataset_id: one of :data:`GENERATED_IDS`
    :param seed: a non-negative integer
    :param episodes: training episodes, by default the official number, or as many as are enough
    :param val_episodes: validation episodes, by default a tenth of the training episodes, the official share
    :param noise: standard deviation of the behaviour's Gaussian noise on each axis of the action
    :param workers: processes to use; with more than one, a script needs the usual ``if __name__ == "__main__"``
    :param progress: show a progress bar in a terminal
    :return: for ``train`` and ``val``, the arrays of the file, its ``generated_by`` included
    """
    if dataset_id not in GENERATED_IDS:
        raise unknown_id(dataset_id)
    episodes = OFFICIAL_COUNTS.get(dataset_id, ROBOTICS_COUNTS)[0] if episodes is None else episodes
    val_episodes = max(1, episodes // 10) if val_episodes is None else val_episodes
    for name, value, least in (
        ("seed", seed, 0),
        ("episodes", episodes, 1),
        ("val_episodes", val_episodes, 1),
        ("workers", workers, 1),
    ):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    if not (math.isfinite(noise) and noise >= 0.0):
        raise ValueError(f"noise must be a non-negative number, got {noise}")

    origins = [Provenance(dataset_id, s, seed, n, noise) for s, n in zip(SPLITS, (episodes, val_episodes), strict=True)]
    jobs = [_Job(origin, first) for origin in origins for first in range(0, origin.episodes, EPISODES_PER_JOB)]
    hidden = None if progress else True  # None: unless in a terminal
    with tqdm(total=episodes + val_episodes, desc=dataset_id, unit="episode", disable=hidden) as bar:
        parts: dict[str, list[Arrays]] = {split: [] for split in SPLITS}
        for job, part in zip(jobs, _run(jobs, min(workers, len(jobs))), strict=True):
            parts[job.origin.split].append(part)
            bar.update(len(job))
    return {
        origin.split: {**_concatenate(parts[origin.split]), PROVENANCE_KEY: origin.to_array()} for origin in origins
    }


def _run(jobs: Sequence[_Job], workers: int) -> Iterator[Arrays]:
    if workers == 1:
        yield from map(_play, jobs)
    else:
        # Not forked: the caller may hold locks of torch's or MuJoCo's threads.
        # Ctrl-C reaches them too; ending them is up to this process.
        with get_context("spawn").Pool(workers, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
            yield from pool.imap(_play, jobs)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """
    Write a file that appears whole or not at all, however many processes write it at once.

    :param path: where the file appears when the block ends without an error
    :raises OSError: naming the file, if the disk refuses
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # as a full disk leaves it
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def val_path(path: Path) -> Path:
    """Where OGBench looks for the validation split of a file."""
    return path.with_name(f"{path.stem}-val.npz")


def save(path: Path, arrays: Arrays) -> None:
    """Write one split as a compressed ``.npz``; the same arrays give the same bytes."""
    with atomic_file(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zoo.generate",
        description="Make an OGBench PointMaze dataset locally (the official behaviour, counts, keys and dtypes), or "
        "one of a waypoint controller in a PointMaze of Gymnasium-Robotics.",
        epilog=f"Datasets: {', '.join(GENERATED_IDS)}.",
    )
    parser.add_argument("--env", required=True, metavar="ID", help="dataset id, as listed below")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="the data depend on it, not on --workers (default: %(default)s)",
    )
    parser.add_argument("--episodes", type=int, metavar="N", help="training episodes (default: the official number)")
    parser.add_argument("--val-episodes", type=int, metavar="N", help="validation episodes (default: a tenth)")
    parser.add_argument(
        "--noise", type=float, default=0.5, metavar="S", help="std of the action noise (default: %(default)s)"
    )
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
    path: Path = (args.out or DEFAULT_DATASET_DIR / f"{args.env}.npz").expanduser()
    if path.suffix != ".npz":
        raise ValueError(f"--out must end in .npz, got {path}")
    paths = dict(zip(SPLITS, (path, val_path(path)), strict=True))
    existing = [str(p) for p in paths.values() if p.exists()]
    if existing and not args.overwrite:
        raise ValueError(f"{' and '.join(existing)} exist(s); give --overwrite, or another --out")
    return paths


def _write(args: argparse.Namespace) -> None:
    if args.minari:
        from zoo.minari_dataset import check_minari_name, write_minari

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
    from zoo.cli import run  # which needs this module

    return run(build_parser(), _write, argv)


if __name__ == "__main__":
    sys.exit(main())
