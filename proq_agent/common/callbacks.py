"""Callbacks for offline training: success on every task, a progress bar that needs no environment, a clean stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    EvalCallback,
    EventCallback,
    ProgressBarCallback,
    StopTrainingOnMaxEpisodes,
)
from stable_baselines3.common.logger import KVWriter
from tqdm import tqdm

from proq_agent.common.errors import Interrupted
from proq_agent.common.evaluation import EnvPool, TaskResults, evaluate_both
from proq_agent.common.files import atomic_file


class TaskEvalCallback(EventCallback):
    """
    Evaluate on all tasks, with sampled and with deterministic actions, and keep the best agent, the latest
    of equals.

    SB3's ``EvalCallback`` for numbered tasks: ``evaluations.npz`` has its keys ``timesteps``, ``results``,
    ``ep_lengths`` and ``successes`` (``[evaluations, tasks * episodes]``, task by task) for sampled actions, the last
    three once more with the suffix ``_deterministic``, and ``tasks``. ``best_mean_reward``, which the callbacks that
    stop training read, is the best mean of the two success rates.

    :param make_env: makes an environment for a task
    :param tasks: the tasks' numbers
    :param eval_freq: evaluate when the number of updates is a multiple of this
    :param eval_start: but not up to this number of updates
    :param n_eval_episodes: episodes of each task, for each way of acting
    :param seed: of every evaluation, so that they are comparable
    :param n_envs: see :func:`~proq_agent.common.evaluation.evaluate_tasks`
    :param best_model_save_path: folder for ``best_model.zip``
    :param log_path: folder for ``evaluations.npz``
    :param callback_on_new_best: called when an agent was kept as the best
    :param callback_after_eval: called after every evaluation
    :param verbose: 1 to print the success rates
    """

    def __init__(
        self,
        make_env: Callable[[int], gym.Env] | EnvPool,
        tasks: tuple[int, ...],
        eval_freq: int = 1000,
        n_eval_episodes: int = 5,
        *,
        eval_start: int = 0,
        seed: int = 0,
        n_envs: int | None = None,
        best_model_save_path: str | Path | None = None,
        log_path: str | Path | None = None,
        callback_on_new_best: BaseCallback | None = None,
        callback_after_eval: BaseCallback | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(callback_after_eval, verbose)
        if eval_freq < 1:
            raise ValueError(f"eval_freq must be at least 1, got {eval_freq}")
        self.pool = make_env if isinstance(make_env, EnvPool) else EnvPool(make_env)
        self.tasks = tasks
        self.eval_freq, self.eval_start = eval_freq, eval_start
        self.n_eval_episodes = n_eval_episodes
        self.seed = seed
        self.n_envs = n_envs
        self.best_model_save_path = best_model_save_path
        self.log_path = log_path
        self.callback_on_new_best = callback_on_new_best
        if callback_on_new_best is not None:
            callback_on_new_best.parent = self
        self.best_mean_reward = -np.inf
        self.sampled: TaskResults | None = None  #: what the last evaluation found, with sampled actions
        self._timesteps: list[int] = []
        self._rows: dict[str, list[np.ndarray]] = {}

    def _init_callback(self) -> None:
        super()._init_callback()
        for folder in (self.best_model_save_path, self.log_path):
            if folder is not None:
                os.makedirs(folder, exist_ok=True)
        if self.callback_on_new_best is not None:
            self.callback_on_new_best.init_callback(self.model)

    def _on_step(self) -> bool:
        if self.num_timesteps % self.eval_freq != 0 or self.num_timesteps <= self.eval_start:
            return True
        sampled, deterministic = evaluate_both(
            self.model, self.pool, self.tasks, self.n_eval_episodes, seed=self.seed, n_envs=self.n_envs
        )
        self.sampled = sampled
        self._log(sampled, deterministic)
        if self.log_path is not None:
            self._timesteps.append(self.num_timesteps)
            self._write(sampled, deterministic)
        score = (sampled.success_rate + deterministic.success_rate) / 2
        go_on = True
        if score >= self.best_mean_reward:  # of equals the one that learned longest
            self.best_mean_reward = score
            if self.best_model_save_path is not None:
                self.model.save(os.path.join(self.best_model_save_path, "best_model.zip"))
            if self.callback_on_new_best is not None:
                go_on = self.callback_on_new_best.on_step()
        return self._on_event() and go_on

    def _log(self, sampled: TaskResults, deterministic: TaskResults) -> None:
        if self.verbose >= 1:
            rates = f"{sampled.success_rate:.1%} sampled, {deterministic.success_rate:.1%} deterministic"
            tqdm.write(f"{self.num_timesteps} updates: success {rates}")
        for suffix, results in (("", sampled), ("_deterministic", deterministic)):
            self.logger.record(f"eval/success_rate{suffix}", results.success_rate)
            self.logger.record(f"eval/mean_ep_length{suffix}", float(results.lengths.mean()))
            for task, rate in results.task_success_rates.items():
                self.logger.record(f"eval/task_{task}{suffix}", rate)
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)

    def _write(self, sampled: TaskResults, deterministic: TaskResults) -> None:
        assert self.log_path is not None
        for suffix, results in (("", sampled), ("_deterministic", deterministic)):
            arrays = {"results": results.returns, "ep_lengths": results.lengths, "successes": results.success}
            for name, array in arrays.items():
                self._rows.setdefault(name + suffix, []).append(array.ravel())
        path = Path(self.log_path) / "evaluations.npz"
        with atomic_file(path) as file:  # a full disk costs only this one
            np.savez(file, timesteps=self._timesteps, tasks=self.tasks, **self._rows)  # type: ignore[arg-type]


class ProgressBar(BaseCallback):
    """
    Updates done, time left, and the losses and success rates that the logger was last given.

    It takes them from the logger, so it shows what the log interval lets through and costs the training nothing.
    """

    bar: tqdm

    def _on_training_start(self) -> None:
        total = self.locals["total_timesteps"]
        self.bar = tqdm(total=total, initial=self.model.num_timesteps, unit=" updates", dynamic_ncols=True)
        self._reader = _Postfix(self.bar)
        self.logger.output_formats.append(self._reader)

    def _on_step(self) -> bool:
        self.bar.update(self.num_timesteps - self.bar.n)
        return True

    def _on_training_end(self) -> None:
        self.logger.output_formats.remove(self._reader)
        self.bar.close()


class _Postfix(KVWriter):
    """A logger output that shows a few of the values on the bar."""

    LOSSES = (("train/loss", "loss"), ("train/actor_loss", "actor_loss"))
    RATES = (("eval/success_rate", "success"), ("eval/success_rate_deterministic", "det."))

    def __init__(self, bar: tqdm) -> None:
        self._bar = bar
        self._losses: dict[str, str] = {}
        self._rates: dict[str, str] = {}

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        losses = {label: f"{key_values[key]:.3g}" for key, label in self.LOSSES if key in key_values}
        self._losses = losses or self._losses  # what is not learned any more has no loss
        self._rates |= {label: f"{key_values[key]:.0%}" for key, label in self.RATES if key in key_values}
        self._bar.set_postfix(self._losses | self._rates, refresh=False)

    def close(self) -> None:
        """The bar belongs to the callback."""


def fit_for_offline(callback: BaseCallback, has_env: bool) -> BaseCallback:
    """
    SB3's callbacks as they make sense where no environment is stepped, those within others too.

    :param callback: what the user gave
    :param has_env: whether the agent has an environment
    :return: the same, with our progress bar in place of SB3's, which counts steps of environments
    :raises ValueError: naming one that cannot work, and the remedy
    """
    if isinstance(callback, ProgressBarCallback):
        return ProgressBar()
    if isinstance(callback, StopTrainingOnMaxEpisodes):
        instead = "give learn() the number of updates, or stop with StopTrainingOnRewardThreshold in an evaluation"
        raise ValueError(f"StopTrainingOnMaxEpisodes waits for episodes, and none are played while learning; {instead}")
    if isinstance(callback, EvalCallback) and not has_env:
        instead = "pass env=... to the agent, or use TaskEvalCallback of proq_agent.common.callbacks"
        raise ValueError(f"EvalCallback compares its environment with that of the agent, which has none; {instead}")
    if isinstance(callback, CallbackList):
        callback.callbacks = [fit_for_offline(inner, has_env) for inner in callback.callbacks]
    elif isinstance(callback, EventCallback) and callback.callback is not None:
        callback.callback = fit_for_offline(callback.callback, has_env)
    return callback


class StopOnSignal(BaseCallback):
    """
    Let Ctrl-C or SIGTERM end ``learn`` after the current update, never within one, so that the agent can be saved
    and resumed exactly. A second signal interrupts at once.

    Example::

        stop = StopOnSignal()
        with stop.listening():
            model.learn(100_000, callback=stop)
        if stop.requested: ...
    """

    number: int | None = None  #: of the signal that came

    @property
    def requested(self) -> bool:
        """Whether one came."""
        return self.number is not None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals within this block; only possible in the main thread."""

        def handle(number: int, _: Any) -> None:
            if self.requested:
                raise Interrupted(number)
            self.number = number
            tqdm.write("\nstopping after this update or evaluation; once more to stop at once, without saving")

        before: dict[int, Any] = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        except (
            ChildProcessError
        ):  # whoever ended one process of a training ends this one, too: let it tell what it saved
            before[signal.SIGTERM] = signal.SIG_IGN
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_step(self) -> bool:
        return not self.requested
