"""One run of the benchmark: a dataset, a variant and a seed; trained, evaluated, written to its CSV."""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from proq_agent import ProQ
from proq_agent.common.evaluation import evaluate_both
from zoo import train
from zoo.benchmarking.results import Result, read_results, write_results
from zoo.config import load_hyperparams, to_plain
from zoo.data.load import load
from zoo.data.tasks import environment_id, task_envs
from zoo.figures.map_quality import map_quality
from zoo.figures.maze_geometry import MazeGeometry
from zoo.runs.folder import RunFolder, env_name, git_commit, run_of

# Hyperparameters that only matter once the agent is trained, but for max_hop where actor goals are drawn within it.
ACTING = ("planning",)


@dataclass(frozen=True)
class BenchmarkRun:
    """
    One training of the grid and its evaluation.

    :param dataset: id
    :param variant: name for the changes to the hyperparameters
    :param overrides: these changes, as ``key:value``
    :param seed: of training and evaluation
    :param args: options of :mod:`zoo.benchmark`
    :param out: folder of the results
    :param command: repeats this run anywhere
    """

    dataset: str
    variant: str
    overrides: tuple[str, ...]
    seed: int
    args: argparse.Namespace
    out: Path
    command: str

    def __str__(self) -> str:
        return f"{self.dataset}, {self.variant}, seed {self.seed}"

    @property
    def csv(self) -> Path:
        return self.out / "runs" / f"{env_name(self.dataset)}_{self.variant}_{self.seed}.csv"

    # The file is read once: an edit of the file while a run trains must not change what the run is taken for.

    @property
    def total(self) -> int:
        """Number of updates."""
        return self._hyperparams[1]

    @property
    def settings(self) -> str:
        """A hash of all that determines the results."""
        return self._hash(self._hyperparams[0])

    @cached_property
    def training(self) -> str:
        """A hash of all that determines the training; runs that share it share an agent."""
        acting = ACTING
        return self._hash({name: value for name, value in self._arguments.items() if name not in acting})

    def _hash(self, hyperparams: dict[str, Any]) -> str:
        path = self.args.dataset_path and str(self.args.dataset_path)
        text = json.dumps([self.dataset, self.seed, self.total, path, to_plain(hyperparams)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def log_folder(self) -> Path:
        """Its own, so that an agent of another training is never gone on with."""
        return self.args.log_folder / "benchmark" / f"seed_{self.seed}_{self.training}"

    def is_done(self) -> bool:
        """
        Whether there are results.

        :raises ValueError: if they are of other settings, or the settings are wrong
        """
        settings = self.settings
        if not self.csv.is_file():
            return False
        row = read_results(self.csv)[0]
        if (row.settings, row.episodes) != (settings, self.args.episodes):
            raise ValueError(
                f"{self.csv} is of a run with other settings ({row.command}); "
                "delete it, or give another --variant or --out"
            )
        return True

    def execute(self) -> list[Result]:
        """Train, or go on with the training, evaluate the final agent and write the results."""
        args = self.args
        folder = self._trained()
        model = self._load(folder)
        dataset, info = load(
            self.dataset, dataset_dir=args.dataset_dir, source=args.dataset_source, dataset_path=args.dataset_path
        )
        pool, tasks = task_envs(self.dataset)
        try:
            sampled, deterministic = evaluate_both(model, pool, tasks, args.episodes, seed=self.seed)
        finally:
            pool.close()
        quality = map_quality(model, MazeGeometry.of_env_id(self.dataset), dataset.achieved_goals)
        about = folder.read_config()  # as it was when the training began
        results = [
            Result(
                dataset=self.dataset,
                variant=self.variant,
                seed=self.seed,
                task=task,
                episodes=args.episodes,
                success_sampled=float(sampled.success[k].mean()),
                success_deterministic=float(deterministic.success[k].mean()),
                steps_sampled=float(sampled.lengths[k].mean()),
                steps_deterministic=float(deterministic.lengths[k].mean()),
                n_updates=model.num_timesteps,
                train_seconds=_seconds(folder),
                keypoints_free=quality.keypoints_free,
                distance_correlation=quality.distance_correlation,
                dataset_source=info.source,
                dataset_seed=info.seed,
                dataset_sha256=info.sha256,
                settings=self.settings,
                command=self.command,
                cpu=about["machine"]["cpu"],
                cores=usable_cores(),
                jobs=args.side_by_side,
                versions=" ".join(f"{name}={version}" for name, version in about["versions"].items()),
                commit=_commits(about["git_commit"], git_commit()),
            )
            for k, task in enumerate(tasks)
        ]
        write_results(self.csv, results)
        return results

    def export(self, folder: Path) -> None:
        """
        Copy the final agent, without what only training needs.

        :param folder: the file is named after the dataset
        :raises ValueError: if the agent is not there
        """
        latest = self._latest()
        if latest is None:
            raise ValueError(f"cannot export {self}: there is no agent in {self.log_folder}")
        folder.mkdir(parents=True, exist_ok=True)
        self._load(latest).save(folder / f"{env_name(self.dataset)}.zip", exclude=["training"])

    @cached_property
    def _hyperparams(self) -> tuple[dict[str, Any], int]:
        args = self.args
        hyperparams, total = load_hyperparams(environment_id(self.dataset), args.preset, args.conf_file, self.overrides)
        return hyperparams, args.n_timesteps or total

    @property
    def _arguments(self) -> dict[str, Any]:
        """Hyperparameters with the defaults of those that are not given."""
        parameters = inspect.signature(ProQ).parameters.values()
        defaults = {p.name: p.default for p in parameters if p.name not in ("policy", "env")}
        return defaults | self._hyperparams[0]

    def _load(self, folder: RunFolder) -> ProQ:
        """The agent of a folder, to act as this run says: another run may have trained it."""
        acting = {name: self._arguments[name] for name in ACTING}
        return ProQ.load(folder.agent, device=self.args.device, **acting)

    def _latest(self) -> RunFolder | None:
        """The last training that ended with a saved agent, be it whole or interrupted."""
        name = env_name(self.dataset)
        agents = sorted((self.log_folder / self.args.algo).glob(f"{name}_*/{name}.zip"), key=os.path.getmtime)
        folders = [run_of(path) for path in reversed(agents)]
        return next((folder for folder in folders if folder is not None and "training" in folder.read_config()), None)

    def _trained(self) -> RunFolder:
        """The folder with the final agent: found, or made by zoo.train, from where an interrupted training stopped."""
        folder = self._latest()
        if folder is not None and ProQ.load(folder.agent).num_timesteps >= self.total:
            return folder
        argv = self._train_options(folder)
        train.train(train.build_parser().parse_args(argv), argv)
        folder = self._latest()
        assert folder is not None
        return folder

    def _train_options(self, resumed: RunFolder | None) -> list[str]:
        args = self.args
        # A single episode in the end: results need more than zoo.train records, so evaluation proper comes after it.
        options: dict[str, object] = {
            "env": self.dataset,
            "seed": self.seed,
            "n-timesteps": self.total,
            "eval-freq": -1,
            "save-freq": -1,
            "eval-episodes": 1,
            "log-folder": self.log_folder,
            "device": args.device,
            "num-threads": args.num_threads,
            "verbose": args.verbose,
            "dataset-source": args.dataset_source,
        }
        optional = {"dataset-dir": args.dataset_dir, "dataset-path": args.dataset_path}
        if resumed is not None:
            optional["trained-agent"] = resumed.agent
        else:
            optional |= {"preset": args.preset, "conf-file": args.conf_file}
        options |= {name: value for name, value in optional.items() if value is not None}
        argv = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
        return argv + (["-params", *self.overrides] if self.overrides and resumed is None else [])


def _commits(trained: str | None, evaluated: str | None) -> str | None:
    return trained if trained == evaluated else f"{trained}, evaluated at {evaluated}"


def _seconds(folder: RunFolder) -> float:
    """Wall clock of a training and of those that it went on with."""
    before = folder.resumed_from()
    return folder.read_config()["training"]["seconds"] + (_seconds(before) if before else 0.0)


def summary(results: Sequence[Result]) -> str:
    """The results of a run in one line."""
    row, n = results[0], len(results)
    sampled, deterministic = sum(r.success_sampled for r in results), sum(r.success_deterministic for r in results)
    rates = f"{sampled / n:.1%} sampled, {deterministic / n:.1%} deterministic"
    return f"{row.dataset}, {row.variant}, seed {row.seed}: {rates}, {row.train_seconds / 60:.1f} minutes of training"


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
