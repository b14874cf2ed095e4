"""One training: callbacks, logs, the final evaluation and what is recorded about it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback
from stable_baselines3.common.logger import (
    CSVOutputFormat,
    HumanOutputFormat,
    KVWriter,
    Logger,
    TensorBoardOutputFormat,
)

from proq_agent.common.callbacks import ProgressBar, TaskEvalCallback
from proq_agent.common.distributed import from_main, is_main
from proq_agent.common.evaluation import NO_TASK, EnvPool, evaluate_both
from proq_agent.common.torchrun import main_first
from zoo.cli import print_table
from zoo.config import N_TIMESTEPS, hyperparams_of
from zoo.data.tasks import UntrustedEnvironment, find_task_env, make_task_env, task_envs
from zoo.figures.diagnosis import draw_diagnosis
from zoo.figures.learned_map import has_map
from zoo.figures.maps import draw_map
from zoo.figures.maze_geometry import MazeGeometry
from zoo.runs.folder import RunFolder, check_folder, create_run, describe_machine
from zoo.runs.learning import Learning
from zoo.runs.log_lines import LogLines
from zoo.runs.monitor import MonitorFile
from zoo.runs.options import (
    CHECKPOINTS,
    EPISODES_AT_THE_END,
    EPISODES_WHILE_TRAINING,
    EVALUATIONS,
    LOGS,
    TrainingOptions,
)
from zoo.runs.tracking import WandbWriter

if TYPE_CHECKING:
    from proq_agent.common.offline import OfflineAlgorithm
    from zoo.data.load import DatasetInfo
    from zoo.data.source import DataSource
    from zoo.runs.experiment import Experiment


HEADER = ("task", "sampled", "deterministic")


def train(
    experiment: Experiment,
    data: DataSource,
    options: TrainingOptions,
    log_folder: Path,
    command: Sequence[str],
    args: Mapping[str, Any],
    unique: bool = False,
) -> Learning:
    """
    Train and evaluate an agent; everything that can be wrong with the input is found before a folder is made. Where
    several processes train it, the main one does all but the learning alone.

    :param experiment: what to learn
    :param data: where the dataset comes from
    :param options: how to watch it
    :param log_folder: root of all runs
    :param command: what repeats this, for the record
    :param args: its options, for the record
    :param unique: append a random id to the folder's name
    :return: the run; ``finished`` tells whether it ended, or was interrupted and saved
    """
    for folder in filter(None, (log_folder.expanduser(), options.tensorboard_log)):
        check_folder(folder)
    pool, tasks = _environments(experiment.env, data.trust_dataset)
    try:
        experiment.check()
        with main_first():
            dataset, info = data.load(experiment.env, progress=options.verbose > 0)
        verbose = options.verbose if is_main() else 0
        if verbose:
            print(info.describe(), flush=True)
        env = pool.take(tasks[0]) if tasks else None
        if env is not None:
            pool.give_back(tasks[0], env)
        model, total = experiment.build(env, dataset, info, verbose)
        model.check_processes()
        if not is_main():
            follower = Learning(model, total, from_main(None))
            model.set_logger(Logger(None, []))
            follower.learn()
            return follower
        run_folder = from_main(create_run(log_folder, experiment.algo, experiment.env, unique))
        try:
            run_folder.write_command(command, dict(args))
            run = TrainingRun(experiment, options, model, pool, tasks, run_folder, info, total)
        except BaseException:
            run_folder.remove()  # nobody shall take it for a run
            raise
        try:
            with run:
                run.train()
                if run.finished:
                    run.report()
        except BaseException:
            if not any(run_folder.path.glob("*.zip")):
                run_folder.remove()  # nothing to go on with, or to act
            raise
        return run
    finally:
        pool.close()


def _environments(env_id: str, trust_dataset: bool) -> tuple[EnvPool, tuple[int, ...]]:
    """Where to evaluate; without a task if nothing but an untrusted dataset describes the environment."""
    try:
        return task_envs(env_id, trust_dataset)
    except UntrustedEnvironment as error:
        without = "Training without an environment: nothing is evaluated, and actions have the range of the data"
        print(f"note: {error}. {without}", file=sys.stderr)
        return EnvPool(lambda _: make_task_env(env_id)), ()


class TrainingRun(Learning):
    """
    One training with a folder to write to. Logs are opened at once; as a context manager it closes them.

    :param experiment: what is learned
    :param options: how it is watched
    :param model: an agent with its dataset
    :param pool: environments to evaluate in
    :param tasks: numbers of their tasks
    :param folder: where everything is written
    :param info: where the dataset came from
    :param total: number of updates that the agent is to have had in the end
    """

    def __init__(
        self,
        experiment: Experiment,
        options: TrainingOptions,
        model: OfflineAlgorithm,
        pool: EnvPool,
        tasks: tuple[int, ...],
        folder: RunFolder,
        info: DatasetInfo,
        total: int,
    ) -> None:
        super().__init__(model, total, folder)
        self.options, self.pool, self.tasks, self.env_id = options, pool, tasks, experiment.env
        self.seed: int = (model.seed or 0) if experiment.seed is None else experiment.seed  # of evaluations
        hyperparams = {N_TIMESTEPS: total} | hyperparams_of(model)
        self.tracker: WandbWriter | None = None
        self.config: dict[str, Any] = {
            "env": experiment.env,
            "algo": experiment.algo,
            "seed": model.seed,
            "preset": experiment.preset,
            "hyperparams": hyperparams,
            "resumed_from": str(experiment.trained_agent) if experiment.trained_agent else None,
            "dataset": asdict(info),
            **describe_machine(model.device),
        }
        folder.write_config(self.config)
        self.logger = Logger(str(folder.path), self._outputs())
        model.set_logger(self.logger)
        if options.verbose:
            print_table("Hyperparameters", ("name", "value"), list(_flat(hyperparams).items()))
            print(f"run folder: {folder.path}", flush=True)

    def __enter__(self) -> TrainingRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.logger.close()

    def train(self) -> None:
        """Train, watch and save the agent; ``finished`` stays ``False`` if a signal ended it early."""
        options, model, folder, total = self.options, self.model, self.folder, self.total
        callbacks: list[BaseCallback] = []
        if options.save_freq != -1:
            callbacks.append(CheckpointCallback(options.save_freq or max(total // CHECKPOINTS, 1), str(folder.path)))
        if options.eval_freq != -1 and self.tasks:
            start = 0 if options.eval_freq else model.first_useful_evaluation(total)
            callbacks.append(
                TaskEvalCallback(
                    self.pool,
                    self.tasks,
                    options.eval_freq or max((total - start) // EVALUATIONS, 1),
                    options.eval_episodes or EPISODES_WHILE_TRAINING,
                    eval_start=start,
                    seed=self.seed,
                    n_envs=options.n_eval_envs,
                    best_model_save_path=folder.path,
                    log_path=folder.path,
                    callback_after_eval=MonitorFile(folder.path, self.env_id),
                    verbose=options.verbose,
                )
            )
        if options.shows_bar:
            callbacks.append(ProgressBar())
        begun, at_start = time.monotonic(), model.num_timesteps
        self.learn(callbacks, options.log_interval or max(total // LOGS, 1))
        self.config["training"] = {
            "updates": model.num_timesteps - at_start,
            "seconds": round(time.monotonic() - begun, 3),  # wall clock, evaluations included
        }
        folder.write_config(self.config)

    def save(self) -> None:
        """Write the agent."""
        self.model.save(self.folder.agent)

    def report(self) -> None:
        """Evaluate the agent, print and record the result, and draw and diagnose its map if it has one."""
        if self.tasks:
            self._evaluate()
        if self.options.verbose:
            print(f"agent: {self.folder.agent}")
        if has_map(self.model):
            self._draw_map()
            self._diagnose()

    def _evaluate(self) -> None:
        options, folder = self.options, self.folder
        episodes = options.eval_episodes or EPISODES_AT_THE_END
        if options.verbose:
            print(f"evaluating on {len(self.tasks)} x {episodes} episodes, sampled and deterministic", flush=True)
        results = evaluate_both(self.model, self.pool, self.tasks, episodes, seed=self.seed, n_envs=options.n_eval_envs)
        rates = [r.task_success_rates | {"all": r.success_rate} for r in results]
        rows = [("-" if task == NO_TASK else task, *(rate[task] for rate in rates)) for task in rates[0]]
        self.config["results"] = {
            "episodes": episodes,
            "seed": self.seed,
            **{name: dict(rate) for name, rate in zip(HEADER[1:], rates, strict=True)},
        }
        folder.write_config(self.config)
        if options.verbose:
            print_table(f"Success on {self.env_id}", HEADER, [(row[0], *(f"{x:.1%}" for x in row[1:])) for row in rows])
        if self.tracker:
            self.tracker.log_table("results", HEADER, [(str(row[0]), *row[1:]) for row in rows])

    def _draw_map(self) -> None:
        draw_map(self.model, self.folder.map, MazeGeometry.of_spare_env(find_task_env(self.env_id)))
        if self.tracker:
            self.tracker.log_image("map", self.folder.map)
        if self.options.verbose:
            print(f"map: {self.folder.map}")

    def _diagnose(self) -> None:
        model: Any = self.model
        found = model.diagnose()
        self.config["diagnosis"] = {check.name: {"value": check.value, "ok": check.ok} for check in found.checks}
        self.folder.write_config(self.config)
        if self.options.verbose:
            print(found.summary())
        if found.measured is None:
            return
        draw_diagnosis(found, self.folder.diagnosis)
        if self.tracker:
            self.tracker.log_image("diagnosis", self.folder.diagnosis)
        if self.options.verbose:
            print(f"diagnosis: {self.folder.diagnosis}")

    def _outputs(self) -> list[KVWriter]:
        options, folder = self.options, self.folder
        board = options.tensorboard_log / folder.path.name if options.tensorboard_log else folder.path / "tensorboard"
        outputs: list[KVWriter] = []
        if options.wandb is not None:
            self.tracker = WandbWriter(folder.path, name=folder.path.name, config=self.config, **options.wandb)
            outputs.append(self.tracker)
        outputs += [CSVOutputFormat(str(folder.progress)), TensorBoardOutputFormat(str(board))]
        if options.verbose and not options.shows_bar:
            outputs.append(HumanOutputFormat(sys.stdout) if sys.stdout.isatty() else LogLines())
        return outputs


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
