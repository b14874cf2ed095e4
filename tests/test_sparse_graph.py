"""The sparse graph against the dense one that has the same edges: costs, ties, closures, and the hops of states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from proq_agent.planning.graph import KeypointGraph
from proq_agent.planning.hops import EdgeList, Routes
from proq_agent.planning.sparse_graph import SparseGraph

MAX_HOP = 10.0
INF = np.inf
# Few distinct values, so that ties, zero-length edges and cuts are common.
LENGTHS = st.one_of(st.sampled_from([0.0, 1.0, 2.0, 5.0, 10.0, 10.5, 40.0, INF]), st.floats(0, 20))


def sparse(graph: KeypointGraph) -> SparseGraph:
    """With the same edges."""
    edges = EdgeList(*(part[graph.edges.starts != graph.edges.ends] for part in graph.edges))
    surcharges = graph.surcharges
    if isinstance(surcharges, np.ndarray):
        surcharges = surcharges[edges.starts, edges.ends]
    return SparseGraph(
        graph.n_nodes,
        edges,
        graph.max_hop,
        graph.reach,
        graph.caution,
        bridges=graph.bridges,
        blocked=graph.blocked,
        surcharges=surcharges,
    )


@st.composite
def graphs(draw: st.DrawFn) -> KeypointGraph:
    """With blocked nodes, edges that are closed or cost more, caution, and bridges or none."""
    n = draw(st.integers(1, 8))
    surcharges = draw(st.one_of(st.just(0.0), arrays(np.float64, (n, n), elements=st.sampled_from([0.0, 3.0, INF]))))
    return KeypointGraph(
        draw(arrays(np.float64, (n, n), elements=LENGTHS)),
        MAX_HOP,
        draw(st.sampled_from([0.0, 1.0, 5.0])),
        draw(st.sampled_from([0.0, 1.0])),
        bridges=draw(st.booleans()),
        blocked=draw(arrays(np.bool_, n, elements=st.sampled_from([False, False, True]))),
        surcharges=surcharges,
    )


def rows(draw: Any, *shape: int, elements: Any = LENGTHS) -> np.ndarray:
    return draw(arrays(np.float64, shape, elements=elements))


def close(one: np.ndarray, other: np.ndarray) -> None:
    assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@settings(max_examples=300)
@given(graphs(), st.data())
def test_routes_are_those_of_the_dense_graph(graph: KeypointGraph, data: st.DataObject) -> None:
    n, batch = graph.n_nodes, data.draw(st.integers(1, 3))
    to_goal = rows(data.draw, batch, n)
    penalties = data.draw(st.one_of(st.just(0.0), st.just(rows(data.draw, batch, n, elements=st.floats(0, 300)))))
    expected, found = graph.routes(to_goal, penalties), sparse(graph).routes(to_goal, penalties)
    close(found.costs, expected.costs)
    assert_array_equal(found.odds, expected.odds)
    # Sums in another order may break a tie the other way; then the other way costs the same.
    weights = np.concatenate([graph.weights, np.full((n, 1), INF)], axis=1)
    for row, last_hop in enumerate(graph.last_hops(to_goal, penalties)[1]):
        weights[:, -1] = last_hop
        onward = np.append(expected.costs[row], 0.0)
        routed = np.flatnonzero(found.successors[row] >= 0)
        assert_array_equal(routed, np.flatnonzero(expected.successors[row] >= 0))
        chosen = [(weights + onward)[routed, part.successors[row, routed]] for part in (found, expected)]
        close(*chosen)
        if np.array_equal(found.successors[row], expected.successors[row]):
            assert_array_equal(found.trusted[row], expected.trusted[row])


@given(st.integers(2, 5), st.integers(2, 4), st.booleans(), st.data())
def test_of_equal_ways_both_take_the_first(n: int, twins: int, cautious: bool, data: st.DataObject) -> None:
    """Twins have exactly the same lengths, so that only the rule decides."""
    lengths = rows(data.draw, n, n, elements=st.sampled_from([1.0, 2.0, 5.0, 11.0, INF]))
    np.fill_diagonal(lengths, 0.0)
    graph = KeypointGraph(lengths.repeat(twins, axis=0).repeat(twins, axis=1), MAX_HOP, caution=float(cautious))
    goal = np.full(n * twins, INF)
    goal[-twins:] = 1.0
    expected, found = graph.routes(goal), sparse(graph).routes(goal)
    passed = (found.successors >= 0) & (found.successors < n * twins)
    assert (found.successors[passed] % twins == 0).all()
    assert (expected.successors[passed] % twins == 0).all()
    close(found.costs, expected.costs)


@settings(max_examples=300)
@given(graphs(), st.data())
def test_hops_of_a_state_are_the_same_however_few_nodes_are_measured(graph: KeypointGraph, data: st.DataObject) -> None:
    n = graph.n_nodes
    routes = sparse(graph).routes(rows(data.draw, 1, n))
    lengths, to_goal = rows(data.draw, 1, n), rows(data.draw, 1)
    penalties = data.draw(st.one_of(st.just(0.0), st.just(rows(data.draw, 1, n, elements=st.floats(0, 300)))))
    goal_penalties = data.draw(st.sampled_from([0.0, 3.0, 30.0]))
    bounds = np.where(np.isfinite(lengths[0]), lengths[0], 50.0) * rows(data.draw, n, elements=st.floats(0, 1))

    def measure(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        assert len(nodes) and (nodes < n).all()
        return lengths[:, nodes], penalties[:, nodes] if isinstance(penalties, np.ndarray) else penalties

    slack = data.draw(st.sampled_from([0.0, 2.0, 100.0]))
    found = sparse(graph).nearby_hops(routes, bounds, slack, measure, to_goal, goal_penalties)
    expected = sparse(graph).next_hops(routes, lengths, to_goal, penalties, goal_penalties)
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(one, other)


def line(n: int, **kwargs: Any) -> SparseGraph:
    """Nodes one step apart, with edges to the neighbours."""
    starts = np.concatenate([np.arange(n - 1), np.arange(1, n)])
    ends = np.concatenate([np.arange(1, n), np.arange(n - 1)])
    order = np.lexsort((ends, starts))
    return SparseGraph(n, EdgeList(starts[order], ends[order], np.ones(len(starts))), MAX_HOP, **kwargs)


def test_of_a_long_line_few_nodes_are_measured_and_many_reached_ones_are_left() -> None:
    graph, goal = line(3000, reach=30.5), 2999.0
    routes = graph.routes(np.where(np.arange(3000) == 2999, 0.0, INF))
    measured: list[int] = []

    def measure(nodes: np.ndarray) -> tuple[np.ndarray, float]:
        measured.extend(nodes)
        return np.abs(nodes - 100.4)[None], 0.0

    bounds = np.maximum(np.abs(np.arange(3000) - 100.0) - 0.4, 0.0)
    hops = graph.nearby_hops(routes, bounds, 0.8, measure, np.array([goal - 100.4]))
    assert hops.target[0] == 131 and hops.cost[0] == pytest.approx(goal - 100.4, abs=1e-3)
    assert len(measured) < 120


def test_a_gap_that_no_near_last_hop_crosses_is_bridged_by_a_long_one() -> None:
    graph = line(40)
    cut = graph.with_closures(np.arange(40) == 20, 0.0)
    routes = cut.routes(np.abs(np.arange(40) - 39.5))
    assert (
        np.isfinite(routes.costs[0, :20]).all() and routes.successors[0, 19] == 40 and not routes.trusted[0, :20].any()
    )
    assert routes.trusted[0, 21:].all()
    assert cut.connectivity() == (pytest.approx((20 * 19 + 19 * 18) / (39 * 38)), 2)


def test_surcharges_are_of_the_edges_that_are_there() -> None:
    graph = line(4)
    edges = np.array([[0, 1], [0, 3], [2, 1], [2, 1]])
    extra = graph.surcharges_of([(edges, 2.0), (edges[:1], INF)])
    charged = {(i, j): cost for (i, j), cost in zip(graph.edges.pairs.tolist(), extra, strict=True) if cost}
    assert charged == {(0, 1): INF, (2, 1): 2.0}
    assert graph.surcharges_of([]) == 0.0
    closed = graph.with_closures(graph.blocked, extra)
    assert (0, 1) not in set(map(tuple, closed.open_hops.pairs.tolist()))
    assert closed.weights[graph.edges.starts == 2][0] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (EdgeList(np.array([0]), np.array([1]), np.array([-1.0])), "negative"),
        (EdgeList(np.array([1, 0]), np.array([0, 1]), np.ones(2)), "ordered"),
        (EdgeList(np.array([0, 0]), np.array([1, 1]), np.ones(2)), "each once"),
        (EdgeList(np.array([1]), np.array([1]), np.ones(1)), "itself"),
    ],
)
def test_bad_edges_are_named(edges: EdgeList, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SparseGraph(2, edges, MAX_HOP)


def test_ranks_are_kept_for_the_routes_that_they_are_of() -> None:
    graph = line(5)
    both: list[Routes] = [graph.routes(np.where(np.arange(5) == goal, 0.0, INF)) for goal in (4, 0)]
    for routes, target in ((both[0], 4), (both[1], 0), (both[0], 4)):
        hops = graph.nearby_hops(
            routes, np.zeros(5), 0.0, lambda nodes: (np.abs(nodes - 2.0)[None], 0.0), np.array([INF])
        )
        assert hops.target[0] == target
