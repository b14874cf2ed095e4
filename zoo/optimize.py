"""
Search hyperparameters with Optuna; several processes or machines that share the storage share the search::

    python -m zoo.optimize --env pointmaze-giant-stitch-v0 --n-trials 50

The objective is the success rate, the mean of sampled and deterministic actions. Trials train and evaluate with the
seeds 1 to 9 in turn, so that those of the benchmark stay unseen. The best settings are written as an entry for
``zoo/hyperparams/proq.yml``.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import LinearSchedule

from proq_agent import ProQ
from proq_agent.common.dataset import GoalDataset
from proq_agent.common.evaluation import EnvPool, evaluate_both
from proq_agent.common.files import atomic_file
from zoo.cli import add_common_arguments, add_dataset_arguments, run
from zoo.config import N_TIMESTEPS, load_hyperparams, to_plain
from zoo.data.load import load
from zoo.data.tasks import environment_id, task_envs
from zoo.runs.folder import env_name

if TYPE_CHECKING:
    import optuna

PROG = "python -m zoo.optimize"
SAMPLERS = ("tpe", "random")
PRUNERS = ("median", "halving", "none")
N_SEEDS = 9
FINAL_LEARNING_RATE = 0.05  # of the first one


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROG,
        description="Search hyperparameters with Optuna and write the best as an entry of a hyperparameter file.",
        epilog="Ctrl-C writes the best so far; the same command goes on with the study.",
    )
    parser.add_argument("--env", required=True, metavar="ID", help="dataset, as for zoo.train")
    parser.add_argument("-n", "--n-timesteps", type=int, metavar="N", help="updates of a trial (default: the entry's)")
    add_common_arguments(parser, "journal and best entry are in DIR/optuna")
    add_dataset_arguments(parser)
    group = parser.add_argument_group("search")
    group.add_argument(
        "--n-trials", type=int, default=20, metavar="N", help="trials of this process (default: %(default)s)"
    )
    group.add_argument("--study-name", metavar="NAME", help="of the study to begin or go on with (default: --env's)")
    group.add_argument(
        "--storage",
        metavar="FILE",
        help="journal file, or the URL of a database; share it to share the study (default: <log folder>/optuna/)",
    )
    group.add_argument(
        "--n-evaluations",
        type=int,
        default=4,
        metavar="N",
        help="of a trial's actor, to prune it (default: %(default)s)",
    )
    group.add_argument("--eval-episodes", type=int, default=5, metavar="N", help="of each task (default: %(default)s)")
    group.add_argument("--sampler", choices=SAMPLERS, default="tpe", help="what to try next (default: %(default)s)")
    group.add_argument("--pruner", choices=PRUNERS, default="median", help="what to give up (default: %(default)s)")
    group.add_argument(
        "--n-startup-trials", type=int, default=10, metavar="N", help="random and not pruned (default: %(default)s)"
    )
    group.add_argument(
        "--seed", type=int, metavar="N", help="of the sampler; leave it out where processes share a study"
    )
    group.add_argument(
        "-params", "--hyperparams", nargs="+", default=[], metavar="KEY:VALUE", help="change what is not searched"
    )
    group.add_argument(
        "-conf", "--conf-file", type=Path, metavar="YAML", help="start from this file, not zoo/hyperparams/proq.yml"
    )
    group.add_argument("--out", type=Path, metavar="YAML", help="the best entry (default: beside the journal)")
    return parser


def sample_hyperparams(trial: optuna.Trial, base: dict[str, Any]) -> dict[str, Any]:
    """
    The search space: the few hyperparameters that matter, to three digits.

    :param trial: draws the values
    :param base: all the others
    :return: keyword arguments for :class:`~proq_agent.ProQ`
    """

    def number(name: str, low: float, high: float, log: bool = False) -> float:
        return float(f"{trial.suggest_float(name, low, high, log=log):.3g}")

    rate = number("learning_rate", 2e-4, 4e-3, log=True)
    # Of 1 - discount, because what counts is how many steps ahead goals lie.
    ahead = number("goals_ahead", 10.0, 300.0, log=True)
    networks = {
        "n_components": trial.suggest_categorical("n_components", [16, 32, 64]),
        "fourier_scale": number("fourier_scale", 0.5, 6.0, log=True),
    }
    return base | {
        "learning_rate": LinearSchedule(rate, float(f"{FINAL_LEARNING_RATE * rate:.3g}"), 1.0),
        "temperature": number("temperature", 1.0, 30.0, log=True),
        "max_hop": number("max_hop", 20.0, 100.0),
        "reach": number("reach", 0.0, 20.0),
        "value_near_share": number("value_near_share", 0.0, 0.6),
        "discount": float(f"{1.0 - 1.0 / ahead:.4g}"),
        "close_margin": number("close_margin", 0.05, 0.5, log=True),
        "policy_kwargs": base.get("policy_kwargs", {}) | networks,
    }


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

    :param args: options of the command
    :param dataset: what agents learn from
    :param pool: environments
    :param tasks: their tasks
    """

    def __init__(self, args: argparse.Namespace, dataset: GoalDataset, pool: EnvPool, tasks: tuple[int, ...]) -> None:
        self.args, self.dataset, self.pool, self.tasks = args, dataset, pool, tasks
        self.base, total = load_hyperparams(
            environment_id(args.env), conf_file=args.conf_file, overrides=args.hyperparams
        )
        self.total = args.n_timesteps or total

    def __call__(self, trial: optuna.Trial) -> float:
        import optuna

        hyperparams = sample_hyperparams(trial, self.base)
        seed = 1 + trial.number % N_SEEDS
        trial.set_user_attr("seed", seed)
        trial.set_user_attr("entry", {N_TIMESTEPS: self.total} | to_plain(hyperparams))
        env = self.pool.take(self.tasks[0])
        self.pool.give_back(self.tasks[0], env)
        model = ProQ(
            dataset=self.dataset,
            observation_space=env.observation_space,
            action_space=env.action_space,
            seed=seed,
            device=self.args.device,
            **hyperparams,
        )
        start, n = model.first_useful_evaluation(self.total), self.args.n_evaluations
        eval_at = {start + math.ceil((self.total - start) * k / n) for k in range(1, n + 1)}
        prune = PruneBySuccess(trial, self.pool, self.tasks, self.args.eval_episodes, eval_at, seed)
        model.learn(self.total, callback=prune, log_interval=None)
        if prune.pruned:
            raise optuna.TrialPruned
        return prune.success_rate


