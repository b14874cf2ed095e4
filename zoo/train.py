"""
Train ProQ on a dataset, evaluate it on every task of its environment, and leave agent, map and logs in a folder::

    python -m zoo.train --env pointmaze-medium-navigate-v0
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from proq_agent import ProQ
from zoo.cli import add_common_arguments, add_dataset_arguments, given_options, run
from zoo.config import PRESETS, load_hyperparams
from zoo.data.load import DatasetInfo, load
from zoo.data.tasks import environment_id, task_envs
from zoo.runs.agents import check_environment
from zoo.runs.folder import RunFolder, check_folder, create_run, run_of
from zoo.runs.training import (
    CHECKPOINTS,
    EPISODES_AT_THE_END,
    EPISODES_WHILE_TRAINING,
    EVALUATIONS,
    LOGS,
    TrainingRun,
)

PROG = "python -m zoo.train"


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="Train an agent from a dataset, evaluate it on every task, and save agent, map and logs.",
        epilog="Ctrl-C saves the agent and prints the command that resumes the training exactly.",
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
    group.add_argument(
        "--preset", choices=PRESETS, default="tuned", help="tuned: minutes on a CPU; paper: its appendix, for a GPU"
    )
    group.add_argument(
        "-conf", "--conf-file", type=Path, metavar="YAML", help="your own file instead of zoo/hyperparams/proq.yml"
    )
    group.add_argument(
        "-params",
        "--hyperparams",
        nargs="+",
        default=[],
        metavar="KEY:VALUE",
        help="change some: -params batch_size:512 policy_kwargs.n_components:64",
    )

    group = parser.add_argument_group("evaluation and logs")
    group.add_argument(
        "--eval-freq",
        type=int,
        metavar="N",
        help=f"updates between evaluations; -1 for none (default: {EVALUATIONS} evaluations once the actor learns)",
    )
    group.add_argument(
        "--eval-episodes",
        type=int,
        metavar="N",
        help=f"episodes of each task (default: {EPISODES_WHILE_TRAINING} while training, {EPISODES_AT_THE_END} at the "
        "end)",
    )
    group.add_argument("--n-eval-envs", type=int, metavar="N", help="episodes that run at once (default: 50)")
    group.add_argument(
        "--save-freq",
        type=int,
        metavar="N",
        help=f"updates between checkpoints; -1 for none (default: {CHECKPOINTS} checkpoints)",
    )
    group.add_argument(
        "--log-interval", type=int, metavar="N", help=f"updates between log entries (default: {LOGS} entries)"
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
    """What the command does; everything that can be wrong with the input is found before a folder is made."""
    _check(args)
    if args.seed is not None and args.seed < 0:
        args.seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
    pool, tasks = task_envs(args.env)
    try:
        hyperparams, total = load_hyperparams(environment_id(args.env), args.preset, args.conf_file, args.hyperparams)
        agent_file = _find_agent(args.trained_agent, args.env) if args.trained_agent else None
        dataset, info = load(
            args.env,
            dataset_dir=args.dataset_dir,
            source=args.dataset_source,
            dataset_path=args.dataset_path,
            progress=args.verbose > 0,
        )
        env = pool.take(tasks[0])
        pool.give_back(tasks[0], env)
        if agent_file is None:
            args.seed = args.seed or 0
            total = args.n_timesteps or total
            model = ProQ(
                dataset=dataset,
                observation_space=env.observation_space,
                action_space=env.action_space,
                seed=args.seed,
                device=args.device,
                **hyperparams,
            )
        else:
            model = _resume(agent_file, args, env)
            model.set_dataset(dataset)
            if args.seed is None:
                args.seed = model.seed or 0
            total = args.n_timesteps or model._total_timesteps
            if total != model._total_timesteps:
                _note(f"it was begun for {model._total_timesteps} updates; the schedules are stretched to {total}")
            if total < model.num_timesteps:
                raise ValueError(f"{agent_file} has had {model.num_timesteps} of {total} updates; give a larger -n")
            if agent_run := run_of(agent_file):
                _compare_datasets(agent_run, info)
        folder = create_run(args.log_folder, args.algo, args.env, args.uuid)
        try:
            folder.write_command([*PROG.split(), *argv], vars(args))
            training = TrainingRun(args, model, pool, tasks, folder, info, total)
        except BaseException:
            folder.remove()  # nobody shall take it for a run
            raise
        with training:
            if not training.learn():
                print(f"saved after {model.num_timesteps} of {total} updates; to resume:")
                print(" ", shlex.join(_resume_command(args, folder)))
                raise KeyboardInterrupt
            training.report()
    finally:
        pool.close()


def _check(args: argparse.Namespace) -> None:
    for name, least in (("n_timesteps", 1), ("eval_episodes", 1), ("n_eval_envs", 1), ("log_interval", 1)):
        value = getattr(args, name)
        if value is not None and value < least:
            raise ValueError(f"--{name.replace('_', '-')} must be at least {least}, got {value}")
    for name in ("eval_freq", "save_freq"):
        value = getattr(args, name)
        if value is not None and value < 1 and value != -1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1, or -1 for never, got {value}")
    if args.trained_agent and (args.hyperparams or args.conf_file or args.preset != "tuned"):
        raise ValueError("-i goes on with the agent's own hyperparameters; leave out -params, --conf-file and --preset")
    for folder in filter(None, (args.log_folder.expanduser(), args.tensorboard_log)):
        check_folder(folder)


def _find_agent(path: Path, env_id: str) -> Path:
    path = path.expanduser()
    path = path if path.is_file() else path.with_name(f"{path.name}.zip")
    if not path.is_file():
        raise ValueError(f"there is no agent {path}")
    check_environment(path, env_id)
    return path


def _resume(path: Path, args: argparse.Namespace, env: Any) -> ProQ:
    model = ProQ.load(path, device=args.device)
    if not model.training_restored:
        raise ValueError(f"{path} is only good to act with: it was saved without the state of its training")
    for name in ("observation_space", "action_space"):
        if getattr(model, name) != getattr(env, name):
            raise ValueError(f"{path} was trained in another environment than {args.env}: its {name} differs")
    return model


def _compare_datasets(agent_run: RunFolder, info: DatasetInfo) -> None:
    before = (agent_run.read_config().get("dataset") or {}).get("sha256")
    if before != info.sha256:
        _note("this is not the dataset file that the agent was trained on so far")


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _resume_command(args: argparse.Namespace, folder: RunFolder) -> list[str]:
    in_agent = ("env", "trained_agent", "n_timesteps", "hyperparams", "conf_file", "preset")
    names = [name for name in vars(args) if name not in in_agent]
    return [*PROG.split(), "--env", args.env, "-i", str(folder.agent), *given_options(build_parser(), args, names)]


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    return run(build_parser(), partial(train, argv=argv), argv)


if __name__ == "__main__":
    sys.exit(main())
