"""Which agents can be explored: those that were asked for, and the ones that come with the package."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.data.tasks import UntrustedEnvironment, make_task_env
from zoo.exploring.agent import ExploredAgent
from zoo.registry import DEFAULT_ALGO
from zoo.runs.agents import AgentChoice, find_environment, plain_environment

if TYPE_CHECKING:
    from zoo.data.source import DataSource

DEFAULT_ENV = "pointmaze-giant-stitch-v0"
SHIPPED = Path(__file__).parents[1] / "agents" / DEFAULT_ALGO


class Offers:
    """
    Agents by name, loaded when they are first looked at.

    :param chosen: those that were asked for, the first of them is shown; None of them for a shipped one
    :param data: where their datasets lie; nothing is downloaded or generated for a look
    """

    def __init__(self, chosen: Sequence[AgentChoice], data: DataSource) -> None:
        self._data = replace(data, source="file")
        self._choices: dict[str, AgentChoice] = {}
        for choice in chosen:
            self._add(str(choice.file.stem if choice.file else choice.env), _with_environment(choice))
        for path in sorted(SHIPPED.glob("*.zip"), key=lambda path: (path.stem != DEFAULT_ENV, path.stem)):
            name = f"{path.stem} (shipped)" if path.stem in self._choices else path.stem
            self._add(name, AgentChoice(path.stem, file=path, device=chosen[0].device if chosen else "auto"))
        self._loaded: dict[str, ExploredAgent] = {}
        self._loading = threading.Lock()

    def _add(self, name: str, choice: AgentChoice) -> None:
        names = (name, *(f"{name} {number}" for number in range(2, 100)))
        self._choices[next(name for name in names if name not in self._choices)] = choice

    def names(self) -> list[dict[str, str | None]]:
        """Every agent with its world: those of the same one can be compared."""
        return [
            {"name": name, "world": choice.env and plain_environment(choice.env)}
            for name, choice in self._choices.items()
        ]

    def __getitem__(self, name: str) -> ExploredAgent:
        """
        :raises ValueError: if there is none of this name, or it cannot be loaded
        """
        if name not in self._choices:
            raise ValueError(f"there is no agent {name!r:.100} here; choose one of {', '.join(self._choices)}")
        with self._loading:
            if name not in self._loaded:
                self._loaded[name] = self._load(name, self._choices[name])
            return self._loaded[name]

    def _load(self, name: str, choice: AgentChoice) -> ExploredAgent:
        make_env: Any = None
        if choice.env is not None:
            make_env = partial(make_task_env, choice.env, trust_dataset=choice.trust_dataset)
        try:
            env = make_env() if make_env else None
        except UntrustedEnvironment:
            env = make_env = None
        return ExploredAgent(name, choice.load(env), env, make_env, partial(self._achieved_goals, choice.env))

    def _achieved_goals(self, env_id: str | None) -> np.ndarray:
        if env_id is None and self._data.path is None:
            raise ValueError("nothing tells what it learned from; start with --dataset-path FILE")
        try:
            dataset, _ = self._data.load(env_id or "data", progress=False)
        except ValueError as error:
            hint = f"python -m zoo.generate --env {env_id}, or start with --dataset-path FILE"
            raise ValueError(f"its data are not here: {hint}") from error
        return dataset.some_goals().cpu().numpy()

    def close(self) -> None:
        """Close what is open."""
        for agent in self._loaded.values():
            agent.close()


def _with_environment(choice: AgentChoice) -> AgentChoice:
    """Where nobody says in which environment an agent acts, its file may."""
    if choice.env is not None or choice.file is None:
        return choice
    return replace(choice, env=find_environment(choice.file))
