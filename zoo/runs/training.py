"""One training: callbacks, logs, the final evaluation and what is recorded about it."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback
from stable_baselines3.common.logger import (
    CSVOutputFormat,
    HumanOutputFormat,
    KVWriter,
    Logger,
    TensorBoardOutputFormat,
)

from proq_agent import ProQ
from proq_agent.common.callbacks import ProgressBar, StopOnSignal, TaskEvalCallback
from proq_agent.common.evaluation import NO_TASK, EnvPool, evaluate_both
from zoo.cli import print_table
from zoo.config import N_TIMESTEPS, hyperparams_of, to_plain
from zoo.data.load import DatasetInfo
from zoo.runs.folder import RunFolder, describe_machine
from zoo.runs.tracking import WandbWriter

# Of each task and way of acting: while training a coarse curve that takes hardly any time.
EPISODES_WHILE_TRAINING, EPISODES_AT_THE_END = 5, 50
EVALUATIONS, CHECKPOINTS, LOGS = 4, 4, 50  # how often in a training, by default
HEADER = ("task", "sampled", "deterministic")


class TrainingRun:
    """
    One training with a folder to write to. Logs are opened at once; as a context manager it closes them.

    :param args: options of :mod:`zoo.train`
    :param model: an agent with its dataset
    :param pool: environments to evaluate in
    :param tasks: numbers of their tasks
    :param folder: where everything is written
    :param info: where the dataset came from
    :param total: number of updates that the agent is to have had in the end
    """

    def __init__(
        self,
        args: argparse.Namespace,
        model: ProQ,
        pool: EnvPool,
        tasks: tuple[int, ...],
        folder: RunFolder,
        info: DatasetInfo,
        total: int,
    ) -> None:
        self.args, self.model, self.pool, self.tasks, self.folder, self.total = args, model, pool, tasks, folder, total
        hyperparams = {N_TIMESTEPS: total} | to_plain(hyperparams_of(model))
        self.progress = args.verbose > 0 and (sys.stderr.isatty() if args.progress is None else args.progress)
        self.tracker: WandbWriter | None = None
        self.config: dict[str, Any] = {
            "env": args.env,
            "algo": args.algo,
            "seed": model.seed,
            "preset": args.preset,
            "hyperparams": hyperparams,
            "resumed_from": str(args.trained_agent) if args.trained_agent else None,
            "dataset": asdict(info),
            **describe_machine(model.device),
        }
        folder.write_config(self.config)
        self.logger = Logger(str(folder.path), self._outputs())
        model.set_logger(self.logger)
        if args.verbose:
            print(info.describe())
            print_table("Hyperparameters", ("name", "value"), list(_flat(hyperparams).items()))
            print(f"run folder: {folder.path}")

    def __enter__(self) -> TrainingRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.logger.close()

    def learn(self) -> bool:
        """
        Train and save the agent.

        :return: whether it is done; ``False`` if a signal ended it early
        """
        args, model, folder, total = self.args, self.model, self.folder, self.total
        stop = StopOnSignal()
        callbacks: list[BaseCallback] = []
        if args.save_freq != -1:
            callbacks.append(CheckpointCallback(args.save_freq or max(total // CHECKPOINTS, 1), str(folder.path)))
        if args.eval_freq != -1:
            start = 0 if args.eval_freq else model.first_useful_evaluation(total)
            callbacks.append(
                TaskEvalCallback(
                    self.pool,
                    self.tasks,
                    args.eval_freq or max((total - start) // EVALUATIONS, 1),
                    args.eval_episodes or EPISODES_WHILE_TRAINING,
                    eval_start=start,
                    seed=args.seed,
                    n_envs=args.n_eval_envs,
                    best_model_save_path=folder.path,
                    log_path=folder.path,
                    verbose=args.verbose,
                )
            )
        callbacks += [stop, *([ProgressBar()] if self.progress else [])]
        begun, at_start = time.monotonic(), model.num_timesteps
        with stop.listening():
            model.learn(
                total - at_start,
                callback=callbacks,
                log_interval=args.log_interval or max(total // LOGS, 1),
                reset_num_timesteps=False,
            )
        model.save(folder.agent)
        self.config["training"] = {
            "updates": model.num_timesteps - at_start,
            "seconds": round(time.monotonic() - begun, 1),  # wall clock, evaluations included
        }
        folder.write_config(self.config)
        return model.num_timesteps >= total and not stop.requested

    def report(self) -> None:
        """Evaluate the agent, print and record the result, and draw its map."""
        from zoo.plots import draw_map  # matplotlib is slow to import

        args, folder = self.args, self.folder
        episodes = args.eval_episodes or EPISODES_AT_THE_END
        if args.verbose:
            print(f"evaluating on {len(self.tasks)} x {episodes} episodes, sampled and deterministic")
        results = evaluate_both(self.model, self.pool, self.tasks, episodes, seed=args.seed, n_envs=args.n_eval_envs)
        rates = [r.task_success_rates | {"all": r.success_rate} for r in results]
        rows = [("-" if task == NO_TASK else task, *(rate[task] for rate in rates)) for task in rates[0]]
        self.config["results"] = {
            "episodes": episodes,
            "seed": args.seed,
            **{name: dict(rate) for name, rate in zip(HEADER[1:], rates, strict=True)},
        }
        folder.write_config(self.config)
        if args.verbose:
            print_table(f"Success on {args.env}", HEADER, [(row[0], *(f"{x:.1%}" for x in row[1:])) for row in rows])
        draw_map(self.model, folder.map, env_id=args.env)
        if self.tracker:
            self.tracker.log_table("results", HEADER, [(str(row[0]), *row[1:]) for row in rows])
            self.tracker.log_image("map", folder.map)
        if args.verbose:
            print(f"agent: {folder.agent}\nmap: {folder.map}")

    def _outputs(self) -> list[KVWriter]:
        args, folder = self.args, self.folder
        board = args.tensorboard_log / folder.path.name if args.tensorboard_log else folder.path / "tensorboard"
        outputs: list[KVWriter] = []
        if args.track:
            self.tracker = WandbWriter(
                folder.path,
                project=args.wandb_project_name,
                entity=args.wandb_entity,
                tags=args.wandb_tags,
                name=folder.path.name,
                config=self.config,
            )
            outputs.append(self.tracker)
        outputs += [CSVOutputFormat(str(folder.progress)), TensorBoardOutputFormat(str(board))]
        if args.verbose and not self.progress:
            outputs.append(HumanOutputFormat(sys.stdout))
        return outputs


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
