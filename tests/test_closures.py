"""What is closed or penalised, as a value: adding and lifting return another, and leave nothing behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from straight_map import RING, StraightMap, apart

from proq_agent.planning.closures import Closure, Closures
from proq_agent.planning.graph import KeypointGraph
from proq_agent.planning.snags import Snags

INF = np.inf
MAP = StraightMap(RING)
NODES = MAP.place(RING)
GRAPH = KeypointGraph(apart(RING, RING), max_hop=11.0)
NONE = Closures(np.zeros(8, dtype=bool), Snags.at(MAP, NODES, 1.0, NODES[:0], NODES[:0]))


def block(**area: Any) -> Closure:
    return Closure.block(GRAPH.edges.pairs, RING, **area)


def snag(cost: float = 5.0) -> Closure:
    """At the middle of the lower side, on the way to the right."""
    places, targets = MAP.place(np.array([[10.0, 0.0]])), MAP.place(np.array([[20.0, 0.0]]))
    return Closure.penalty(8, 0, 1, cost)._replace(snags=Snags.at(MAP, NODES, 1.0, places, targets, cost))


@given(st.data())
def test_lifting_all_in_any_order_restores_what_was(data: st.DataObject) -> None:
    node = st.integers(0, 7)
    closures, states = NONE, [NONE]
    for kind in data.draw(st.lists(st.sampled_from(["nodes", "edges", "penalty"]), min_size=1, max_size=5)):
        i, j = data.draw(node), data.draw(node)
        one = (
            Closure.penalty(8, i, j, 3.0) if kind == "penalty" else block(**{kind: i if kind == "nodes" else [(i, j)]})
        )
        closures = closures.add(one)
        states.append(closures)
        assert closures.version in closures.in_force and closures.version not in states[-2].in_force
    for handle in data.draw(st.permutations(list(closures.in_force))):
        closures = closures.lift([handle])
    assert not closures.in_force and not closures.blocked.any() and not closures.charges
    assert closures.version == 2 * (len(states) - 1)
    assert not NONE.in_force and NONE.version == 0


def test_blocks_and_penalties_of_the_same_edges_add_up() -> None:
    closures = (
        NONE.add(Closure.penalty(8, [0, 1], 2, 3.0)).add(Closure.penalty(8, 0, 2, 4.0)).add(block(edges=[(1, 2)]))
    )
    extra = np.zeros((8, 8))
    extra[0, 2], extra[1, 2] = 7.0, INF
    assert_array_equal(GRAPH.surcharges_of(closures.charges), extra)
    assert_array_equal(GRAPH.surcharges_of(closures.lift([3]).charges)[1], extra[0] / 7.0 * 3.0)


def test_what_is_barred_stays_so() -> None:
    barred = np.arange(8) == 2
    closures = Closures(barred, NONE.no_snags).add(block(nodes=[2, 3]))
    assert_array_equal(np.flatnonzero(closures.blocked), [2, 3])
    assert_array_equal(closures.lift([1]).blocked, barred)


def test_lifting_nothing_changes_nothing_and_what_is_not_in_force_is_refused() -> None:
    closures = NONE.add(block(nodes=0))
    assert closures.lift([]) is closures
    lifted = closures.lift([1])
    with pytest.raises(ValueError, match="No block or penalty 1 is in force; in force: \\[\\]"):
        lifted.lift([1])
    assert lifted.add(block(nodes=0)).in_force.keys() == {3}  # no handle is used twice


@pytest.mark.parametrize("region", [False, True])
def test_a_box_or_region_closes_what_is_inside_and_what_passes_through(region: bool) -> None:
    def inside(points: np.ndarray) -> np.ndarray:
        return (np.abs(points - [0.0, 0.0]) <= 1.0).all(axis=1)

    closure = block(region=inside) if region else block(box=([-1.0, -1.0], [1.0, 1.0]))
    assert_array_equal(closure.nodes, [0])
    edges = set(map(tuple, closure.edges.tolist()))
    assert {(0, 1), (1, 0), (0, 4), (7, 0)} <= edges and not {(1, 2), (7, 6), (1, 7)} & edges
    assert_array_equal(closure.contains(np.array([[0.5, 0.5], [2.0, 0.0]])), [True, False])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hops_of_states_and_goals_through_a_wall_are_masked(dtype: type) -> None:
    states = np.array([[4.0, 0.0], [5.0, 0.0]], dtype=dtype)  # before the wall, and caught in it
    lengths = apart(states, RING)
    assert NONE.mask_blocked(lengths, states[:, None], RING) is lengths
    closures = NONE.add(block(box=([4.5, -2.0], [5.5, 0.1])))
    masked = closures.mask_blocked(lengths, states[:, None], RING.astype(dtype))
    assert_array_equal(np.flatnonzero(np.isinf(masked[0])), [1, 2])
    assert_array_equal(masked[1], lengths[1])
    assert_array_equal(closures.mask_blocked(np.ones(2), states, states[::-1]), [INF, 1.0])


def test_snags_go_with_their_closures() -> None:
    start, end = MAP.place(np.array([[9.0, 0.0]])), MAP.place(np.array([[18.0, 0.0]]))

    def extra(closures: Closures) -> Any:
        snags = closures.snags
        return closures.passable(np.array([9.0]), start.points, end.points, snags.leaving(start), snags.ahead(end))

    assert extra(NONE) == (9.0, 0.0)
    one = NONE.add(snag())
    two = one.add(snag(2.0)).add(block(nodes=7))
    assert extra(one) == (9.0, 5.0) and extra(two) == (9.0, 7.0)
    assert extra(two.lift([1])) == (9.0, 2.0)
    closed = two.add(snag()._replace(cost=INF, snags=Snags.at(MAP, NODES, 0.5, start[:1], start[:1])))
    assert extra(closed) == (9.0, 7.0)  # who stands beside a closed place can leave
    places = MAP.place(np.array([[14.0, 0.0]]))
    closed = two.add(snag()._replace(cost=INF, snags=Snags.at(MAP, NODES, 0.5, places, places)))
    assert extra(closed) == (INF, 0.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: block(), "at least one of"),
        (lambda: block(nodes=[8]), r"nodes must be within 0\.\.7"),
        (lambda: block(nodes=[-1]), r"within 0\.\.7"),
        (lambda: block(nodes=[0.5]), "integer"),
        (lambda: block(edges=[(0, 8)]), r"edges must be within 0\.\.7"),
        (lambda: block(edges=[(0, 1, 2)]), "pairs"),
        (lambda: block(box=([0.0], [1.0])), "2 coordinates"),
        (lambda: block(region=lambda points: points > 0), "region must map"),
        (lambda: Closure.penalty(8, 0, 1, -1.0), "non-negative"),
        (lambda: Closure.penalty(8, 0, 1, INF), "block"),
        (lambda: Closure.penalty(8, 0, 9, 1.0), r"j must be within 0\.\.7"),
    ],
)
def test_bad_input_is_named(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