def optimize(args: argparse.Namespace, argv: Sequence[str] = ()) -> None:
    """What the command does."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError("zoo.optimize needs Optuna: pip install optuna") from error

    for name in ("n_trials", "n_evaluations", "eval_episodes"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(args, name)}")
    name = args.study_name or env_name(args.env)
    folder = args.log_folder.expanduser() / "optuna"
    out = args.out or folder / f"{name}.yml"
    pool, tasks = task_envs(args.env)
    try:
        dataset, info = load(
            args.env, dataset_dir=args.dataset_dir, source=args.dataset_source, dataset_path=args.dataset_path
        )
        objective = Objective(args, dataset, pool, tasks)
        if args.verbose:
            print(info.describe())
        optuna.logging.set_verbosity(optuna.logging.INFO if args.verbose else optuna.logging.WARNING)
        study = optuna.create_study(
            study_name=name,
            storage=_storage(args.storage or folder / f"{name}.journal"),
            sampler=_sampler(args),
            pruner=_pruner(args),
            direction="maximize",
            load_if_exists=True,
        )
        try:
            study.optimize(objective, n_trials=args.n_trials)
        finally:
            if study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,)):
                text = write_entry(out, args.env, study, shlex.join([*PROG.split(), *argv]))
                if args.verbose:
                    print(f"\n{text}\nwritten to {out}")
    finally:
        pool.close()


def _storage(storage: str | Path) -> Any:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    if "://" in str(storage):
        return str(storage)
    path = Path(storage).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    return JournalStorage(JournalFileBackend(str(path)))


def _sampler(args: argparse.Namespace) -> optuna.samplers.BaseSampler:
    from optuna import samplers

    if args.sampler == "random":
        return samplers.RandomSampler(seed=args.seed)
    # With others at work, their running trials count as bad, so that no two processes try the same.
    return samplers.TPESampler(
        n_startup_trials=args.n_startup_trials, multivariate=True, constant_liar=True, seed=args.seed
    )


def _pruner(args: argparse.Namespace) -> optuna.pruners.BasePruner:
    from optuna import pruners

    if args.pruner == "halving":
        return pruners.SuccessiveHalvingPruner()
    if args.pruner == "median":
        return pruners.MedianPruner(n_startup_trials=args.n_startup_trials)
    return pruners.NopPruner()


def write_entry(path: Path, env_id: str, study: optuna.Study, command: str) -> str:
    """
    Write the best trial as an entry that can be pasted into ``zoo/hyperparams/proq.yml``.

    :param path: where to write it
    :param env_id: name of the entry
    :param study: with one finished trial at least
    :param command: said in a comment
    :return: what was written
    """
    best = study.best_trial
    about = f"# {best.value:.1%} success on seed {best.user_attrs['seed']}, best of {len(study.trials)} trials:\n"
    about += f"# {command}\n"
    text = about + yaml.safe_dump({env_id: best.user_attrs["entry"]}, sort_keys=False)
    with atomic_file(path) as file:
        file.write(text.encode())
    load_hyperparams(env_id, conf_file=path)  # what is pasted must be accepted
    return text


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    return run(build_parser(), partial(optimize, argv=argv), argv)


if __name__ == "__main__":
    sys.exit(main())
