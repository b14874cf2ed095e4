"""The folder of a training run, laid out as RL Zoo does, and the record that lets somebody repeat it.

::

    logs/proq/<env>_<n>/<env>.zip                the final agent
                        best_model.zip           the best one met in an evaluation
                        rl_model_<k>_steps.zip   checkpoints
                        evaluations.npz          success while training
                        0.monitor.csv            the episodes of these evaluations, as SB3's Monitor writes them
                        progress.csv             everything that was logged; tensorboard/ too
                        map.png                  keypoints and what the agent takes for reachable
                        <env>/config.yml         hyperparameters, dataset, versions, machine, results
                        <env>/args.yml           the command's options
                        <env>/command.txt        the command
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch as th
import yaml

from proq_agent.common.errors import within
from proq_agent.common.files import env_name, remove_abandoned, write_text
from zoo.plain_yaml import read_yaml

# Of what is read again; the rest of config.yml is for people.
CONFIG_TYPES: dict[str, Any] = {"env": str | None, "resumed_from": str | None, "dataset": dict | None}
PACKAGES = ("proq-agent", "torch", "stable-baselines3", "gymnasium", "ogbench", "mujoco", "numpy", "scipy", "numba")


@dataclass(frozen=True)
class RunFolder:
    """
    Paths within a run's folder.

    :param path: ``logs/proq/<env>_<n>``
    :param name: the environment's name, as a file name
    """

    path: Path
    name: str

    @property
    def agent(self) -> Path:
        return self.path / f"{self.name}.zip"

    @property
    def best_model(self) -> Path:
        return self.path / "best_model.zip"

    def checkpoint(self, timesteps: int) -> Path:
        return self.path / f"rl_model_{timesteps}_steps.zip"

    def last_checkpoint(self) -> tuple[Path | None, int]:
        """The latest checkpoint, if there is one, and after how many updates it was saved."""
        found = {int(path.stem.split("_")[2]): path for path in self.path.glob("rl_model_*_steps.zip")}
        return found.get(max(found, default=0)), max(found, default=0)

    @property
    def evaluations(self) -> Path:
        return self.path / "evaluations.npz"

    @property
    def progress(self) -> Path:
        return self.path / "progress.csv"

    @property
    def map(self) -> Path:
        return self.path / "map.png"

    @property
    def diagnosis(self) -> Path:
        return self.path / "diagnosis.png"

    @property
    def config(self) -> Path:
        return self.path / self.name / "config.yml"

    def write_command(self, command: Sequence[str], args: dict[str, Any]) -> None:
        """Write ``command.txt`` and ``args.yml``."""
        plain = {key: str(value) if isinstance(value, Path) else value for key, value in args.items()}
        write_text(self.config.with_name("command.txt"), shlex.join(command) + "\n")
        write_text(self.config.with_name("args.yml"), yaml.safe_dump(plain))

    def write_config(self, config: dict[str, Any]) -> None:
        """Write ``config.yml``; an earlier one is replaced at once."""
        write_text(self.config, yaml.safe_dump(config, sort_keys=False))

    def read_config(self) -> dict[str, Any]:
        """
        Read ``config.yml``; empty if there is none.

        :raises ValueError: if it is damaged
        """
        if not self.config.is_file():
            return {}
        with within(f"{self.config} is damaged", "repair it, or move it away", ValueError):
            config = read_yaml(self.config)
            if not isinstance(config, dict):
                raise ValueError("no 'key: value' lines")
            for name, kinds in CONFIG_TYPES.items():
                if not isinstance(config.get(name), kinds):
                    raise ValueError(f"{name} is {config.get(name)!r:.40}")
        return config

    def resumed_from(self) -> RunFolder | None:
        """The run that this one goes on with, if it is there."""
        agent = self.read_config().get("resumed_from")
        return run_of(Path(agent)) if agent else None

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def check_folder(path: Path) -> None:
    """
    Find out early whether a folder can be written to, without making it.

    :raises ValueError: if not
    """
    there = next(p for p in (path, *path.absolute().parents) if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"cannot write to {path}: {there} is not a folder, or not one that you may write to")


def create_run(log_folder: Path, algo: str, env_id: str, unique: bool = False) -> RunFolder:
    """
    Make the folder of a new run, with the next free number.

    :param log_folder: root of all runs
    :param algo: algorithm
    :param env_id: environment
    :param unique: append a random id, for runs that will be gathered from several machines
    """
    name = env_name(env_id)
    parent = log_folder.expanduser() / algo
    parent.mkdir(parents=True, exist_ok=True)
    suffix = f"_{uuid.uuid4()}" if unique else ""
    runs = list_runs(log_folder, algo, env_id)
    for folder in (path for same_number in runs.values() for path in same_number):
        for part in (folder, folder / name):  # of a training that was killed while it wrote
            remove_abandoned(part)
    number = max(runs, default=0) + 1
    while True:
        path = parent / f"{name}_{number}{suffix}"
        try:
            path.mkdir()
            return RunFolder(path, name)
        except FileExistsError:  # another process was faster
            number += 1


def find_run(log_folder: Path, algo: str, env_id: str, exp_id: int = 0) -> RunFolder:
    """
    The folder of an earlier run.

    :param exp_id: its number; 0 for the latest
    :raises ValueError: if there is none, or there are several
    """
    parent = log_folder.expanduser() / algo
    runs = list_runs(log_folder, algo, env_id)
    number = exp_id or max(runs, default=0)
    if number not in runs:
        known = f"; there are {', '.join(map(str, runs))}" if runs else f"; train one: zoo.train --env {env_id}"
        raise ValueError(f"there is no run {number or ''} of {env_id} in {parent}{known}")
    if len(runs[number]) > 1:
        names = ", ".join(path.name for path in runs[number])
        raise ValueError(f"run {number} of {env_id} may be any of {names} in {parent}; name the agent's file instead")
    return RunFolder(runs[number][0], env_name(env_id))


def list_runs(log_folder: Path, algo: str, env_id: str) -> dict[int, list[Path]]:
    """The folders of all runs of an environment by number; runs with random ids may share one."""
    parent = log_folder.expanduser() / algo
    runs: dict[int, list[Path]] = {}
    for path in sorted(parent.iterdir() if parent.is_dir() else ()):
        name, number = split_name(path.name)
        if name == env_name(env_id) and number is not None:
            runs.setdefault(number, []).append(path)
    return dict(sorted(runs.items()))


def split_name(folder: str) -> tuple[str, int | None]:
    """Environment and number in the name of a run's folder; any other name is returned whole, without a number."""
    match = re.fullmatch(r"(.+)_(\d+)(?:_[0-9a-f-]{36})?", folder)
    return (match[1], int(match[2])) if match else (folder, None)


