"""One run of the benchmark: an algorithm, a dataset, a variant and a seed; trained, evaluated, written to its CSV."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proq_agent.common.errors import Interrupted
from proq_agent.common.evaluation import evaluate_both
from proq_agent.common.files import env_name
from zoo.benchmarking.identity import agent_digest, code_version, digest
from zoo.benchmarking.results import Result, read_results, write_results
from zoo.benchmarking.side_by_side import usable_cores
from zoo.config import all_hyperparams
from zoo.data.tasks import find_task_env, task_envs
from zoo.figures.map_quality import map_quality
from zoo.figures.maze_geometry import MazeGeometry
from zoo.registry import algorithm
from zoo.runs.agents import load_map
from zoo.runs.experiment import Experiment
from zoo.runs.folder import RunFolder, git_commit, run_of
from zoo.runs.options import TrainingOptions
from zoo.runs.training import train

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.common.offline import OfflineAlgorithm
    from zoo.data.load import DatasetInfo
    from zoo.data.source import DataSource


@dataclass(frozen=True)
class BenchmarkRun:
    """
    One training of the grid and its evaluation.

    :param experiment: what is trained, with a seed that is used for the evaluation too
    :param data: where the dataset comes from
    :param variant: name for its changes to the hyperparameters
    :param episodes: of each task, for each way of acting
    :param out: folder of the results
    :param log_folder: folder of agents and logs
    :param command: repeats this run anywhere
    :param keypoints: whose plan the agent follows, see :func:`~zoo.runs.agents.load_map`; None for nobody's
    :param side_by_side: how many runs share the machine, for the record
    :param verbose: 0 for no output
    """

    experiment: Experiment
    data: DataSource
    variant: str
    episodes: int
    out: Path
    log_folder: Path
    command: str
    keypoints: str | None = None
    side_by_side: int = 1
    verbose: int = 1

    def __str__(self) -> str:
        return f"{self.experiment.algo}, {self.experiment.env}, {self.variant}, seed {self.experiment.seed}"

    @property
    def csv(self) -> Path:
        name = f"{env_name(self.experiment.env)}_{self.variant}_{self.experiment.seed}.csv"
        return self.out / self.experiment.algo / "runs" / name

    @cached_property
    def settings(self) -> str:
        """A hash of all that determines the results, but for the data, which have their own."""
        followed = () if self._map is None else (agent_digest(self._map),)
        return digest(self.training, self._hyperparams, self.episodes, *followed)

    @cached_property
    def training(self) -> str:
        """A hash of all that determines the training; runs that share it share an agent."""
        about = self.experiment
        learning = {name: value for name, value in self._hyperparams.items() if name not in self._acting}
        path = self.data.path and str(self.data.path)
        return digest(about.algo, about.env, path, about.seed, about.total, learning, code_version())

    @cached_property
    def _hyperparams(self) -> dict[str, Any]:
        return all_hyperparams(self.experiment.algo, self.experiment.hyperparams)

    @property
    def _acting(self) -> tuple[str, ...]:
        """The hyperparameters that runs of one and the same agent may differ in."""
        return algorithm(self.experiment.algo).acting_settings(self._hyperparams)

    @cached_property
    def _map(self) -> Any:
        """The agent whose plan is followed, if any."""
        about = self.experiment
        return None if self.keypoints is None else load_map(about.env, self.keypoints, about.device)

    @cached_property
    def _info(self) -> DatasetInfo:
        """Where the data come from, which are made or fetched if they are not there."""
        return self.data.load(self.experiment.env, progress=self.verbose > 0)[1]

    def is_done(self) -> bool:
        """
        Whether there are results.

        :raises ValueError: if they are of other settings, code or data, or the settings are wrong
        """
        settings = self.settings
        if not self.csv.is_file():
            return False
        row = read_results(self.csv)[0]
        other = "settings or by other code" if row.settings != settings else None
        if other is None and row.dataset_sha256 != self._info.sha256:
            other = "data"
        if other:
            raise ValueError(
                f"{self.csv} is of a run with other {other} ({row.command}, commit {row.commit}); "
                "delete it, or give another --variant or --out"
            )
        return True

    def execute(self) -> list[Result]:
        """Train, or go on with the training, evaluate the final agent and write the results."""
        experiment = self.experiment
        folder = self._trained()
        dataset, info = self.data.load(experiment.env)
        model = self._load(folder, dataset)
        pool, tasks = task_envs(experiment.env, self.data.trust_dataset)
        actor = model if self._map is None else self._map.guide(model)
        try:
            sampled, deterministic = evaluate_both(actor, pool, tasks, self.episodes, seed=experiment.seed or 0)
        finally:
            pool.close()
        quality = map_quality(model, MazeGeometry.of_spare_env(find_task_env(experiment.env)), dataset.some_goals())
        about = folder.read_config()  # as it was when the training began
        results = [
            Result(
                algo=experiment.algo,
                dataset=experiment.env,
                variant=self.variant,
                seed=experiment.seed or 0,
                task=task,
                episodes=self.episodes,
                success_sampled=float(sampled.success[k].mean()),
                success_deterministic=float(deterministic.success[k].mean()),
                steps_sampled=float(sampled.lengths[k].mean()),
                steps_deterministic=float(deterministic.lengths[k].mean()),
                n_updates=model.num_timesteps,
                train_seconds=_seconds(folder),
                **quality._asdict(),
                dataset_source=info.source,
                dataset_seed=info.seed,
                dataset_sha256=info.sha256,
                settings=self.settings,
                command=self.command,
                cpu=about["machine"]["cpu"],
                cores=usable_cores(),
                jobs=self.side_by_side,
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

        :param folder: the file is named after the dataset, in a folder named after the algorithm
        :raises ValueError: if the agent is not there
        """
        latest = self._latest()
        if latest is None:
            raise ValueError(f"cannot export {self}: there is no agent in {self._runs}")
        path = folder / self.experiment.algo / f"{env_name(self.experiment.env)}.zip"
        path.parent.mkdir(parents=True, exist_ok=True)
        dataset, _ = self.data.load(self.experiment.env, progress=False)
        self._load(latest, dataset).save(path, exclude=["training"])

    @property
    def _runs(self) -> Path:
        """A folder of its own, so that an agent of another training is never gone on with."""
        return self.log_folder / "benchmark" / f"seed_{self.experiment.seed}_{self.training}"

    def _load(self, folder: RunFolder, dataset: GoalDataset) -> OfflineAlgorithm:
        """The agent of a folder, to act as this run says: another run may have trained it."""
        acting = {name: self._hyperparams[name] for name in self._acting}
        model = algorithm(self.experiment.algo).load(folder.agent, device=self.experiment.device, **acting)
        model.choose_settings(dataset.split(getattr(model, "held_out", 0.0), model.seed or 0).held_out)
        return model

    def _latest(self) -> RunFolder | None:
        """The last training on these data that ended with a saved agent, be it whole or interrupted."""
        name = env_name(self.experiment.env)
        agents = sorted((self._runs / self.experiment.algo).glob(f"{name}_*/{name}.zip"), key=os.path.getmtime)
        for folder in map(run_of, reversed(agents)):
            config = folder.read_config() if folder is not None else {}
            if "training" in config and config["dataset"]["sha256"] == self._info.sha256:
                return folder
        return None

    def _trained(self) -> RunFolder:
        """The folder with the final agent: found, or trained, from where an interrupted training stopped."""
        experiment, total, before = self.experiment, self.experiment.total, self._latest()
        if before is not None:
            agent = algorithm(experiment.algo).load(before.agent)
            if agent.num_timesteps >= (total or agent._total_timesteps):
                return before
            experiment = Experiment(
                experiment.env,
                experiment.algo,
                experiment.seed,
                n_timesteps=total,
                trained_agent=before.agent,
                device=experiment.device,
            )
        # A single episode in the end: results need more than a training records, so evaluation proper comes after it.
        options = TrainingOptions(eval_freq=-1, save_freq=-1, eval_episodes=1, verbose=self.verbose)
        args = {"resumed_from": before and before.agent, "hyperparams": list(self.experiment.overrides)}
        done = train(experiment, self.data, options, self._runs, shlex.split(self.command), args)
        if not done.finished:
            raise Interrupted(done.ended_by or signal.SIGINT)
        return done.folder


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
    which = f"{row.algo}, {row.dataset}, {row.variant}, seed {row.seed}"
    return f"{which}: {rates}, {row.train_seconds / 60:.1f} minutes of training"
