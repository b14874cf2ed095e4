"""Which trained agent a command means: one of a run's, any file, or the one that comes with the package."""

from __future__ import annotations

import argparse
import re
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from proq_agent import ProQ
from wrappers import GoalDict
from wrappers.make import dataset_env_ids
from zoo.data.catalogue import ROBOTICS_IDS
from zoo.runs.folder import RunFolder, env_name, find_run, list_runs, run_of


def add_agent_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--env`` and the options that choose an agent; :func:`zoo.cli.add_common_arguments` adds the others."""
    group = parser.add_argument_group(
        "agent", "The latest run's final agent, or without runs the one shipped for --env."
    )
    group.add_argument("--env", metavar="ID", help="environment or dataset id, as given to zoo.train")
    group.add_argument(
        "--folder", dest="log_folder", type=Path, default=argparse.SUPPRESS, metavar="DIR", help="the same as -f"
    )
    group.add_argument("--exp-id", type=int, default=0, metavar="N", help="number of the run (default: 0, the latest)")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--load-best", action="store_true", help="the best agent of the run instead of the final one")
    which.add_argument("--load-checkpoint", type=int, metavar="STEPS", help="the run's checkpoint after STEPS updates")
    which.add_argument("--load-last-checkpoint", action="store_true", help="the run's last checkpoint")
    which.add_argument("--agent", type=Path, metavar="FILE", help="an agent file from anywhere")


def load_agent(args: argparse.Namespace, env: GoalDict | None = None) -> ProQ:
    """
    Load the agent that the options of :func:`add_agent_arguments` choose.

    :param args: parsed options
    :param env: if given, the agent's spaces must be those of this environment
    :raises ValueError: if there is no such agent, or it is one for another environment
    """
    path = args.agent or _in_run(args)
    if path is not None:
        if args.env is not None:
            check_environment(path, args.env)
        return ProQ.load(path, env=env, device=args.device)
    agent = shipped_agent(args.env, env=env, device=args.device)
    if agent is None:
        raise ValueError(
            f"there is no trained agent for {args.env}, neither in {args.log_folder / args.algo} nor in the package; "
            f"train one: python -m zoo.train --env {args.env}"
        )
    return agent


def check_environment(path: Path, env_id: str) -> None:
    """
    Refuse an agent of another environment; one of another dataset of the same environment may act there.

    :param path: its file; where nothing says what it was trained on, it is accepted
    :param env_id: environment or dataset id
    :raises ValueError: naming both
    """
    known = dataset_env_ids()
    agent_run = run_of(path)
    named = path.stem if path.stem in {*known, *known.values(), *ROBOTICS_IDS} else None
    trained_on = agent_run.read_config().get("env") if agent_run else named
    if trained_on is not None and _environment(trained_on, known) != _environment(env_id, known):
        raise ValueError(f"{path} was trained on {trained_on}, not on {env_id}")


def _environment(env_id: str, known: dict[str, str]) -> str:
    """The environment of a dataset, whatever its tasks, rewards, starts and form of goals."""
    name = env_id.replace("-oraclerep", "")
    return re.sub(r"-singletask(-task\d+)?|(_Diverse_GR?)?(Dense)?(?=-v\d+$)", "", known.get(name, name))


def shipped_agent(env_id: str, **kwargs: Any) -> ProQ | None:
    """
    Load the agent that comes with the package.

    :param env_id: environment or dataset id
    :param kwargs: of ``ProQ.load``
    :return: ``None`` if there is none for this id
    """
    shipped = files("zoo") / "agents" / "proq" / f"{env_name(env_id)}.zip"
    if not shipped.is_file():
        return None
    with as_file(shipped) as file:
        return ProQ.load(file, **kwargs)


def _in_run(args: argparse.Namespace) -> Path | None:
    """The file in the run's folder; None if nobody asked for a certain one and there is no run."""
    if args.env is None:
        raise ValueError("which agent? give --env ID or --agent FILE")
    any_will_do = not (args.exp_id or args.load_best or args.load_checkpoint is not None or args.load_last_checkpoint)
    if any_will_do and not list_runs(args.log_folder, args.algo, args.env):
        return None
    run = find_run(args.log_folder, args.algo, args.env, args.exp_id)
    if args.load_best:
        path = run.best_model
    elif args.load_checkpoint is not None:
        path = run.checkpoint(args.load_checkpoint)
    elif args.load_last_checkpoint:
        path = run.checkpoint(max(_checkpoints(run), default=0))
    else:
        path = run.agent
    if not path.is_file():
        others = ", ".join(sorted(file.name for file in run.path.glob("*.zip"))) or "no agent at all"
        raise ValueError(f"there is no {path.name} in {run.path}; it holds {others}")
    return path


def _checkpoints(run: RunFolder) -> list[int]:
    matches = (re.fullmatch(r"rl_model_(\d+)_steps\.zip", file.name) for file in run.path.glob("rl_model_*_steps.zip"))
    return [int(match[1]) for match in matches if match]
