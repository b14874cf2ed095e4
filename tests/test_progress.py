"""Who gets no closer to a goal for a while is stuck."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from proq_agent.planning.progress import MAX_SNAGS, Progress, watch


class Watch:
    """Feeds costs to go to the watch."""

    def __init__(self, patience: int, n: int = 1) -> None:
        self.patience, self.version = patience, 0
        self.goals, self.arrived = np.full((n, 2), 3.0, np.float32), np.zeros(n, dtype=bool)
        self.progress: Progress | None = None

    def __call__(self, *costs: float, episode_start: Any = None) -> list[int]:
        """The rows that are stuck."""
        known = Progress.of(self.progress, self.goals, self.version, 2, episode_start)
        self.progress, stuck = watch(self.patience, np.array(costs), self.arrived, known)
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
        watch.progress = Progress.begin(np.zeros((3, 2)), 0, 2)
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


HERE, THERE = np.array([1.0, 2.0]), np.array([3.0, 4.0])


def test_each_agent_remembers_where_it_was_stuck():
    goals = np.zeros((3, 2), np.float32)
    progress = Progress.begin(goals, 0, 2)
    assert not len(progress.snagged)
    progress = progress.with_snag(2, HERE, THERE, 5.0).with_snag(0, THERE, HERE, 6.0).with_snag(2, THERE, HERE, 7.0)
    assert progress.snagged.tolist() == [0, 2]
    assert progress.snags_of(2).tolist() == [[1.0, 2.0, 3.0, 4.0, 5.0], [3.0, 4.0, 1.0, 2.0, 7.0]]
    again = Progress.of(progress, goals, 0, 2, np.array([False, False, True]))
    assert again.snagged.tolist() == [0] and len(again.snags_of(2)) == 0
    assert Progress.of(progress, goals + 1, 1, 2).snagged.tolist() == [0, 2]


@pytest.mark.parametrize(
    "snags",
    [
        np.zeros((1, 1, 4)),
        np.zeros((2, 1, 5)),
        np.zeros((1, MAX_SNAGS + 1, 5)),
        np.full((1, 1, 5), np.inf),
        np.full((1, 1, 5), 1e300),
        np.array([[[0.0, 0.0, np.nan, 0.0, 1.0]]]),
        np.array([[[0.0, 0.0, 0.0, 0.0, -1.0]]]),
        np.array([[[np.nan] * 5, [0.0] * 5]]),
        np.array([[["a"] * 5]]),
    ],
)
def test_snags_that_nobody_can_have_met_are_refused(snags):
    progress = Progress.begin(np.zeros((1, 2)), 0, 2)._replace(snags=snags)
    with pytest.raises(ValueError, match="what the last predict"):
        Progress.of(progress, np.zeros((1, 2)), 0, 2)


@pytest.mark.parametrize(
    ("part", "value"),
    [("goals", np.nan), ("goals", np.inf), ("best", np.nan), ("best", -np.inf), ("stalled", np.nan),
     ("stalled", np.inf), ("stalled", -1), ("version", np.nan), ("version", -1)],
)  # fmt: skip
def test_progress_that_nobody_can_have_made_is_refused(part, value):
    made = Progress.begin(np.zeros((2, 2)), 0, 2)
    changed = getattr(made, part).astype(np.float64)
    changed[1] = value
    Progress.of(made, np.zeros((2, 2)), 0, 2)
    with pytest.raises(ValueError, match="what the last predict"):
        Progress.of(made._replace(**{part: changed}), np.zeros((2, 2)), 0, 2)


@pytest.mark.parametrize("starts", ["x", np.array([None, None]), np.zeros(3), np.zeros((2, 1))])
@pytest.mark.parametrize("n_before", [0, 1, 2])
def test_starts_of_episodes_are_checked_whatever_was_before(starts, n_before):
    before = Progress.begin(np.zeros((n_before, 2)), 0, 2) if n_before else None
    with pytest.raises(ValueError, match="episode_start"):
        Progress.of(before, np.zeros((2, 2)), 0, 2, starts)
    assert Progress.of(before, np.zeros((2, 2)), 0, 2, True).stalled.tolist() == [0, 0]
