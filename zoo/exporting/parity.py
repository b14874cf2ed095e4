"""Whether an exported agent does what the agent does, and how long both take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoo.exporting.folder import random_observations, targets
from zoo.figures.learned_map import has_map
from zoo.portable.networks import Networks
from zoo.portable.runtime import Runtime

Predict = Callable[[dict[str, np.ndarray]], Any]


class Parity(NamedTuple):
    """Over ``n`` random states and goals."""

    n: int
    other_targets: int  #: how often the exported agent heads for another place
    error: float  #: the largest of an action


def compare(agent: Any, folder: Path, n: int = 1000, seed: int = 0) -> Parity:
    """
    Compare what both head for, if they plan, and their deterministic actions.

    :param agent: the one that was exported
    :param folder: where to
    :param n: number of states and goals
    :param seed: of their choice
    """
    batch = random_observations(agent, n, seed)
    expected, _ = agent.predict(batch, deterministic=True)
    seen, other_targets = _rows(batch), 0
    if has_map(agent):
        runtime = Runtime(folder)
        wanted = targets(agent, batch)
        nodes = [runtime.decide(observation)[0] for observation in seen]
        actions = [runtime.act(*each) for each in zip(seen, nodes, strict=True)]
        # Two keypoints may lie on the same state: the places count.
        places = np.vstack([agent.planner.points, np.full_like(agent.planner.points[:1], np.nan)])
        elsewhere = ((places[nodes] - places[wanted]) != 0.0).any(axis=1)  # NaN: one of them is the goal
        other_targets = int(np.count_nonzero((nodes != wanted) & elsewhere))
    else:
        actions = [*map(Networks(folder).head, seen)]
    return Parity(n, other_targets, float(np.abs(np.array(actions) - expected).max()))


def latencies(agent: Any, folder: Path, n: int = 100) -> dict[str, tuple[float, float]]:
    """
    Median seconds that a step of one agent takes, before and after the export: towards a goal that stays, and one that
    is new.

    :param agent: the one that was exported
    :param folder: where to
    :param n: number of steps
    """
    batch = random_observations(agent, n, seed=2)
    exported: Predict = Runtime(folder).predict if has_map(agent) else Networks(folder).head

    def predict(observation: dict[str, np.ndarray]) -> Any:
        return agent.predict(observation, deterministic=True)

    stays = batch | {"desired_goal": np.repeat(batch["desired_goal"][:1], n, axis=0)}
    return {
        name: (_median(predict, steps), _median(exported, steps))
        for name, steps in (("goal that stays", stays), ("new goal", batch))
    }


def _rows(batch: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    return [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]


def _median(predict: Predict, batch: dict[str, np.ndarray]) -> float:
    seconds = []
    for observation in _rows(batch):
        begun = time.perf_counter()
        predict(observation)
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds[1:])  # the first is slower
