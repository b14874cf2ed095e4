"""A search for hyperparameters with Optuna: one trial, many of them, and the entry that the best becomes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from stable_baselines3.common.callbacks import BaseCallback

from proq_agent.common.dataset import GoalDataset
from proq_agent.common.evaluation import EnvPool, evaluate_both
from proq_agent.common.files import atomic_file
from zoo.config import N_TIMESTEPS, load_hyperparams, to_plain
from zoo.data.load import DatasetInfo
from zoo.runs.experiment import Experiment
from zoo.runs.search_space import Range, sample_overrides

if TYPE_CHECKING:
    import optuna

N_SEEDS = 9


class PruneBySuccess(BaseCallback):
    """
    Report the success rate to a trial now and then, and end a trial that lags behind the others.

    :param trial: told the mean of the rates with sampled and with deterministic actions
    :param pool: environments
    :param tasks: their tasks
    :param episodes: of each task
    :param eval_at: after how many updates
    :param seed: of the evaluations
    """

    def __init__(
        self, trial: optuna.Trial, pool: EnvPool, tasks: tuple[int, ...], episodes: int, eval_at: set[int], seed: int
    ) -> None:
        super().__init__()
        self.trial, self.eval_at = trial, eval_at
        self.evaluate = partial(evaluate_both, make_env=pool, tasks=tasks, episodes=episodes, seed=seed)
        self.success_rate = 0.0
        self.pruned = False

    def _on_step(self) -> bool:
        if self.num_timesteps not in self.eval_at:
            return True
        self.success_rate = sum(results.success_rate for results in self.evaluate(self.model)) / 2
        self.trial.report(self.success_rate, self.num_timesteps)
        self.pruned = self.trial.should_prune()
        return not self.pruned


class Objective:
    """
    Trains and evaluates one agent a trial.

    :param experiment: what trials have in common; its seed is replaced
    :param space: what they differ in
    :param dataset: what agents learn from
    :param info: where that came from
    :param pool: environments
    :param tasks: their tasks
    :param n_evaluations: of a trial, to prune it
    :param episodes: of each task in an evaluation
    :param job: of a cluster, that the trials are noted to be of
    """

    def __init__(
        self,
        experiment: Experiment,
        space: Mapping[str, Range],
        dataset: GoalDataset,
        info: DatasetInfo,
        pool: EnvPool,
        tasks: tuple[int, ...],
        n_evaluations: int = 4,
        episodes: int = 5,
        job: str | None = None,
    ) -> None:
        self.experiment, self.space, self.dataset, self.info, self.job = experiment, space, dataset, info, job
        self.pool, self.tasks, self.n_evaluations, self.episodes = pool, tasks, n_evaluations, episodes

    def __call__(self, trial: optuna.Trial) -> float:
        import optuna

        if self.job is not None:
            trial.set_user_attr("job", self.job)
        seed = 1 + trial.number % N_SEEDS
        overrides = (*self.experiment.overrides, *sample_overrides(trial, self.space))
        experiment = replace(self.experiment, seed=seed, overrides=overrides)
        trial.set_user_attr("seed", seed)
        trial.set_user_attr("entry", {N_TIMESTEPS: experiment.total} | to_plain(experiment.hyperparams))
        env = self.pool.take(self.tasks[0])
        self.pool.give_back(self.tasks[0], env)
        model, total = experiment.build(env, self.dataset, self.info)
        start, n = model.first_useful_evaluation(total), self.n_evaluations
        eval_at = {start + math.ceil((total - start) * k / n) for k in range(1, n + 1)}
        prune = PruneBySuccess(trial, self.pool, self.tasks, self.episodes, eval_at, seed)
        model.learn(total, callback=prune, log_interval=None)
        if prune.pruned:
            raise optuna.TrialPruned
        return prune.success_rate


def write_entry(path: Path, env_id: str, study: optuna.Study, command: str, algo: str) -> str:
    """
    Write the best trial as an entry that can be pasted into ``zoo/hyperparams/<algo>.yml``.

    :param path: where to write it
    :param env_id: name of the entry
    :param study: with one finished trial at least
    :param command: said in a comment
    :param algo: name of the algorithm
    :return: what was written
    """
    best = study.best_trial
    about = f"# {best.value:.1%} success on seed {best.user_attrs['seed']}, best of {len(study.trials)} trials:\n"
    about += f"# {command}\n"
    text = about + yaml.safe_dump({env_id: best.user_attrs["entry"]}, sort_keys=False)
    with atomic_file(path) as file:
        file.write(text.encode())
    load_hyperparams(env_id, conf_file=path, algo=algo)  # what is pasted must be accepted
    return text


def storage_of(storage: str | Path) -> Any:
    """
    Where a study is kept.

    :param storage: a journal file, or the URL of a database
    """
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    if "://" in str(storage):
        return str(storage)
    path = Path(storage).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    return JournalStorage(JournalFileBackend(str(path)))


def sampler_of(name: str, n_startup_trials: int, seed: int | None) -> optuna.samplers.BaseSampler:
    """
    What to try next.

    :param name: ``tpe`` or ``random``
    :param n_startup_trials: random ones
    :param seed: of the draws
    """
    from optuna import samplers

    if name == "random":
        return samplers.RandomSampler(seed=seed)
    # With others at work, their running trials count as bad, so that no two processes try the same.
    return samplers.TPESampler(n_startup_trials=n_startup_trials, multivariate=True, constant_liar=True, seed=seed)


def pruner_of(name: str, n_startup_trials: int) -> optuna.pruners.BasePruner:
    """
    What to give up.

    :param name: ``median``, ``halving`` or ``none``
    :param n_startup_trials: never given up
    """
    from optuna import pruners

    if name == "halving":
        return pruners.SuccessiveHalvingPruner()
    return pruners.MedianPruner(n_startup_trials=n_startup_trials) if name == "median" else pruners.NopPruner()


def open_study(
    name: str,
    storage: str | Path,
    sampler: optuna.samplers.BaseSampler,
    pruner: optuna.pruners.BasePruner,
    verbose: int,
) -> optuna.Study:
    """
    Begin or go on with a study.

    :param name: of the study
    :param storage: see :func:`storage_of`
    :param sampler: see :func:`sampler_of`
    :param pruner: see :func:`pruner_of`
    :param verbose: 0 for no output
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.INFO if verbose else optuna.logging.WARNING)
    return optuna.create_study(
        study_name=name,
        storage=storage_of(storage),
        sampler=sampler,
        pruner=pruner,
        direction="maximize",
        load_if_exists=True,
    )


def search(study: optuna.Study, objective: Objective, n_trials: int) -> None:
    """
    Try some settings. What the same job of a cluster has begun before, it was lost with its machine.

    :param study: to add to
    :param objective: one trial
    :param n_trials: of this process
    """
    import optuna

    for trial in study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        if objective.job is not None and trial.user_attrs.get("job") == objective.job:
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    study.optimize(objective, n_trials=n_trials)


def report(study: optuna.Study, experiment: Experiment, out: Path, command: str, verbose: int) -> None:
    """
    Write the best entry so far, if there is one.

    :param study: to report on
    :param experiment: what its trials have in common
    :param out: file of the best entry
    :param command: for the record
    :param verbose: 0 for no output
    """
    import optuna

    if study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,)):
        text = write_entry(out, experiment.env, study, command, experiment.algo)
        if verbose:
            print(f"\n{text}\nwritten to {out}")
