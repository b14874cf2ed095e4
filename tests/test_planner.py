"""The planner: what is closed reroutes, what is opened again is as before, and threads may do both at once."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse.csgraph import floyd_warshall
from straight_map import RING, StraightMap, apart, straight_planner

from proq_agent.chance.edges import ChanceEdge
from proq_agent.planning import graph
from proq_agent.planning.planner import Planner
from proq_agent.planning.settings import PlanningSettings

INF = np.inf


def ring() -> Planner:
    return straight_planner(RING, max_hop=11.0)


def way(planner: Planner, start: int, goal: Any = (15.0, 0.0)) -> list[int]:
    """The plan of an agent that stands on a keypoint."""
    snapshot = planner.snapshot
    routes = snapshot.chance.routes(apart(planner.points, np.array([goal])).T)
    at_start = np.where(np.arange(planner.n_nodes) == start, 0.0, INF)[None]
    hops = snapshot.graph.next_hops(routes, at_start, np.array([INF]))
    return snapshot.graph.path(routes, hops.target[0])


def in_strip(points: np.ndarray) -> np.ndarray:
    return (np.abs(points[:, 0] - 5.0) < 0.1) & (points[:, 1] < 5.0)


@pytest.mark.parametrize(
    "area",
    [
        {"box": ([4.9, -1.0], [5.1, 5.0])},
        {"box": ([5.0, -INF], [5.0, 5.0])},  # a line without any width
        {"region": in_strip},
        {"edges": [(0, 1)]},
        {"nodes": [1]},
    ],
)
def test_what_is_blocked_sends_the_plan_the_other_way_round(area: dict) -> None:
    planner = ring()
    assert way(planner, 0) == [1, 8]
    handle = planner.block(**area)
    assert planner.in_force(handle)
    assert way(planner, 0) == [7, 6, 5, 4, 3, 2, 8]
    planner.unblock(handle)
    assert way(planner, 0) == [1, 8] and not planner.in_force(handle)


def test_a_penalty_reroutes_once_it_exceeds_the_detour_and_is_cleared_without_touching_blocks() -> None:
    planner = ring()
    planner.penalise(0, 1, 40.0)
    assert way(planner, 0) == [1, 8]
    planner.penalise(0, 1, 40.0)
    assert way(planner, 0) == [7, 6, 5, 4, 3, 2, 8]
    planner.block(nodes=4)
    planner.clear_penalties()
    assert way(planner, 0) == [1, 8]
    assert_array_equal(np.flatnonzero(planner.blocked), [4])
    planner.unblock()
    assert not planner.blocked.any()


def test_a_box_that_no_straight_line_meets_closes_the_hops_that_bend_through_it() -> None:
    class Bent(StraightMap):
        """Between the two ends one goes by way of the middle, which lies aside."""

        def pairwise(self, starts: Any, ends: Any) -> np.ndarray:
            return np.abs(starts.embeddings[:, None, 0] - ends.embeddings[None, :, 0])

    settings = PlanningSettings(max_hop=25.0, reach=1.0)
    planner = Planner(Bent([[0.0, 0.0], [10.0, 9.0], [20.0, 0.0]]), settings)
    handle = planner.block(box=([9.0, 8.0], [11.0, 10.0]))
    assert_array_equal(planner.blocked, [False, True, False])
    assert np.isinf(planner.weights[0, 2]) and not planner.hops[0, 2]
    planner.unblock(handle)
    assert planner.hops[0, 2]


@pytest.mark.parametrize(("reach", "way_round"), [(0.0, False), (0.1, False), (0.3, True)])
def test_a_place_within_reach_of_a_hop_lies_on_it(reach: float, way_round: bool) -> None:
    planner = straight_planner(RING, max_hop=11.0, reach=reach)
    planner.avoid(np.array([5.0, 1.0]), RING[1], 1000.0)  # by way of it the hop of 10 steps is 10.2 long
    assert way(planner, 0) == ([7, 6, 5, 4, 3, 2, 8] if way_round else [1, 8])


def test_avoid_penalises_the_edges_that_lead_past_the_place_towards_the_target() -> None:
    planner = straight_planner(np.arange(10.0)[:, None], max_hop=4.0, reach=0.5)
    handle = planner.avoid(np.array([4.2]), np.array([7.0]), 100.0)
    extra = planner.weights - planner.distances
    for i in range(10):
        for j in range(10):
            if 0 < abs(i - j) <= 4:
                assert extra[i, j] == pytest.approx(100.0 if i <= 4 < j else 0.0, abs=1e-6), (i, j)
    assert len(planner.snapshot.closures.snags) == 1
    planner.unblock(handle)
    assert len(planner.snapshot.closures.snags) == 0


def test_keypoints_that_are_unreachable_or_in_an_entrance_are_no_places_to_go() -> None:
    edge = ChanceEdge(np.array([0.0, 10.0]), 2.0, np.array([[10.0, 20.0], [20.0, 20.0]]), np.array([0.75, 0.25]), 9)
    unreachable = StraightMap(RING, reachable=lambda points: ~(points == [10.0, 0.0]).all(axis=1))
    planner = Planner(unreachable, PlanningSettings(max_hop=11.0, reach=0.0), [edge])
    assert planner.n_nodes == 11
    assert_array_equal(planner.points[8:], [[0.0, 10.0], [10.0, 20.0], [20.0, 20.0]])
    assert_array_equal(np.flatnonzero(planner.blocked), [1, 7])
    assert np.isinf(planner.distances[8]).all()  # nobody walks on from an entrance
    assert_array_equal(planner.snapshot.chance.nodes.outcomes[0, 9:], [0.75, 0.25])
    planner.unblock()
    assert_array_equal(np.flatnonzero(planner.blocked), [1, 7])
    assert way(planner, 0, goal=(10.0, 20.0)) == [8]


def test_version_grows_with_every_change_and_only_then() -> None:
    planner = ring()
    planner.unblock()
    planner.clear_penalties()
    assert planner.version == 0
    handle = planner.block(nodes=0)
    planner.penalise(1, 2, 1.0)
    planner.clear_penalties()
    planner.unblock(handle)
    assert planner.version == 4


def test_changes_cost_one_pass_of_shortest_paths_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[np.ndarray] = []

    def count(weights: np.ndarray) -> np.ndarray:
        passes.append(weights)
        return floyd_warshall(weights)

    monkeypatch.setattr(graph, "floyd_warshall", count)
    planner = ring()
    for _ in range(2):
        way(planner, 7)
    assert len(passes) == 1
    handle = planner.block(nodes=0)
    planner.block(edges=[(1, 2)])
    planner.penalise(2, 3, 1.0)
    for _ in range(2):
        way(planner, 7)
    assert len(passes) == 2
    planner.unblock(handle)
    way(planner, 7)
    assert len(passes) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda planner: planner.block(),
        lambda planner: planner.block(nodes=[8]),
        lambda planner: planner.block(box=([0.0], [1.0])),
        lambda planner: planner.block(nodes=0, region=lambda points: 1 / 0),
        lambda planner: planner.penalise(0, 1, INF),
        lambda planner: planner.unblock(7),
    ],
)
def test_what_fails_changes_nothing(change: Any) -> None:
    planner = ring()
    before = planner.snapshot
    with pytest.raises((ValueError, ZeroDivisionError)):
        change(planner)
    assert planner.snapshot is before


def test_a_copy_has_its_own_closures() -> None:
    planner = ring()
    planner.block(nodes=1)
    other = pickle.loads(pickle.dumps(planner))
    other.unblock()
    assert planner.blocked[1] and not other.blocked[1]


def test_threads_that_block_and_unblock_at_once_lose_no_change() -> None:
    planner, errors = ring(), []

    def change(node: int) -> None:
        try:
            for _ in range(200):
                handle = planner.block(nodes=node)
                assert planner.blocked[node]
                penalty = planner.penalise(node, (node + 1) % 8, 1.0)
                planner.unblock(handle)
                assert not planner.blocked[node] and planner.in_force(penalty)
                planner.unblock(penalty)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=change, args=(node,)) for node in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert planner.version == 8 * 200 * 4 and not planner.snapshot.closures.in_force