def run_of(agent: Path) -> RunFolder | None:
    """The run that an agent file belongs to, if it lies in the folder of one."""
    return run_in(agent.parent)


def run_in(folder: Path) -> RunFolder | None:
    """The run that a folder holds, if it is the folder of one."""
    configs = sorted(folder.glob("*/config.yml"))
    return RunFolder(folder, configs[0].parent.name) if configs else None


def describe_machine(device: th.device | str) -> dict[str, Any]:
    """Package versions, git commit and machine, for ``config.yml``."""
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "git_commit": git_commit(),
        "machine": {
            "platform": platform.platform(),
            "cpu": _cpu(),
            "cores": os.cpu_count(),
            "torch_threads": th.get_num_threads(),
            "device": str(device),
            "gpu": th.cuda.get_device_name(device) if th.device(device).type == "cuda" else None,
        },
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def git_commit() -> str | None:
    """The commit of this code, with ``-dirty`` if it was changed since; ``None`` outside its own repository."""
    root = Path(__file__).resolve().parents[2]

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=10).stdout.strip()

    try:
        top = git("rev-parse", "--show-toplevel")
        if not top or Path(top).resolve() != root:  # installed somewhere within another one
            return None
        results = (":!zoo/results", ":!zoo/agents")  # what benchmarks write is not what they run
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", *results)
        commit = git("rev-parse", "--verify", "--quiet", "HEAD")
        return f"{commit}-dirty" if commit and changed else commit or None
    except (OSError, subprocess.TimeoutExpired):
        return None


def _cpu() -> str:
    try:
        models = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        models = []
    return models[0] if models else platform.processor() or platform.machine()
