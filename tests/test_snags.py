"""One bump into a wall tells about all hops through it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from straight_map import StraightMap, apart

from proq_agent.planning.graph import KeypointGraph
from proq_agent.planning.snags import Snags

NODES = np.arange(10.0)[:, None]
MAP = StraightMap(NODES)
EDGES = KeypointGraph(apart(NODES, NODES), max_hop=4.0).edges


def snags(place: object, target: object = None, cost: float = np.inf, slack: float = 0.5, nodes=NODES) -> Snags:
    places, targets = (
        MAP.place(np.array(point, dtype=float).reshape(-1, nodes.shape[1]))
        for point in (place, place if target is None else target)
    )
    return Snags.at(MAP, MAP.place(nodes), slack, places, targets, cost)


def penalties(of: Snags, starts: object, ends: object) -> np.ndarray:
    """Of each hop from a start to an end."""
    starts, ends = (np.array(points, dtype=float).reshape(-1, of.places.points.shape[1]) for points in (starts, ends))
    leaving, ahead = of.leaving(MAP.place(starts)), of.ahead(MAP.place(ends))
    return of.penalties(apart(starts, ends), leaving[:, None], ahead)


def test_the_edges_that_lead_past_in_the_direction_of_the_target_are_found():
    past = {(i, j) for i in range(10) for j in range(10) if i <= 4 < j}
    found = set(map(tuple, snags(4.2, 7.0, cost=100.0).edges_past(EDGES).tolist()))
    assert found == past


def test_hops_from_states_and_to_goals_pay_alike():
    extra = penalties(snags(4.2, 7.0, cost=100.0), [3.7, 4.2, 6.1], [2.0, 5.5, 9.5])
    assert_array_equal(extra, [[0, 100, 100], [0, 100, 100], [0, 0, 0]])


@pytest.mark.parametrize(("target", "end", "pays"), [(7.0, 4.6, False), (7.0, 4.8, True), (4.8, 4.6, True)])
def test_what_is_beside_the_place_and_less_than_half_as_far_as_the_target_is_no_way_past(target, end, pays):
    """Within the slack of 0.5; an agent that does not even get there has it as its next target."""
    assert penalties(snags(4.2, target, cost=7.0), [[3.9]], [[end]]) == (7.0 if pays else 0.0)


@pytest.mark.parametrize(("detour", "pays"), [(0.0, True), (0.49, True), (0.51, False)])
def test_a_place_lies_on_a_hop_if_going_by_it_takes_at_most_the_slack(detour, pays):
    # A place beside the middle of a hop of length 10, so far that the way by it is 10 + detour long.
    aside = np.sqrt((5.0 + detour / 2) ** 2 - 25.0)
    of = snags([5.0, aside], [9.0, aside], cost=7.0, nodes=np.zeros((1, 2)))
    assert penalties(of, [[0.0, 0.0]], [[10.0, 0.0]]) == (7.0 if pays else 0.0)


@pytest.mark.parametrize(("detour", "closed"), [(0.0, True), (0.12, True), (0.13, False)])
def test_of_many_closed_places_one_need_not_catch_what_passes_at_a_distance(detour, closed):
    aside = np.sqrt((5.0 + detour / 2) ** 2 - 25.0)
    of = snags([5.0, aside], nodes=np.zeros((1, 2)))
    assert penalties(of, [[0.0, 0.0]], [[10.0, 0.0]]) == (np.inf if closed else 0.0)


def test_a_closed_place_closes_both_directions_but_not_for_who_stands_beside_it():
    of = snags(4.2)
    edges = set(map(tuple, of.edges_past(EDGES).tolist()))
    assert {(3, 6), (6, 3), (3, 5), (5, 4)} <= edges
    assert not {(0, 3), (3, 0), (9, 5), (5, 9)} & edges
    assert_array_equal(penalties(of, [3.0, 4.3, 6.0], [7.0, 2.0]), [[np.inf, 0.0], [0.0, 0.0], [0.0, np.inf]])


def test_snags_add_up():
    parts = [snags(4.2, 7.0, cost=10.0), snags(5.2, 7.0, cost=5.0), snags(8.5)]
    joined = Snags.joined(parts)
    assert len(joined) == 3
    starts, ends = [3.0, 4.8, 6.0], [7.0, 5.5, 9.0, 2.0]
    assert_array_equal(penalties(joined, starts, ends), sum(penalties(part, starts, ends) for part in parts))
    assert_array_equal(
        joined.edges_past(EDGES),
        np.argwhere(sum(penalties(part, NODES, NODES) for part in parts) > 0),
    )


def test_without_snags_nothing_is_paid():
    none = snags([])
    assert len(none) == 0 and not len(none.edges_past(EDGES))
    assert_array_equal(penalties(none, [3.0, 4.0], [7.0]), [[0.0], [0.0]])
