"""Who gets no closer to a goal for a while is stuck."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proq_agent.planning.progress import Progress, watch


class Watch:
    """Feeds costs to go to the watch."""

    def __init__(self, patience: int, n: int = 1) -> None:
        self.patience, self.version = patience, 0
        self.goals, self.arrived = np.full((n, 2), 3.0, np.float32), np.zeros(n, dtype=bool)
        self.progress: Progress | None = None

    def __call__(self, *costs: float, episode_start: Any = None) -> list[int]:
        """The rows that are stuck."""
        self.progress, stuck = watch(
            self.patience, self.version, self.goals, np.array(costs), self.arrived, self.progress, episode_start
        )
        return stuck.tolist()


def test_an_agent_is_stuck_after_patience_steps_without_a_lower_cost():
    watch = Watch(patience=3)
    assert [watch(c) for c in (50.0, 49.9, 51.0, 50.0, 50.0)] == [[], [], [], [0], [0]]


def test_who_has_arrived_is_not_stuck():
    watch = Watch(patience=2)
    watch.arrived[:] = True
    assert not any(watch(5.0) for _ in range(9))


def test_who_has_no_way_is_not_stuck():
    watch = Watch(patience=2)
    assert not any(watch(np.inf) for _ in range(9))


def test_progress_resets_the_count():
    watch = Watch(patience=2)
    assert not any(watch(c) for c in (50.0, 50.0, 48.0, 48.0, 46.0, 46.0, 44.0))


@pytest.mark.parametrize("reason", ["episode", "goal", "graph", "number"])
def test_a_row_begins_anew_with_its_episode_goal_or_graph(reason):
    watch = Watch(patience=2, n=2)
    watch(50.0, 50.0)
    watch(50.0, 50.0)
    if reason == "goal":
        watch.goals = watch.goals + 1.0
    if reason == "graph":
        watch.version += 1
    if reason == "number":
        watch.progress = Progress(np.zeros((3, 2)), *np.zeros((3, 3)))
    assert not watch(60.0, 60.0, episode_start=np.array([True, True]) if reason == "episode" else None)
    assert not watch(60.0, 60.0)
    assert watch(60.0, 50.0) == [0]


def test_only_the_row_that_is_stuck_is_named():
    watch = Watch(patience=2, n=2)
    assert [watch(50.0, cost) for cost in (50.0, 40.0, 30.0)] == [[], [], [0]]


@pytest.mark.parametrize("patience", [1, 2])
def test_goals_that_change_in_place_are_noticed(patience):
    watch = Watch(patience)
    for _ in range(patience):
        watch(50.0)
    watch.goals += 1.0
    assert not watch(50.0)
