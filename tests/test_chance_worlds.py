"""In worlds with chance of many kinds, plans keep what they promise and are no worse than plans that ignore chance."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pytest
from chance_worlds import ELSEWHERE, SIDE, STEP, Landing, Square, landing_at, navigator, play

from proq_agent.chance.separation import separate_chance

START, GOAL = (2.0, 10.0), (18.0, 2.0)


def everywhere(rate: float):
    return lambda at: np.full(len(at), rate)


def band(width: float, top: float, rate: float):
    """Between start and goal; above its top one can pass."""
    return lambda at: np.where((np.abs(at[:, 0] - 10.0) < width / 2) & (at[:, 1] < top), rate, 0.0)


def disc(radius: float, rate: float):
    return lambda at: np.where(np.linalg.norm(at - 10.0, axis=1) < radius, rate, 0.0)


def slide(at: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Far on in the direction one was going."""
    way = actions / np.maximum(np.linalg.norm(actions, axis=1, keepdims=True), 0.2)
    return np.clip(at + STEP * rng.uniform(10.0, 20.0, (len(at), 1)) * way, 0.0, SIDE)


def lottery(at: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One of three places, one of which nobody can leave."""
    exits = np.array([[18.0, 18.0], [18.0, 3.0], ELSEWHERE])[rng.integers(3, size=len(at))]
    return exits + rng.uniform(-STEP, STEP, at.shape)


class Case(NamedTuple):
    world: Square
    odds: float  #: of the best plan
    steps: tuple[float, float]  #: that plans take, on average, in the case of success
    goal: tuple[float, ...] = GOAL


CASES = {
    "a rare reset, everywhere": Case(Square(everywhere(0.0005), landing_at(START)), 1.0, (65, 85)),
    "a rare trap, everywhere": Case(Square(everywhere(0.0005), landing_at(ELSEWHERE)), 0.9995**70, (65, 80)),
    "a band that resets, with a detour": Case(Square(band(4.0, 16.0, 0.1), landing_at(START)), 1.0, (100, 135)),
    "a trap, with a detour": Case(Square(band(4.0, 16.0, 0.1), landing_at(ELSEWHERE)), 1.0, (100, 135)),
    "a trap, without": Case(Square(band(4.0, SIDE + 1.0, 0.1), landing_at(ELSEWHERE)), 0.9**16, (70, 100)),
    "a band that is not worth the detour": Case(Square(band(1.0, 18.0, 0.03), landing_at(START)), 1.0, (65, 90)),
    "ice, few slides": Case(Square(everywhere(0.05), slide), 1.0, (30, 70)),
    "ice, some slides": Case(Square(everywhere(0.09), slide), 1.0, (20, 60)),
    "ice, many slides": Case(Square(everywhere(0.1), slide), 1.0, (20, 60)),
    "ice, every fifth step a slide": Case(Square(everywhere(0.2), slide), 1.0, (20, 60)),
    "a reset in twenty steps, everywhere": Case(
        Square(everywhere(0.05), landing_at(START)), 1.0, (75, 115), (10.0, 10.0)
    ),
    "a slow portal that one must take": Case(
        Square(disc(1.5, 0.3), landing_at(ELSEWHERE)), 1.0, (30, 60), tuple(ELSEWHERE + 2.0)
    ),
    "a slow portal that one must not take": Case(
        Square(disc(1.5, 0.3), landing_at(ELSEWHERE)), 1.0, (60, 90), (18.0, 10.0)
    ),
    "a portal to try again and again": Case(Square(disc(1.5, 1.0), lottery), 1.0, (80, 200), tuple(ELSEWHERE + 2.0)),
}


SLOW = ("ice, every fifth step a slide",)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in CASES])
def test_promises_are_kept_and_chance_is_never_worse_than_ignored(name: str) -> None:
    case, episodes, limit = CASES[name], 100, 600
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of shares above one percent
        edges = separate_chance(case.world.walks(60_000), seed=0).edges
    knowing, ignoring = navigator(edges), navigator()
    assert knowing.planner.n_nodes - ignoring.planner.n_nodes <= 100
    plan = knowing.plan(np.array(START), np.array(case.goal))
    assert plan.probability == pytest.approx(case.odds, abs=0.05)
    knew, ignored = (play(case.world, plans, START, case.goal, episodes, limit) for plans in (knowing, ignoring))
    error = 3 * np.sqrt(max(case.odds * (1.0 - case.odds), 0.01) / episodes)  # three standard deviations
    assert knew.success.mean() == pytest.approx(plan.probability, abs=error)
    assert knew.success.mean() >= ignored.success.mean() - error
    low, high = case.steps
    assert low < knew.steps[knew.success].mean() < high


@pytest.mark.parametrize(("rate", "landing"), [(0.1, slide), (0.05, landing_at(START)), (0.1, landing_at(START))])
def test_what_happens_often_is_known_with_its_rate(rate: float, landing: Landing) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = Square(everywhere(rate), landing).walks(60_000)
        edges = separate_chance(data, seed=0).edges
    goals = data.achieved_goals.numpy()
    assert sum(edge.rate * edge.contains(goals) for edge in edges).mean() == pytest.approx(rate, rel=0.1)
    assert not any(edge.is_portal for edge in edges)  # of many places some look so by luck
    if rate == 0.05:
        plan = navigator(edges).plan(np.array(START), np.array([10.0, 10.0]))
        assert plan.cost == pytest.approx(((1.0 - rate) ** -32 - 1.0) / rate, rel=0.4)  # all the tries it takes


def test_a_hazard_does_not_make_long_hops_trusted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hazard = separate_chance(CASES["a trap, with a detour"].world.walks(30_000), seed=0).edges
        portal = separate_chance(CASES["a portal to try again and again"].world.walks(30_000), seed=0).edges
    graphs = [navigator(edges).planner.graph for edges in ((), hazard, portal)]
    assert [graph.trusted_hop / graph.max_hop for graph in graphs] == [1.0, 1.0, 2.0]
    assert not graphs[1].blocked.any() and graphs[2].blocked.any()  # one can stand in a region that strikes seldom


def test_a_goal_beyond_the_band_is_not_walked_to_as_if_there_were_none() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fenced, open_ = (
            navigator(separate_chance(CASES[name].world.walks(60_000), seed=0).edges)
            for name in ("a trap, without", "a trap, with a detour")
        )
    beside, beyond = np.array([7.6, 15.0]), np.array([12.4, 15.0])  # a single hop
    assert fenced.plan(beside, beyond).probability == pytest.approx(0.9**16, abs=0.05)
    around = open_.plan(beside, beyond)
    assert around.probability > 0.95 and len(around.nodes) > 1


@pytest.mark.parametrize("end", [START, GOAL], ids=["start", "goal"])
def test_a_gap_in_the_keypoints_is_no_reason_to_cross_a_hazard(end: tuple[float, float]) -> None:
    """No keypoint is within a hop of one end, so that nothing is promised; the way around is taken all the same."""
    case = CASES["a trap, with a detour"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edges = separate_chance(case.world.walks(60_000), seed=0).edges
    plans = navigator(edges, without=lambda at: np.linalg.norm(at - end, axis=1) < 6.0)
    plan = plans.plan(np.array(START), np.array(GOAL))
    assert plan.fallback and plan.probability == 0.0
    assert play(case.world, plans, START, GOAL, 50, 600).success.mean() > 0.9
