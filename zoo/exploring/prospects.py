"""What lies ahead on a plan, chance included: the way to the goal or to a portal, and the ways on from its exits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from proq_agent.planning.navigator import Navigator, Plan

MAX_LEGS = 24  # beyond that nobody can follow
SWEEPS = 200  # over portals that lead to each other


class Leg(NamedTuple):
    """The way from one place to the goal, or to the first entrance at which chance decides."""

    points: np.ndarray  #: ``[n, goal_dim]`` with both ends
    steps: float  #: sum of the learned distances
    entrance: int | None  #: number of the chance edge at its end; None for the goal
    trusted: bool  #: no hop is longer than planning allows
    odds: float  #: of the exit it begins at; 1 for the first


class Prospect(NamedTuple):
    """A plan with all that may follow."""

    plan: Plan
    legs: list[Leg]  #: the first begins at the start, the others at exits
    steps: float  #: expected until the goal, if it is reached; inf if it never is


def look_ahead(navigator: Navigator, start: np.ndarray, goal: np.ndarray) -> Prospect:
    """
    Plan, and plan on from wherever chance may lead.

    :param navigator: makes the plans
    :param start: ``[goal_dim]``
    :param goal: ``[goal_dim]``
    :raises ValueError: if one is not a finite point of goal space
    """
    plan = navigator.plan(start, goal)
    legs = [_leg(navigator, start, plan, 1.0)]
    after: dict[int, list[Leg]] = {}
    waiting = [legs[0].entrance]
    nodes, planner = navigator.planner.snapshot.chance.nodes, navigator.planner
    while waiting:
        entrance = waiting.pop()
        if entrance is None or entrance in after or len(legs) >= MAX_LEGS:
            continue
        after[entrance] = []
        for exit_ in np.flatnonzero(nodes.outcomes[entrance]):
            place = planner.points[exit_].astype(np.float32)
            leg = _leg(navigator, place, navigator.plan(place, goal), float(nodes.outcomes[entrance, exit_]))
            after[entrance].append(leg)
            waiting.append(leg.entrance)
        legs += after[entrance]
    return Prospect(plan, legs, expected_steps(legs[0], after, np.broadcast_to(nodes.waits, len(nodes.entrances))))


def _leg(navigator: Navigator, start: np.ndarray, plan: Plan, odds: float) -> Leg:
    planner = navigator.planner
    places = planner.goal_map.place(np.concatenate([np.asarray(start, dtype=np.float32)[None], plan.points]))
    hops = np.diagonal(planner.goal_map.pairwise(places, places), 1)
    found = np.flatnonzero(planner.snapshot.chance.nodes.entrances == plan.nodes[-1])
    return Leg(places.points, float(hops.sum()), int(found[0]) if len(found) else None, not plan.fallback, odds)


def expected_steps(first: Leg, after: dict[int, list[Leg]], waits: np.ndarray) -> float:
    """
    Steps on average over the cases in which the goal is reached by trusted hops.

    :param first: from the start
    :param after: from the exits of each entrance that may be met
    :param waits: ``[entrances]`` steps until one is taken away
    """
    odds, steps = dict.fromkeys(after, 0.0), dict.fromkeys(after, 0.0)  # of success, and then on average times the odds

    def outcome(leg: Leg) -> tuple[float, float]:
        if not leg.trusted:
            return 0.0, 0.0
        if leg.entrance is None:
            return 1.0, leg.steps
        reached = odds.get(leg.entrance, 0.0)
        return reached, leg.steps * reached + steps.get(leg.entrance, 0.0)

    for _ in range(SWEEPS if after else 0):
        for entrance, legs in after.items():
            outcomes = [(leg.odds, *outcome(leg)) for leg in legs]
            odds[entrance] = sum(p * reached for p, reached, _ in outcomes)
            steps[entrance] = sum(p * (float(waits[entrance]) * reached + s) for p, reached, s in outcomes)
    reached, total = outcome(first)
    return total / reached if reached > 0.0 else np.inf
