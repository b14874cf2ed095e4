"""
Search hyperparameters with Optuna; several processes or machines that share the storage share the search::

    python -m zoo.optimize --env pointmaze-giant-stitch-v0 --n-trials 50

The objective is the success rate, the mean of sampled and deterministic actions. Trials train and evaluate with the
seeds 1 to 9 in turn, so that those of the benchmark stay unseen. What is searched stands in
``zoo/hyperparams/<algo>.yml`` under ``search``; the best settings are written as an entry for that file.
"""

from __future__ import annotations

import argparse
import secrets
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from zoo.cli import (
    ENVIRONMENT_HABITS,
    add_common_arguments,
    add_dataset_arguments,
    add_ray_argument,
    check_counts,
    given_options,
    run,
)

PROG = "python -m zoo.optimize"
SAMPLERS = ("tpe", "random")
PRUNERS = ("median", "halving", "none")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="Search hyperparameters with Optuna and write the best as an entry of a hyperparameter file.",
        epilog="Ctrl-C writes the best so far; the same command goes on with the study.",
    )
    parser.add_argument("--env", required=True, metavar="ID", help="dataset, as for zoo.train")
    parser.add_argument("-n", "--n-timesteps", type=int, metavar="N", help="updates of a trial (default: the entry's)")
    add_common_arguments(parser, "journal and best entry are in DIR/<algo>/optuna")
    add_dataset_arguments(parser)
    group = parser.add_argument_group("search")
    group.add_argument(
        "--n-trials", type=int, default=20, metavar="N", help="trials of this command (default: %(default)s)"
    )
    group.add_argument("--study-name", metavar="NAME", help="of the study to begin or go on with (default: --env's)")
    group.add_argument(
        "--storage",
        metavar="FILE",
        help="journal file, or the URL of a database; share it to share the study (default: DIR/<algo>/optuna)",
    )
    group.add_argument(
        "--n-evaluations",
        type=int,
        default=4,
        metavar="N",
        help="of a trial's actor, to prune it (default: %(default)s)",
    )
    group.add_argument("--eval-episodes", type=int, default=5, metavar="N", help="of each task (default: %(default)s)")
    group.add_argument("--sampler", choices=SAMPLERS, default="tpe", help="what to try next (default: %(default)s)")
    group.add_argument("--pruner", choices=PRUNERS, default="median", help="what to give up (default: %(default)s)")
    group.add_argument(
        "--n-startup-trials", type=int, default=10, metavar="N", help="random and not pruned (default: %(default)s)"
    )
    group.add_argument(
        "--seed", type=int, metavar="N", help="of the sampler; leave it out where processes share a study"
    )
    group.add_argument(
        "-params", "--hyperparams", nargs="+", default=[], metavar="KEY:VALUE", help="change what is not searched"
    )
    group.add_argument(
        "-conf", "--conf-file", type=Path, metavar="YAML", help="start from this file, not zoo/hyperparams/<algo>.yml"
    )
    add_ray_argument(group)
    group.add_argument("--job", help=argparse.SUPPRESS)  # which of a cluster's jobs this is
    group.add_argument("--out", type=Path, metavar="YAML", help="the best entry (default: beside the journal)")
    return parser


def optimize(args: argparse.Namespace, argv: Sequence[str] = ()) -> None:
    """What the command does."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise ImportError("zoo.optimize needs Optuna: pip install optuna") from error

    from proq_agent.common.files import env_name
    from zoo.data.source import DataSource
    from zoo.data.tasks import task_envs
    from zoo.runs import search
    from zoo.runs.experiment import Experiment
    from zoo.runs.search_space import read_space

    check_counts(
        n_timesteps=args.n_timesteps,
        n_trials=args.n_trials,
        n_evaluations=args.n_evaluations,
        eval_episodes=args.eval_episodes,
    )
    experiment = Experiment(
        env=args.env,
        algo=args.algo,
        n_timesteps=args.n_timesteps,
        conf_file=args.conf_file,
        overrides=tuple(args.hyperparams),
        device=args.device,
    )
    pool, tasks = task_envs(args.env, args.trust_dataset)
    try:
        experiment.check()
        space = read_space(args.algo, args.conf_file)
        data = DataSource(args.dataset_dir, args.dataset_path, args.dataset_source, args.trust_dataset)
        dataset, info = data.load(args.env)
        if args.verbose:
            print(info.describe())
        name = args.study_name or env_name(args.env)
        folder = args.log_folder.expanduser() / args.algo / "optuna"
        study = search.open_study(
            name,
            args.storage or folder / f"{name}.journal",
            search.sampler_of(args.sampler, args.n_startup_trials, args.seed),
            search.pruner_of(args.pruner, args.n_startup_trials),
            args.verbose,
        )
        objective = search.Objective(
            experiment, space, dataset, info, pool, tasks, args.n_evaluations, args.eval_episodes, args.job
        )
        try:
            if args.ray:
                _spread(args, folder / f"{name}_jobs")
            else:
                search.search(study, objective, args.n_trials)
        finally:
            out = args.out or folder / f"{name}.yml"
            search.report(study, experiment, out, shlex.join([*PROG.split(), *argv]), args.verbose)
    finally:
        pool.close()


def _spread(args: argparse.Namespace, logs: Path) -> None:
    """One trial a job, so that a lost machine costs no more than one."""
    from zoo.benchmarking.on_ray import run_on_ray
    from zoo.benchmarking.side_by_side import Job

    if args.seed is not None:
        raise ValueError("--seed: with --ray every trial would begin with the same draws; leave it out")
    of_this = ("n_trials", "ray", "job", "verbose")
    options = given_options(build_parser(), args, [name for name in vars(args) if name not in of_this])
    run_id, failed = secrets.token_hex(4), list[str]()

    def job(number: int) -> Job:
        own = ("--n-trials", "1", "--job", f"{run_id}_{number}", "--verbose", "0")
        command = ("python", *PROG.split()[1:], *options, *own)
        return Job(f"trial {number}", command, logs / f"{run_id}_{number}.log", {})

    def on_end(job: Job, code: int) -> None:
        if code:
            failed.append(job.name)
            print(f"{job.name} failed: {job.last_line()}", file=sys.stderr, flush=True)

    run_on_ray([job(n) for n in range(args.n_trials)], args.ray, on_end, args.num_threads or 1, args.device)
    if failed:
        raise ValueError(f"{len(failed)} of {args.n_trials} trials failed; see the logs in {logs}")


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    return run(build_parser(), partial(optimize, argv=argv), argv, ENVIRONMENT_HABITS)


if __name__ == "__main__":
    sys.exit(main())
