"""The navigator on open ground: what it decides, what it keeps of goals, and how it reroutes who is stuck."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from straight_map import RING, StraightMap, straight_navigator

from proq_agent.planning.navigator import Navigator
from proq_agent.planning.progress import MAX_SNAGS

CORRIDOR = np.stack([np.arange(0.0, 60.0, 4.0), np.zeros(15)], axis=1)


def corridor(**settings: Any) -> Navigator:
    return straight_navigator(CORRIDOR, **({"max_hop": 5.0, "reach": 0.5} | settings))


def points(*xs: float) -> np.ndarray:
    return np.array([[x, 0.0] for x in xs], dtype=np.float32)


def heads_for(navigator: Navigator, achieved: np.ndarray, desired: np.ndarray, progress: Any = None) -> tuple[Any, Any]:
    """Where the agents step to, and the progress."""
    decision, progress = navigator.decide(achieved, desired, progress)
    return achieved + navigator.act(achieved, decision, True, None), progress


def test_agents_head_for_the_next_keypoint_and_at_last_for_the_goal():
    navigator = corridor()
    targets, _ = heads_for(navigator, points(1.0, 30.0, 21.0), points(50.0, 2.0, 24.5))
    assert_allclose(targets, points(4.0, 28.0, 24.5))
    assert_allclose(heads_for(navigator, points(1.0), points(50.0))[0], points(4.0))


def test_a_plan_lists_all_points_to_the_goal():
    plan = corridor().plan(points(1.0)[0], points(11.0)[0])
    assert plan.nodes == [1, 2, 15] and not plan.fallback and not plan.arrived
    assert_array_equal(plan.points, points(4.0, 8.0, 11.0))
    assert plan.cost == pytest.approx(10.0) and plan.probability == 1.0
    assert corridor().plan(points(1.0)[0], points(1.2)[0]).arrived


@pytest.mark.parametrize("bad", [np.zeros(3), np.array([np.nan, 0.0]), np.zeros((1, 2))])
def test_a_plan_needs_points(bad):
    for start, goal in ((bad, np.zeros(2)), (np.zeros(2), bad)):
        with pytest.raises(ValueError, match="finite point with 2 coordinates"):
            corridor().plan(start, goal)


# -------------------------------------------------------------------------------------------------- known goals


def n_placed(navigator: Navigator) -> int:
    assert isinstance(navigator.planner.goal_map, StraightMap)
    return navigator.planner.goal_map.n_placed


def decided(navigator: Navigator, achieved: np.ndarray, desired: np.ndarray) -> int:
    """Goals that had to be looked at; the decision must be that of a navigator without a past."""
    before = n_placed(navigator)
    decision, _ = navigator.decide(achieved, desired)
    looked_at = n_placed(navigator) - before - len(achieved)
    fresh, _ = navigator.fork().decide(achieved, desired)
    for one, other in zip(decision.hops, fresh.hops, strict=True):
        assert_array_equal(one, other)
    assert_array_equal(decision.goals.places.points, desired)
    return looked_at


def test_of_a_batch_only_goals_that_change_are_looked_at():
    navigator, achieved, desired = corridor(), points(1.0, 30.0, 50.0, 20.0), points(50.0, 2.0, 3.0, 44.0)
    assert decided(navigator, achieved, desired) == 4
    assert decided(navigator, achieved[::-1], desired) == 0
    desired[[1, 3]] = points(33.0, 9.0)  # in place, as an environment might
    assert decided(navigator, achieved, desired) == 2
    assert decided(navigator, achieved, desired) == 0
    desired[[1, 3]] = desired[[3, 1]]
    assert decided(navigator, achieved, desired) == 2
    assert decided(navigator, achieved[:2], desired[:2]) == 2  # as many others
    assert decided(navigator, achieved, desired) == 4


def test_a_single_agent_and_plans_do_not_make_a_batch_forget():
    navigator, achieved, desired = corridor(), points(1.0, 30.0), points(50.0, 2.0)
    assert decided(navigator, achieved, desired) == 2
    assert decided(navigator, points(7.0), points(20.0)) == 1
    navigator.plan(points(7.0)[0], points(28.0)[0])
    assert decided(navigator, achieved, desired) == 0
    assert decided(navigator, points(7.0), points(28.0)) == 0


def test_what_is_blocked_makes_all_goals_be_looked_at_anew():
    navigator, achieved, desired = corridor(), points(1.0, 30.0), points(50.0, 2.0)
    assert decided(navigator, achieved, desired) == 2
    handle = navigator.planner.block(nodes=4)
    assert decided(navigator, achieved, desired) == 2
    navigator.planner.unblock(handle)
    assert decided(navigator, achieved, desired) == 2


def test_a_fork_shares_the_graph_alone():
    navigator = corridor()
    other = navigator.fork()
    assert decided(navigator, points(1.0), points(50.0)) == 1
    assert decided(other, points(1.0), points(20.0)) == 1
    assert decided(navigator, points(1.0), points(50.0)) == 0
    other.planner.block(nodes=1)
    assert navigator.planner.blocked[1]


class Interrupted:
    """At every call of the map, and when it has stored goals, another thread may take its turn: here it always does."""

    def __init__(self, navigator: Navigator, n_others: int) -> None:
        self.navigator, self.is_turn = navigator, False
        self.others = points(50.0, 9.0, 26.0)[:n_others], points(3.0, 44.0, 20.0)[:n_others]

    def take_turn(self) -> None:
        if not self.is_turn:
            self.is_turn = True
            self.navigator.decide(*self.others)
            self.navigator.planner.block(nodes=9, box=([1.5, -1.0], [2.5, 1.0]))
            self.navigator.decide(*self.others)
            self.is_turn = False

    def interrupt(self, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
        original = getattr(StraightMap, method)

        def interrupted(goal_map: StraightMap, *args: Any) -> Any:
            self.take_turn()
            result = original(goal_map, *args)
            self.take_turn()
            return result

        monkeypatch.setattr(StraightMap, method, interrupted)

    def interrupt_storing(self) -> None:
        class Stored(dict):
            def __setitem__(_, single: bool, goals: Any) -> None:
                super().__setitem__(single, goals)
                self.take_turn()

        self.navigator._goals = Stored(self.navigator._goals)


@pytest.mark.parametrize("n_others", [1, 2, 3])
@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("moment", ["place", "pairwise", "join", "targets", "distances", "stored"])
def test_what_other_threads_do_in_between_changes_no_decision(monkeypatch, moment, is_known, n_others):
    navigator, achieved, desired = corridor(), points(1.0, 30.0), points(50.0, 18.0)
    expected, _ = navigator.fork().decide(achieved, desired)
    if is_known:
        navigator.decide(achieved, points(50.0, 2.0))  # of one of the goals
    interrupted = Interrupted(navigator, n_others)
    if moment == "stored":
        interrupted.interrupt_storing()
    else:
        interrupted.interrupt(monkeypatch, moment)
    decision, _ = navigator.decide(achieved, desired)
    for one, other in zip(decision.hops, expected.hops, strict=True):
        assert_array_equal(one, other)
    assert_array_equal(decision.goals.places.points, desired)


# ------------------------------------------------------------------------------------------------- who is stuck


def ring(**settings: Any) -> Navigator:
    return straight_navigator(RING, **({"max_hop": 11.0, "reach": 1.0, "patience": 3} | settings))


START, GOAL = np.array([[0.0, 0.0]], np.float32), np.array([[20.0, 10.0]], np.float32)


def test_who_is_stuck_goes_another_way_at_once():
    navigator, progress = ring(), None
    targets = []
    for _ in range(4):
        target, progress = heads_for(navigator, START, GOAL, progress)
        targets.append(target[0].tolist())
    assert targets == [[10.0, 0.0]] * 3 + [[0.0, 10.0]]  # in the very step in which patience ends
    assert heads_for(navigator, START, GOAL, progress)[0].tolist() == [[0.0, 10.0]]  # and it is remembered
    elsewhere = GOAL + np.array([0.0, -1.0], np.float32)
    assert heads_for(navigator, START, elsewhere, progress)[0].tolist() == [
        [0.0, 10.0]
    ]  # on the way to other goals, too
    assert heads_for(navigator, START, GOAL)[0].tolist() == [[10.0, 0.0]]  # but by nobody else


def test_who_is_stuck_on_the_straight_way_looks_for_another():
    navigator, progress = ring(direct=True), None
    for _ in range(3):
        target, progress = heads_for(navigator, START, GOAL, progress)
        assert target.tolist() == GOAL.tolist()
    target, progress = heads_for(navigator, START, GOAL, progress)
    assert target.tolist() == [[10.0, 0.0]]
    assert heads_for(navigator, START, GOAL)[0].tolist() == GOAL.tolist()  # nobody else does
    navigator.planner.block(box=([5.0, -1.0], [15.0, 1.0]))  # what is closed is so for who was stuck, too
    assert heads_for(navigator, START, GOAL, progress)[0].tolist() == [[0.0, 10.0]]


def test_an_agent_that_begins_anew_forgets_where_it_was_stuck():
    navigator, progress = ring(), None
    for _ in range(4):
        _, progress = navigator.decide(START, GOAL, progress)
    decision, progress = navigator.decide(START, GOAL, progress, np.array([True]))
    assert navigator.points(decision).tolist() == [[10.0, 0.0]] and not len(progress.snagged)


def test_following_a_plan_reroutes_as_deciding_does():
    navigator, progress = ring(), None
    for _ in range(4):
        plan, progress = navigator.follow(START[0], GOAL[0], progress)
    assert plan.nodes == [7, 6, 5, 4, 8]


def test_of_many_agents_each_knows_its_own_snags():
    """What a batch decides is what each of its agents would decide alone."""
    navigator, alone, goals = ring(), [None, None, None], np.repeat(GOAL, 3, axis=0)
    progress: Any = None
    for step in range(9):
        achieved = (START + np.array([[0.0, 0.0], [2.0 * step, 0.0], [0.0, 1.0]])).astype(np.float32)
        together, progress = navigator.decide(achieved, goals, progress)
        for row, own in enumerate(alone):
            decision, alone[row] = ring().decide(achieved[row : row + 1], GOAL, own)
            assert decision.hops.target[0] == together.hops.target[row]
            assert decision.hops.cost[0] == pytest.approx(together.hops.cost[row])
    assert progress.snagged.tolist() == [0, 2]
    assert navigator.planner.version == 0


def test_what_is_blocked_holds_for_who_was_stuck_too():
    navigator, progress = ring(), None
    for _ in range(4):
        _, progress = navigator.decide(START, GOAL, progress)
    navigator.planner.block(nodes=6)
    assert heads_for(navigator, START, GOAL, progress)[0].tolist() == [[10.0, 0.0]]


def test_without_patience_the_map_is_trusted_for_ever():
    navigator = ring(patience=None)
    assert [heads_for(navigator, START, GOAL, None)[0].tolist() for _ in range(9)] == [[[10.0, 0.0]]] * 9
    assert navigator.planner.version == 0
    assert navigator.decide(START, GOAL, ("passed", "on"))[1] == ("passed", "on")


def test_who_has_arrived_is_never_stuck():
    navigator, progress = ring(), None
    for _ in range(9):
        _, progress = navigator.decide(GOAL + 0.3, GOAL, progress)
    assert navigator.planner.version == 0


def test_penalties_are_a_hop_at_least_and_the_longest_way_at_most():
    navigator, progress = ring(patience=1), None
    planner = navigator.planner
    for _ in range(200):  # it cannot move at all
        _, progress = navigator.decide(START, GOAL, progress)
    costs = progress.snags_of(0)[:, -1]
    assert len(costs) == MAX_SNAGS
    assert max(costs) == planner.graph.longest_way  # else they would double again and again
    progress = None
    for _ in range(2):
        _, progress = navigator.decide(GOAL + np.array([3.0, 0.0], np.float32), GOAL, progress)
    assert progress.snags_of(0)[:, -1].tolist() == [11.0]
