"""
Train and evaluate a grid of algorithms, datasets and seeds, several runs side by side, and compare with the paper::

    python -m zoo.benchmark
    python -m zoo.benchmark --env pointmaze-teleport-stitch-v0 --variant ignore stochastic:ignore
    python -m zoo.benchmark --algo gcbc gcivl hiql --keypoints
    python -m zoo.benchmark --suite unseen --variant default --variant direct planning.direct:true
    python -m zoo.benchmark --report

A run that is done has a CSV in ``<out>/<algo>/runs`` and is not repeated; one of other settings, code or data is never
taken for it. Several trainings are processes of this same command
with one training each; runs that differ in nothing but how the agent acts share one. A single training takes place in
this process. With ``--ray`` they are tasks of a Ray cluster, on as many machines as it has.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.benchmarking.side_by_side import usable_cores
from zoo.cli import (
    ENVIRONMENT_HABITS,
    add_common_arguments,
    add_dataset_arguments,
    add_hyperparameter_arguments,
    add_keypoints_argument,
    add_ray_argument,
    check_counts,
    given_options,
    run,
)
from zoo.data.catalogue import POINTMAZE_IDS, UNSEEN_IDS
from zoo.registry import ALGOS, DEFAULT_ALGO

SEEDS = {500: 1, 600: 2, 700: 3}  # of training, and of the data that each learns from
# Options that the processes of the grid are given, too; the first also repeat a result elsewhere.
EVERYWHERE = ("episodes", "preset", "conf_file", "n_timesteps", "keypoints", "dataset_path", "dataset_source")
THIS_MACHINE = ("log_folder", "device", "num_threads", "dataset_dir", "trust_dataset", "verbose")
EPISODES = 50
SUITES = {"pointmaze": POINTMAZE_IDS, "unseen": UNSEEN_IDS}
OUT = Path("zoo/results")
ABLATION_ENV, ABLATION_SEED = "pointmaze-giant-stitch-v0", 100


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zoo.benchmark",
        description="Train and evaluate a grid of algorithms, datasets and seeds; render table and figure of results.",
        epilog="Ctrl-C stops the runs, and the same command goes on with them.",
    )
    parser.add_argument("--env", nargs="+", metavar="ID", help="datasets (default: those of --suite)")
    parser.add_argument(
        "--suite",
        choices=SUITES,
        default="pointmaze",
        help="pointmaze: the eight sets of the paper; unseen: worlds that no setting was tuned for, to <out>/unseen "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=int,
        metavar="N",
        help=f"of training (default: {', '.join(f'{seed} on data of seed {data}' for seed, data in SEEDS.items())})",
    )
    parser.add_argument(
        "--dataset-seeds",
        nargs="+",
        type=int,
        metavar="N",
        help="of the data, one for each of --seeds; they are generated (default: the dataset that is found)",
    )
    parser.add_argument(
        "--episodes",
        type=int,
        default=EPISODES,
        metavar="N",
        help="of each task, for each way of acting (default: %(default)s)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help=f"runs side by side (default: {usable_cores()} cores / --num-threads)",
    )
    add_ray_argument(parser)
    # Given to the processes of a grid, for the record.
    parser.add_argument("--side-by-side", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument(
        "--algo", nargs="+", choices=ALGOS, default=[DEFAULT_ALGO], help=f"algorithms (default: {DEFAULT_ALGO})"
    )
    add_common_arguments(parser, "agents and logs of the runs are in DIR/benchmark", num_threads=1, algo=False)
    add_dataset_arguments(parser)

    group = parser.add_argument_group("hyperparameters")
    group.add_argument(
        "--variant",
        nargs="+",
        action="append",
        metavar=("NAME", "KEY:VALUE"),
        help="run the grid with these changes, under this name; give it again for another variant",
    )
    add_keypoints_argument(group)
    group.add_argument("--ablation", action="store_true", help=f"the ablations of {ABLATION_ENV}, to <out>/ablation")
    add_hyperparameter_arguments(group)
    group.add_argument("-n", "--n-timesteps", type=int, metavar="N", help="updates (default: the preset's)")

    group = parser.add_argument_group("results")
    group.add_argument(
        "--out", type=Path, default=OUT, metavar="DIR", help="folder of the results (default: %(default)s)"
    )
    group.add_argument(
        "--report",
        action=argparse.BooleanOptionalAction,
        help="only render table and figure from the CSVs; --no-report: do not render them",
    )
    group.add_argument(
        "--export-agents", type=Path, metavar="DIR", help="then copy the first seed's agents there, to act with only"
    )
    return parser


def benchmark(args: argparse.Namespace) -> None:
    """What the command does; everything that can be wrong with the input is found before a run starts."""
    from zoo.benchmarking.report import write_report

    out = args.out / ("ablation" if args.ablation else "unseen" if args.suite == "unseen" else "")
    if not args.report:
        _run(args, out)
    if args.report is not False:
        written = write_report(out, args.ablation)
        if args.verbose:
            print(written[0].read_text(encoding="utf-8"), *map(str, written), sep="\n")


def _run(args: argparse.Namespace, out: Path) -> None:
    from zoo.benchmarking.grid import Grid
    from zoo.data.source import DataSource
    from zoo.runs.experiment import Experiment

    check_counts(jobs=args.jobs, episodes=args.episodes, n_timesteps=args.n_timesteps)
    variants = {name: tuple(overrides) for name, *overrides in args.variant or ()}
    if len(variants) < len(args.variant or ()):
        raise ValueError("two variants have the same name")
    grid = Grid(
        algos=tuple(dict.fromkeys(args.algo)),
        envs=tuple(dict.fromkeys(args.env or ((ABLATION_ENV,) if args.ablation else SUITES[args.suite]))),
        seeds=_seeds(args),
        variants=variants,
        shared=Experiment(
            env="",
            n_timesteps=args.n_timesteps,
            preset=args.preset,
            conf_file=args.conf_file,
            overrides=tuple(args.hyperparams),
            device=args.device,
        ),
        data=DataSource(args.dataset_dir, args.dataset_path, args.dataset_source, args.trust_dataset),
        episodes=args.episodes,
        out=out,
        log_folder=args.log_folder,
        jobs=args.jobs or max(usable_cores() // args.num_threads, 1),
        num_threads=args.num_threads,
        ablation=args.ablation,
        repeat=given_options(build_parser(), args, EVERYWHERE),
        here=given_options(build_parser(), args, THIS_MACHINE),
        keypoints=args.keypoints,
        side_by_side=args.side_by_side,
        cluster=args.ray,
        verbose=args.verbose,
    )
    grid.execute(report=args.report is not False, export=args.export_agents)


def _seeds(args: argparse.Namespace) -> dict[int, int | None]:
    if args.seeds is None and args.dataset_seeds is None and not args.ablation and args.dataset_path is None:
        return {**SEEDS}
    seeds = args.seeds or ((ABLATION_SEED,) if args.ablation else tuple(SEEDS))
    if args.dataset_seeds is None:
        return dict.fromkeys(seeds)
    if len(args.dataset_seeds) != len(seeds):
        raise ValueError(
            f"--dataset-seeds {len(args.dataset_seeds)} of them for {len(seeds)} --seeds: give one for each"
        )
    return dict(zip(seeds, args.dataset_seeds, strict=True))


def main(argv: Sequence[str] | None = None) -> int:
    return run(build_parser(), benchmark, argv, ENVIRONMENT_HABITS)


if __name__ == "__main__":
    sys.exit(main())
