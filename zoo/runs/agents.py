"""Which trained agent a command means: one of a run's, any file, or the one that comes with the package."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proq_agent.common.files import env_name
from wrappers.goal_dict import GoalDict
from wrappers.make import dataset_env_ids
from zoo.data.catalogue import ROBOTICS_IDS
from zoo.registry import DEFAULT_ALGO, algorithm
from zoo.runs.folder import RunFolder, find_run, list_runs, run_of

if TYPE_CHECKING:
    from proq_agent.common.offline import OfflineAlgorithm


@dataclass(frozen=True)
class AgentChoice:
    """
    An agent: the final one of the latest run unless something else is said, or without runs the one that is shipped.

    :param env: environment or dataset id; None only with a file
    :param algo: name of the algorithm
    :param log_folder: root of all runs
    :param file: an agent file from anywhere
    :param exp_id: number of the run; 0 for the latest
    :param best: the best agent of the run
    :param checkpoint: the run's checkpoint after so many updates
    :param last_checkpoint: the run's last checkpoint
    :param device: where to put the agent
    :param trust_dataset: build what a Minari dataset describes, see :func:`zoo.data.tasks.make_task_env`
    """

    env: str | None
    algo: str = DEFAULT_ALGO
    log_folder: Path = Path("logs")
    file: Path | None = None
    exp_id: int = 0
    best: bool = False
    checkpoint: int | None = None
    last_checkpoint: bool = False
    device: str = "auto"
    trust_dataset: bool = False

    def load(self, env: GoalDict | None = None) -> OfflineAlgorithm:
        """
        Load the agent.

        :param env: if given, the agent's spaces must be those of this environment
        :raises ValueError: if there is no such agent, or it is one for another environment
        """
        path = self.path()
        if path is not None:
            if self.env is not None:
                check_environment(path, self.env)
            return algorithm(self.algo).load(path, env=env, device=self.device)
        assert self.env is not None
        agent = shipped_agent(self.env, self.algo, env=env, device=self.device)
        if agent is None:
            raise ValueError(
                f"there is no trained agent for {self.env}, neither in {self.log_folder / self.algo} nor in the "
                f"package; train one: python -m zoo.train --algo {self.algo} --env {self.env}"
            )
        return agent

    def path(self) -> Path | None:
        """
        The agent's file; None if nobody asked for a certain one and there is no run.

        :raises ValueError: if there is no such agent
        """
        if self.file is not None:
            return self.file
        if self.env is None:
            raise ValueError("which agent? give --env ID or --agent FILE")
        any_will_do = not (self.exp_id or self.best or self.checkpoint is not None or self.last_checkpoint)
        if any_will_do and not list_runs(self.log_folder, self.algo, self.env):
            return None
        run = find_run(self.log_folder, self.algo, self.env, self.exp_id)
        if self.best:
            path = run.best_model
        elif self.checkpoint is not None:
            path = run.checkpoint(self.checkpoint)
        elif self.last_checkpoint:
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


def shipped_agent(env_id: str, algo: str = DEFAULT_ALGO, **kwargs: Any) -> OfflineAlgorithm | None:
    """
    Load the agent that comes with the package.

    :param env_id: environment or dataset id
    :param algo: name of the algorithm
    :param kwargs: of the algorithm's ``load``
    :return: ``None`` if there is none for this id
    """
    shipped = files("zoo") / "agents" / algo / f"{env_name(env_id)}.zip"
    if not shipped.is_file():
        return None
    with as_file(shipped) as file:
        return algorithm(algo).load(file, **kwargs)


def load_map(env_id: str, file: str, device: str = "auto") -> Any:
    """
    The ProQ agent whose plan others follow.

    :param env_id: environment or dataset id
    :param file: its file; empty for the agent that comes with the package
    :param device: where to put it
    :raises ValueError: if there is none, or it is one for another environment
    """
    if file:
        check_environment(Path(file), env_id)
        return algorithm(DEFAULT_ALGO).load(file, device=device)
    agent = shipped_agent(env_id, device=device)
    if agent is None:
        raise ValueError(f"no {DEFAULT_ALGO} agent for {env_id} comes with the package; give --keypoints FILE")
    return agent


def check_environment(path: Path, env_id: str) -> None:
    """
    Refuse an agent of another environment; one of another dataset of the same environment may act there.

    :param path: its file; where nothing says what it was trained on, it is accepted
    :param env_id: environment or dataset id
    :raises ValueError: naming both
    """
    trained_on = find_environment(path)
    if trained_on is not None and plain_environment(trained_on) != plain_environment(env_id):
        raise ValueError(f"{path} was trained on {trained_on}, not on {env_id}")


def find_environment(path: Path) -> str | None:
    """
    What an agent was trained on, if the run in whose folder it lies or its name tells.

    :param path: its file
    """
    known = dataset_env_ids()
    if agent_run := run_of(path):
        return agent_run.read_config().get("env")
    return path.stem if path.stem in {*known, *known.values(), *ROBOTICS_IDS} else None


def plain_environment(env_id: str) -> str:
    """The environment of a dataset, whatever its tasks, rewards, starts and form of goals."""
    known, name = dataset_env_ids(), env_id.replace("-oraclerep", "")
    return re.sub(r"-singletask(-task\d+)?|(_Diverse_GR?)?(Dense)?(?=-v\d+$)", "", known.get(name, name))
