"""Many keypoints: the nearest under d are found, what hangs together stays so, and plans are as those of few."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from straight_map import StraightMap, straight_navigator, straight_planner

from proq_agent.chance.edges import ChanceEdge
from proq_agent.planning import near_edges as near_edges_module
from proq_agent.planning import planner as planner_module
from proq_agent.planning.components import Components
from proq_agent.planning.graph import KeypointGraph
from proq_agent.planning.landmarks import Landmarks
from proq_agent.planning.navigator import Navigator
from proq_agent.planning.near_edges import near_edges
from proq_agent.planning.sparse_graph import SparseGraph

INF = np.inf


class Windy(StraightMap):
    """Against the wind, to the left, a way takes three times as long."""

    def pairwise(self, starts: Any, ends: Any) -> np.ndarray:
        across, along = np.moveaxis(ends.embeddings[None] - starts.embeddings[:, None], -1, 0)
        return np.maximum(across, -3.0 * across) + np.abs(along)


def places(seed: int, n: int, clusters: int = 1) -> np.ndarray:
    """Points around a few centres, some of them twice."""
    rng = np.random.default_rng(seed)
    points = rng.normal(scale=8.0, size=(n, 2)) + 60.0 * rng.integers(clusters, size=(n, 1))
    return np.round(points)


def landmarks_of(goal_map: StraightMap, number: int, counts: np.ndarray | None = None) -> Landmarks:
    points = goal_map.keypoints
    return Landmarks.among(
        goal_map, goal_map.place(points), np.ones(len(points), bool) if counts is None else counts, number
    )


@given(st.integers(0, 100), st.integers(2, 40), st.integers(1, 12), st.integers(1, 3))
def test_neighbours_are_the_nearest_that_count(seed: int, n: int, number: int, clusters: int) -> None:
    goal_map = Windy(places(seed, n, clusters))
    counts = np.random.default_rng(seed).random(n) < 0.8
    apart = goal_map.pairwise(*[goal_map.place(goal_map.keypoints)] * 2)
    members, others, there, back = landmarks_of(goal_map, 1 + n // 4, counts).neighbours(number)
    wanted = min(number, counts.sum() - 1)
    if wanted < 1:
        assert not len(members)
        return
    assert_array_equal(np.sort(members), np.flatnonzero(counts))
    assert counts[others].all() and (others != members[:, None]).all()
    assert_array_equal(there, apart[members[:, None], others])
    assert_array_equal(back, apart[others, members[:, None]])
    among = np.where(counts & ~np.eye(n, dtype=bool), apart, INF)[members]
    assert_array_equal(np.sort(there, axis=1), np.sort(among, axis=1)[:, :wanted])


@given(st.integers(0, 100), st.integers(2, 40), st.floats(-20, 20), st.floats(-20, 20))
def test_no_node_is_nearer_than_its_bound(seed: int, n: int, x: float, y: float) -> None:
    goal_map = Windy(places(seed, n))
    landmarks, state = landmarks_of(goal_map, 1 + n // 3), goal_map.place(np.array([[x, y]]))
    nodes = goal_map.place(goal_map.keypoints)
    lengths = goal_map.pairwise(state, nodes)[0]
    for row, away in enumerate(goal_map.pairwise(nodes[landmarks.nodes], state)[:, 0]):
        assert (landmarks.lower_bounds(row, away) <= lengths).all()
    around = landmarks.around(state.points[0], 2)
    seen = np.square((goal_map.keypoints[landmarks.nodes] - [x, y]) / landmarks.spread).sum(axis=1)
    assert_allclose(np.sort(seen[around]), np.sort(seen)[: len(around)])


def reachable(n: int, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    components = Components.of(np.arange(n), starts, ends)
    return components.leads_to[np.ix_(components.labels, components.labels)]


@settings(max_examples=60)
@given(st.integers(0, 1000), st.integers(2, 40), st.sampled_from([4.0, 10.0, 20.0]), st.integers(1, 3), st.booleans())
def test_what_trusted_hops_connect_stays_connected(
    seed: int, n: int, max_hop: float, clusters: int, bridges: bool
) -> None:
    """Also where ways lead one way only: to the left they may be too long."""
    goal_map = Windy(places(seed, n, clusters))
    apart = goal_map.pairwise(*[goal_map.place(goal_map.keypoints)] * 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near_edges_module, "N_NEIGHBOURS", 2)
        patch.setattr(near_edges_module, "_BLOCK", 3 * n)
        edges = near_edges(landmarks_of(goal_map, 1 + n // 4), max_hop, bridges)
    assert_array_equal(edges.lengths, apart[edges.starts, edges.ends])
    trusted = edges.lengths <= max_hop
    assert_array_equal(
        reachable(n, edges.starts[trusted], edges.ends[trusted]), reachable(n, *np.nonzero(apart <= max_hop))
    )
    if bridges:
        assert reachable(n, edges.starts, edges.ends).all()


def both(points: np.ndarray, **settings: Any) -> tuple[Navigator, Navigator]:
    """A dense navigator, and a sparse one that has all edges."""
    dense = straight_navigator(points, **settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner_module, "DENSE_NODES", 5)
        patch.setattr(near_edges_module, "N_NEIGHBOURS", len(points))
        sparse = straight_navigator(points, **settings)
    assert isinstance(dense.planner.graph, KeypointGraph) and isinstance(sparse.planner.graph, SparseGraph)
    return dense, sparse


CHANGES: list[Any] = [
    lambda planner: planner.block(box=([-2.0, -30.0], [2.0, 4.0])),
    lambda planner: planner.block(region=lambda points: np.abs(points[:, 1] - 3.0) < 1.0),
    lambda planner: planner.block(nodes=[0, 3, 4]),
    lambda planner: planner.block(edges=[(1, 2), (2, 1), (5, 1)]),
    lambda planner: planner.penalise([1, 2], 4, 30.0),
    lambda planner: planner.avoid(np.array([0.0, 1.0]), np.array([6.0, 1.0]), 50.0),
]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 1000),
    st.integers(8, 30),
    st.lists(st.sampled_from(CHANGES), max_size=3),
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([0.0, 3.0]),
    st.booleans(),
)
def test_plans_are_those_of_a_dense_planner(
    seed: int, n: int, changes: list[Any], caution: float, reach: float, bridges: bool
) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(scale=8.0, size=(n, 2))
    dense, sparse = both(points, max_hop=6.0, caution=caution, reach=reach, bridge_gaps=bridges)
    for change in changes:
        for navigator in (dense, sparse):
            change(navigator.planner)
    if changes:
        dense.planner.unblock(1)
        sparse.planner.unblock(1)
    assert_array_equal(dense.planner.blocked, sparse.planner.blocked)
    assert dense.planner.connectivity() == sparse.planner.connectivity()
    assert_allclose(dense.planner.graph.nearest(), sparse.planner.graph.nearest())
    starts, goals = rng.normal(scale=8.0, size=(2, 5, 2)).astype(np.float32)
    for start, goal in zip(starts, goals, strict=True):
        one, other = dense.plan(start, goal), sparse.plan(start, goal)
        assert other.nodes == one.nodes
        assert other.cost == pytest.approx(one.cost, rel=1e-9)
        assert other[3:] == one[3:]
    together, alone = (navigator.decide(starts, goals)[0].hops for navigator in (dense, sparse))
    for part, expected in zip(alone, together, strict=True):
        assert_allclose(part, expected)


def test_who_is_stuck_goes_another_way() -> None:
    columns, rows = np.meshgrid(np.arange(0.0, 50.0), np.arange(0.0, 24.0))
    points = np.stack([columns.ravel(), rows.ravel()], axis=1)  # 1,200 of them
    navigator = straight_navigator(points, max_hop=3.0, reach=0.5, patience=2, caution=1.0)
    assert isinstance(navigator.planner.graph, SparseGraph)
    here, goal, progress = np.array([[20.2, 12.0]], np.float32), np.array([[40.0, 12.0]], np.float32), None
    targets = []
    for _ in range(12):
        decision, progress = navigator.decide(here, goal, progress)
        targets.append(tuple(navigator.points(decision)[0]))
    assert len(set(targets)) > 1
    assert np.isfinite(decision.hops.cost).all()


def test_nothing_of_many_nodes_is_held_for_all_pairs() -> None:
    points = np.random.default_rng(0).uniform(0.0, 300.0, size=(4000, 2))
    tracemalloc.start()
    try:
        navigator = straight_navigator(points, max_hop=20.0, reach=2.0)
        navigator.plan(points[0], points[1])
        navigator.planner.block(box=([100.0, 0.0], [110.0, 200.0]))
        plan = navigator.plan(points[0], points[1])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert not plan.fallback
    assert peak < 4000**2 * 8 / 2  # half a matrix of doubles


def test_matrices_and_chance_are_refused_and_the_way_out_is_named() -> None:
    points = np.random.default_rng(0).uniform(0.0, 50.0, size=(1001, 2))
    planner = straight_planner(points, max_hop=5.0)
    for name in ("distances", "weights", "hops", "costs"):
        with pytest.raises(ValueError, match=r"graph\.edges"):
            getattr(planner, name)
    edge = ChanceEdge(np.array([0.0, 10.0]), 2.0, np.array([[10.0, 20.0]]), np.array([1.0]), 9)
    with pytest.raises(ValueError, match="stochastic='ignore'"):
        straight_planner(points, [edge], max_hop=5.0)
    assert isinstance(straight_planner(points[:900], [edge], max_hop=5.0).graph, KeypointGraph)


def test_an_agent_that_heads_straight_for_its_goal_needs_no_edges() -> None:
    points = np.random.default_rng(0).uniform(0.0, 50.0, size=(1001, 2))
    navigator = straight_navigator(points, max_hop=5.0, direct=True)
    plan = navigator.plan(np.zeros(2), np.full(2, 40.0))
    assert plan.nodes == [1001] and not len(navigator.planner.graph.edges.starts)
