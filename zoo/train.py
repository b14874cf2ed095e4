"""
Train an agent on a dataset, evaluate it on every task of its environment, and leave agent, map and logs in a folder::

    python -m zoo.train --env pointmaze-medium-navigate-v0
"""

from __future__ import annotations

import argparse
import random
import shlex
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from proq_agent.common.errors import Interrupted
from zoo.cli import (
    ENVIRONMENT_HABITS,
    add_common_arguments,
    add_dataset_arguments,
    add_hyperparameter_arguments,
    check_counts,
    given_options,
    run,
)

PROG = "python -m zoo.train"
SEARCH = "a search is a command of its own here; type: python -m zoo.optimize"
HABITS = {
    "-optimize": f"{SEARCH} {{rest}}",
    "--optimize-hyperparameters": f"{SEARCH} {{rest}}",
    "--n-trials": f"{SEARCH} {{all}}",
    **ENVIRONMENT_HABITS,
}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="Train an agent from a dataset, evaluate it on every task, and save agent, map and logs.",
        epilog="Ctrl-C saves the agent and prints the command that resumes the training exactly. "
        "torchrun --nproc-per-node N -m zoo.train ... shares every batch among N processes, with a GPU each if there "
        "are any; the result is that of one.",
    )
    parser.add_argument(
        "--env", required=True, metavar="ID", help="OGBench dataset, minari:<dataset>, or with --dataset-path any env"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="random if negative (default: 0; with -i the agent's)")
    parser.add_argument("-n", "--n-timesteps", type=int, metavar="N", help="updates (default: the preset's)")
    parser.add_argument(
        "-i",
        "--trained-agent",
        type=Path,
        metavar="ZIP",
        help="go on with this agent and its hyperparameters, up to the number of updates it was begun with, or -n; "
        "one that has had them all is only evaluated",
    )
    add_common_arguments(parser)
    add_dataset_arguments(parser)

    group = parser.add_argument_group("hyperparameters")
    add_hyperparameter_arguments(group)

    group = parser.add_argument_group("evaluation and logs")
    group.add_argument(
        "--eval-freq",
        type=int,
        metavar="N",
        help="updates between evaluations; -1 for none (default: 4 evaluations once they are useful)",
    )
    group.add_argument(
        "--eval-episodes",
        type=int,
        metavar="N",
        help="episodes of each task (default: 5 while training, 50 at the end)",
    )
    group.add_argument("--n-eval-envs", type=int, metavar="N", help="episodes that run at once (default: 50)")
    group.add_argument(
        "--save-freq",
        type=int,
        metavar="N",
        help="updates between checkpoints; -1 for none (default: 4 checkpoints)",
    )
    group.add_argument(
        "--log-interval", type=int, metavar="N", help="updates between log entries (default: 50 entries)"
    )
    group.add_argument(
        "-tb", "--tensorboard-log", type=Path, metavar="DIR", help="TensorBoard folder (default: in the run's folder)"
    )
    group.add_argument(
        "-P",
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="a progress bar instead of printed logs (default: in a terminal)",
    )
    group.add_argument(
        "-uuid", "--uuid", action="store_true", help="append a random id to the name of the run's folder"
    )

    group = parser.add_argument_group("Weights & Biases")
    group.add_argument("--track", action="store_true", help="log there too; WANDB_MODE=offline for no network")
    group.add_argument("--wandb-project-name", default="proq", metavar="NAME", help="project (default: %(default)s)")
    group.add_argument("--wandb-entity", metavar="NAME", help="team or user (default: yours)")
    group.add_argument("-tags", "--wandb-tags", nargs="+", default=[], metavar="TAG", help="tags of the run")
    return parser


def train(args: argparse.Namespace, argv: Sequence[str] = ()) -> None:
    """Train as the options say; Ctrl-C saves and prints the command that resumes."""
    from proq_agent.common.distributed import ProcessLost, from_main
    from proq_agent.common.torchrun import processes

    with processes(args.device) as device:
        if args.seed is not None and args.seed < 0:
            args.seed = from_main(random.SystemRandom().randrange(2**31))
        try:
            _train(args, device, argv)
        except ProcessLost as error:
            if error.agent:
                error.args = (f"{error}; to resume: {shlex.join(resume_command(args, error.agent))}",)
            raise


def _train(args: argparse.Namespace, device: str, argv: Sequence[str]) -> None:
    from zoo.data.source import DataSource
    from zoo.runs import training
    from zoo.runs.experiment import Experiment
    from zoo.runs.options import TrainingOptions

    check_counts(n_timesteps=args.n_timesteps)
    experiment = Experiment(
        env=args.env,
        algo=args.algo,
        seed=args.seed,
        n_timesteps=args.n_timesteps,
        preset=args.preset,
        conf_file=args.conf_file,
        overrides=tuple(args.hyperparams),
        trained_agent=args.trained_agent,
        device=device,
    )
    data = DataSource(args.dataset_dir, args.dataset_path, args.dataset_source, args.trust_dataset)
    wandb = {"project": args.wandb_project_name, "entity": args.wandb_entity, "tags": args.wandb_tags}
    options = TrainingOptions(
        eval_freq=args.eval_freq,
        eval_episodes=args.eval_episodes,
        n_eval_envs=args.n_eval_envs,
        save_freq=args.save_freq,
        log_interval=args.log_interval,
        tensorboard_log=args.tensorboard_log,
        progress=args.progress,
        verbose=args.verbose,
        wandb=wandb if args.track else None,
    )
    done = training.train(experiment, data, options, args.log_folder, [*PROG.split(), *argv], vars(args), args.uuid)
    if not done.finished:
        print(f"saved after {done.model.num_timesteps} of {done.total} updates; to resume:")
        print(" ", shlex.join(resume_command(args, done.folder.agent)))
        raise Interrupted(done.ended_by or signal.SIGINT)


def resume_command(args: argparse.Namespace, agent: Path) -> list[str]:
    """What goes on with an interrupted training."""
    in_agent = ("env", "trained_agent", "n_timesteps", "hyperparams", "conf_file", "preset")
    names = [name for name in vars(args) if name not in in_agent]
    return [*PROG.split(), "--env", args.env, "-i", str(agent), *given_options(build_parser(), args, names)]


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    return run(build_parser(), partial(train, argv=argv), argv, HABITS)


if __name__ == "__main__":
    sys.exit(main())
