"""What determines a training, and the agent that it begins or goes on with."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnasium import Env

from proq_agent.common.minari_files import named_environment
from zoo.cli import check_counts
from zoo.config import all_hyperparams, load_hyperparams
from zoo.data.catalogue import MINARI
from zoo.registry import DEFAULT_ALGO, algorithm
from zoo.runs.agents import check_environment
from zoo.runs.folder import run_of

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.common.offline import OfflineAlgorithm
    from zoo.data.load import DatasetInfo


def environment_id(env_id: str) -> str:
    """The id by which settings are looked up: a Minari dataset knows its environment."""
    named = named_environment(env_id.removeprefix(MINARI)) if env_id.startswith(MINARI) else None
    return env_id if named is None else named.id


@dataclass(frozen=True)
class Experiment:
    """
    A training, as far as its result depends on it. The hyperparameter file is read once: an edit while it trains does
    not change what it is taken for.

    :param env: id of the dataset
    :param algo: name of the algorithm
    :param seed: None for 0, or the seed of the agent that it goes on with
    :param n_timesteps: updates in the end; None for those of the preset, or that the agent was begun for
    :param preset: see :func:`zoo.config.load_hyperparams`
    :param conf_file: likewise
    :param overrides: likewise
    :param trained_agent: file of an agent to go on with, by its own hyperparameters
    :param device: to learn on
    """

    env: str
    algo: str = DEFAULT_ALGO
    seed: int | None = None
    n_timesteps: int | None = None
    preset: str = "tuned"
    conf_file: Path | None = None
    overrides: tuple[str, ...] = ()
    trained_agent: Path | None = None
    device: str = "auto"

    @cached_property
    def _entry(self) -> tuple[dict[str, Any], int | None]:
        name = environment_id(self.env)
        return load_hyperparams(name, self.preset, self.conf_file, self.overrides, self.algo)

    @property
    def hyperparams(self) -> dict[str, Any]:
        """Those of the file, keyword arguments of the constructor."""
        return self._entry[0]

    @property
    def total(self) -> int | None:
        """Number of updates of an agent that begins anew; None if it follows from the data."""
        return self.n_timesteps or self._entry[1]

    def check(self) -> None:
        """
        Find out what is wrong before anything that takes time.

        :raises ValueError: naming it
        """
        if self.trained_agent is None:
            all_hyperparams(self.algo, self.hyperparams)
            check_counts(n_timesteps=self.total)
            return
        if self.overrides or self.conf_file or self.preset != "tuned":
            raise ValueError(
                "-i goes on with the agent's own hyperparameters; leave out -params, --conf-file and --preset"
            )
        check_environment(self._agent_file(), self.env)

    def _agent_file(self) -> Path:
        assert self.trained_agent is not None
        given = self.trained_agent.expanduser()
        for path in (given, Path(f"{given}.zip")):
            if path.is_file():
                return path
        raise ValueError(f"there is no agent {given}")

    def build(
        self, env: Env | None, dataset: GoalDataset, info: DatasetInfo, verbose: int = 0
    ) -> tuple[OfflineAlgorithm, int]:
        """
        The agent, with its dataset.

        :param env: has its spaces; without one they are those of the dataset
        :param dataset: what it learns from
        :param info: where that came from
        :param verbose: of the agent, which tells what it chooses from the data
        :return: the agent, and the number of updates that it is to have had in the end
        """
        if self.trained_agent is not None:
            model, total = self._resume(env, info)
            model.verbose = verbose
            model.set_dataset(dataset)
            return model, total
        model = algorithm(self.algo)(
            dataset=dataset,
            observation_space=None if env is None else env.observation_space,
            action_space=None if env is None else env.action_space,
            seed=self.seed or 0,
            device=self.device,
            verbose=verbose,
            **self.hyperparams,
        )
        return model, self.total or model.enough_updates()

    def _resume(self, env: Env | None, info: DatasetInfo) -> tuple[OfflineAlgorithm, int]:
        path = self._agent_file()
        model = algorithm(self.algo).load(path, device=self.device)
        if not model.training_restored:
            raise ValueError(f"{path} is only good to act with: it was saved without the state of its training")
        for name in ("observation_space", "action_space"):
            if env is not None and getattr(model, name) != getattr(env, name):
                raise ValueError(f"{path} was trained in another environment than {self.env}: its {name} differs")
        total = self.n_timesteps or model._total_timesteps
        if total < model.num_timesteps:
            raise ValueError(f"{path} has had {model.num_timesteps} of {total} updates; give a larger -n")
        if total != model._total_timesteps:
            _note(f"it was begun for {model._total_timesteps} updates; the schedules are stretched to {total}")
        agent_run = run_of(path)
        if agent_run and (agent_run.read_config().get("dataset") or {}).get("sha256") != info.sha256:
            _note("this is not the dataset file that the agent was trained on so far")
        return model, total


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
