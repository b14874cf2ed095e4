"""
Train and evaluate a grid of datasets and seeds, several runs side by side, and compare with the paper::

    python -m zoo.benchmark
    python -m zoo.benchmark --env pointmaze-teleport-stitch-v0 --variant ignore stochastic:ignore
    python -m zoo.benchmark --report

A run that is done has a CSV in ``<out>/runs`` and is not repeated. Several trainings are processes of this same command
with one training each; runs that differ in nothing but how the agent acts share one. A single training takes place in
this process.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from zoo.benchmarking.report import write_report
from zoo.benchmarking.results import DEFAULT_VARIANT, read_results
from zoo.benchmarking.run import BenchmarkRun, summary, usable_cores
from zoo.benchmarking.side_by_side import Job, run_side_by_side
from zoo.cli import add_common_arguments, add_dataset_arguments, given_options, run
from zoo.config import PRESETS
from zoo.data.catalogue import POINTMAZE_IDS
from zoo.data.tasks import task_envs

PROG = "python -m zoo.benchmark"
SEEDS = (100, 200, 300)
EPISODES = 50
OUT = Path("zoo/results")
# One change each to the tuned settings. A hop of any length makes the goal itself the next hop: direct control.
ABLATION_ENV, ABLATION_SEED = "pointmaze-giant-stitch-v0", 100
ABLATIONS: dict[str, tuple[str, ...]] = {
    DEFAULT_VARIANT: (),
    "no-barrier": ("barrier:false",),
    "symmetric": ("policy_kwargs.symmetric:true",),
    "no-keypoints": ("max_hop:1.0e+9",),
    "no-fourier-features": ("policy_kwargs.n_fourier_features:0",),
    **{f"K-{k}": (f"n_keypoints:{k}",) for k in (25, 50, 100, 200)},
    **{f"tau-{tau}": (f"max_hop:{tau}.0",) for tau in (25, 50, 100)},
}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="Train and evaluate a grid of datasets and seeds, and render table and figure of the results.",
        epilog="Ctrl-C stops the runs, and the same command goes on with them.",
    )
    parser.add_argument("--env", nargs="+", metavar="ID", help="datasets (default: the eight PointMaze sets)")
    parser.add_argument(
        "--seeds", nargs="+", type=int, metavar="N", help=f"of training (default: {' '.join(map(str, SEEDS))})"
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
    # Given to the processes of a grid, for the record.
    parser.add_argument("--side-by-side", type=int, default=1, help=argparse.SUPPRESS)
    add_common_arguments(parser, "agents and logs of the runs are in DIR/benchmark", num_threads=1)
    add_dataset_arguments(parser)

    group = parser.add_argument_group("hyperparameters")
    group.add_argument(
        "--variant",
        nargs="+",
        action="append",
        metavar=("NAME", "KEY:VALUE"),
        help="run the grid with these changes, under this name; give it again for another variant",
    )
    group.add_argument("--ablation", action="store_true", help=f"the ablations of {ABLATION_ENV}, to <out>/ablation")
    group.add_argument(
        "-params", "--hyperparams", nargs="+", default=[], metavar="KEY:VALUE", help="change some for all variants"
    )
    group.add_argument("--preset", choices=PRESETS, default="tuned", help="as for zoo.train (default: %(default)s)")
    group.add_argument("-conf", "--conf-file", type=Path, metavar="YAML", help="instead of zoo/hyperparams/proq.yml")
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
    out = args.out / "ablation" if args.ablation else args.out
    if args.jobs is None:
        args.jobs = max(usable_cores() // args.num_threads, 1)
    if not args.report:
        runs = _grid(args, out)
        todo = [r for r in runs if not r.is_done()]
        if args.verbose and len(runs) > 1:
            print(f"{len(runs)} runs, {len(runs) - len(todo)} of them done before", flush=True)
        trainings = _by_training(todo)
        if len(trainings) == 1:
            for run_ in trainings[0]:
                results = run_.execute()
                if args.verbose:
                    print(summary(results), flush=True)
        else:
            _run_all(trainings, args, out)
        if args.export_agents:
            for first in {r.dataset: r for r in reversed(runs)}.values():
                first.export(args.export_agents)
    if args.report is not False:
        written = write_report(out, args.ablation)
        if args.verbose:
            print(written[0].read_text(encoding="utf-8"), *map(str, written), sep="\n")


def _grid(args: argparse.Namespace, out: Path) -> list[BenchmarkRun]:
    for option, value in (("--jobs", args.jobs), ("--episodes", args.episodes), ("--n-timesteps", args.n_timesteps)):
        if value is not None and value < 1:
            raise ValueError(f"{option} must be at least 1, got {value}")
    variants = {name: tuple(overrides) for name, *overrides in args.variant or ()}
    if len(variants) < len(args.variant or ()):
        raise ValueError("two variants have the same name")
    if args.ablation:
        variants = ABLATIONS | variants
    for name in variants:
        if not re.fullmatch(r"[\w.=-]+", name):
            raise ValueError(f"--variant {name}: give a name of letters, digits and . = - _ first, then KEY:VALUE")
    envs = dict.fromkeys(args.env or ((ABLATION_ENV,) if args.ablation else POINTMAZE_IDS))
    seeds = dict.fromkeys(args.seeds or ((ABLATION_SEED,) if args.ablation else SEEDS))
    for env in envs:
        task_envs(env)[0].close()
    runs = []
    for seed in seeds:  # seed by seed, so that a table of all datasets is there early
        for env in envs:
            for name, own in (variants or {DEFAULT_VARIANT: ()}).items():
                overrides = (*args.hyperparams, *own)
                command = _command(args, env, seed, {name: overrides})
                runs.append(BenchmarkRun(env, name, overrides, seed, args, out, shlex.join(command)))
    return runs


def _command(args: argparse.Namespace, env: str, seed: int, variants: Mapping[str, Sequence[str]]) -> list[str]:
    """What repeats runs of a dataset and a seed, on any machine."""
    of_variants = [part for name, overrides in variants.items() for part in ("--variant", name, *overrides)]
    names = ("episodes", "preset", "conf_file", "n_timesteps", "dataset_path", "dataset_source")
    shared = given_options(build_parser(), args, names)
    return [*PROG.split(), "--env", env, "--seeds", str(seed), *of_variants, *shared]


def _by_training(runs: Sequence[BenchmarkRun]) -> list[list[BenchmarkRun]]:
    trainings: dict[tuple[str, str], list[BenchmarkRun]] = {}
    for r in runs:
        trainings.setdefault((r.dataset, r.training), []).append(r)
    return list(trainings.values())


def _run_all(trainings: Sequence[Sequence[BenchmarkRun]], args: argparse.Namespace, out: Path) -> None:
    here = ["--no-report", "--out", str(out), "--side-by-side", str(min(args.jobs, len(trainings)))]
    names = ("log_folder", "device", "num_threads", "dataset_dir", "verbose")
    here += given_options(build_parser(), args, names)
    jobs: dict[Job, Sequence[BenchmarkRun]] = {}
    for runs in trainings:
        first = runs[0]
        command = _command(args, first.dataset, first.seed, {r.variant: r.overrides for r in runs})
        job = Job(
            ", ".join(map(str, runs)),
            (sys.executable, *command[1:], *here),
            args.log_folder / "benchmark" / f"{first.csv.stem}.log",
            {"OMP_NUM_THREADS": str(args.num_threads)},
        )
        jobs[job] = runs
    total, ended, failed = sum(map(len, trainings)), 0, 0

    def on_end(job: Job, code: int) -> None:
        nonlocal ended, failed
        for r in jobs[job]:
            ended += 1
            if not r.csv.is_file():
                failed += 1
                print(f"{r} failed: {job.last_line()}", file=sys.stderr, flush=True)
            elif args.verbose:
                print(f"[{ended}/{total}]", summary(read_results(r.csv)), flush=True)
        if args.report is not False and failed < ended:
            write_report(out, args.ablation)

    run_side_by_side(list(jobs), args.jobs, on_end)
    if failed:
        raise ValueError(f"{failed} of {total} runs failed; see the logs in {args.log_folder / 'benchmark'}")


def main(argv: Sequence[str] | None = None) -> int:
    return run(build_parser(), benchmark, argv)


if __name__ == "__main__":
    sys.exit(main())
