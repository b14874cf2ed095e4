"""The planner against brute force: Floyd-Warshall on every node, deletion instead of blocking, rows one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.csgraph import floyd_warshall

from proq_agent.planning import graph as planner
from proq_agent.planning.graph import KeypointGraph, Routes

MAX_HOP = 10.0
INF = np.inf
# Few distinct values, so that ties, zero-length edges and cuts are common.
LENGTHS = st.one_of(st.sampled_from([0.0, 1.0, 2.0, 5.0, 10.0, 10.5, 40.0, INF]), st.floats(0, 20))


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Distances [K, K], to_goal [B, K], from_state [B, K], state_to_goal [B]."""
    n, batch = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    lengths = {
        name: draw(arrays(np.float64, shape, elements=LENGTHS))
        for name, shape in {"d": (n, n), "to": (batch, n), "from": (batch, n), "direct": (batch,)}.items()
    }
    return lengths["d"], lengths["to"], lengths["from"], lengths["direct"]


def hop_cost(distances: Any, n: int) -> Any:
    """A hop beyond MAX_HOP costs more than any way of up to n keypoints without one, and ever more with its length."""
    return np.where(distances <= MAX_HOP, distances, MAX_HOP * (n + 1) * (distances / MAX_HOP) ** 2)


def brute_force(distances: np.ndarray, n: int | None = None) -> np.ndarray:
    """Textbook Floyd-Warshall on hops between n keypoints, without scipy."""
    costs = hop_cost(distances, n or len(distances))
    np.fill_diagonal(costs, 0.0)
    for k in range(len(costs)):
        costs = np.minimum(costs, costs[:, k, None] + costs[None, k, :])
    return costs


def with_goal(distances: np.ndarray, to_goal: np.ndarray) -> np.ndarray:
    """Distances of K+1 nodes, the last of which is the goal."""
    n = len(distances)
    extended = np.full((n + 1, n + 1), INF)
    extended[:n, :n] = distances
    extended[:n, n] = to_goal
    return extended


def line(n: int = 5, step: float = 4.0, **kwargs: Any) -> KeypointGraph:
    """Keypoints at 0, 4, 8, ... on the x axis, an obstacle-free corridor."""
    points = np.stack([step * np.arange(n), np.zeros(n)], axis=1)
    return KeypointGraph(apart(points, points), points=points, **{"max_hop": 5.0, **kwargs})


def plan(graph: KeypointGraph, routes: Routes, from_state: np.ndarray, state_to_goal: float = INF) -> list[int]:
    hops = graph.next_hops(routes, np.atleast_2d(from_state), np.array([state_to_goal]))
    return graph.path(routes, hops.target[0])


def apart(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    return np.linalg.norm(starts[:, None] - ends[None], axis=-1)


@given(cases())
def test_all_pairs_costs_equal_brute_force(case: tuple[np.ndarray, ...]) -> None:
    assert_allclose(KeypointGraph(case[0], MAX_HOP).costs, brute_force(case[0]), rtol=1e-6, atol=1e-6)


@given(cases())
def test_routes_equal_floyd_warshall_on_one_more_node(case: tuple[np.ndarray, ...]) -> None:
    distances, to_goal, _, _ = case
    routes = KeypointGraph(distances, MAX_HOP).routes(to_goal)
    n = len(distances)
    for row, costs, trusted in zip(to_goal, routes.costs, routes.trusted, strict=True):
        expected = brute_force(with_goal(distances, row), n)[:-1, -1]
        assert_allclose(costs, expected, rtol=1e-6, atol=1e-6)
        assert_array_equal(trusted, expected < MAX_HOP * (n + 1))  # no long hop


@settings(max_examples=150)
@given(cases())
def test_successors_walk_to_the_goal_and_add_up_to_the_cost(case: tuple[np.ndarray, ...]) -> None:
    distances, to_goal, _, _ = case
    n = len(distances)
    routes = KeypointGraph(distances, MAX_HOP).routes(to_goal)
    assert_array_equal(routes.successors == -1, np.isinf(routes.costs))
    for row, costs, successors in zip(to_goal, routes.costs, routes.successors, strict=True):
        for start in np.flatnonzero(np.isfinite(costs)):
            node, walked, visited = int(start), 0.0, set()
            while node != n:
                assert node not in visited
                visited.add(node)
                following = int(successors[node])
                walked += hop_cost(row[node] if following == n else distances[node, following], n)
                node = following
            assert walked == pytest.approx(costs[start], rel=1e-6, abs=1e-6)


@given(cases(), st.sampled_from([0.0, 1.0, 5.0]), st.sampled_from([0.5, 1.0, 3.0]))
def test_caution_plans_with_longer_distances(case: tuple[np.ndarray, ...], reach: float, caution: float) -> None:
    def longer(distance: Any) -> Any:
        return distance * (1.0 + caution * distance / MAX_HOP)

    distances, to_goal, from_state, state_to_goal = case
    cautious = KeypointGraph(distances, MAX_HOP, reach, caution=caution)
    plain = KeypointGraph(longer(distances), longer(MAX_HOP), longer(reach))
    routes, expected = cautious.routes(to_goal), plain.routes(longer(to_goal))
    assert_array_equal(routes.trusted, expected.trusted)
    assert_allclose(routes.costs[routes.trusted], expected.costs[routes.trusted], rtol=1e-6, atol=1e-6)
    hops = cautious.next_hops(routes, from_state, state_to_goal)
    expected_hops = plain.next_hops(expected, longer(from_state), longer(state_to_goal))
    assert_array_equal(hops.fallback, expected_hops.fallback)
    planned = ~hops.fallback
    assert_allclose(hops.cost[planned], expected_hops.cost[planned], rtol=1e-6, atol=1e-6)


def test_caution_prefers_short_hops_to_a_long_one_that_seems_a_little_shorter() -> None:
    distances = np.array([[0.0, 3.0, 5.5], [INF, 0.0, 3.0], [INF, INF, 0.0]])  # 0 -> 2 cuts the corner at 1
    to_goal, at_first = np.array([INF, INF, 0.0]), np.array([0.0, INF, INF])
    for caution, path in ((0.0, [2, 3]), (1.0, [1, 2, 3])):
        graph = KeypointGraph(distances, MAX_HOP, caution=caution)
        assert plan(graph, graph.routes(to_goal), at_first) == path


@pytest.mark.parametrize("scale", [0.0, 1e-12, 1.0, 1e12])
@pytest.mark.parametrize("goal_distance", [0.0, 1.0, 1e9])
def test_duplicate_keypoints_never_cycle(scale: float, goal_distance: float) -> None:
    """Twins at distance zero, edges and last hops of wildly different size."""
    points = np.repeat(np.arange(20.0), 3)[:, None] * scale
    graph = KeypointGraph(apart(points, points), max_hop=1.5 * scale or 1.0)
    routes = graph.routes(points[:, 0] + goal_distance)
    for start in range(60):
        path = plan(graph, routes, np.where(np.arange(60) == start, 0.0, INF))
        assert path[-1] == 60
        assert len(path) <= 20  # one of each set of twins at most


def test_ties_go_to_fewer_hops() -> None:
    graph = line(4, max_hop=9.0)  # 0 -> 2 directly, or by 1 at the same cost
    assert plan(graph, graph.routes(np.array([INF, INF, 0.0, INF])), np.array([1.0, INF, INF, INF])) == [0, 2, 4]


def test_a_one_way_door_is_passed_one_way_only() -> None:
    distances = np.array([[0.0, 1.0], [INF, 0.0]])
    graph = KeypointGraph(distances, max_hop=2.0)
    assert_allclose(graph.costs, [[0.0, 1.0], [INF, 0.0]])
    assert graph.connectivity() == (0.5, 2)


@settings(max_examples=150)
@given(cases(), st.sampled_from([0.0, 1.0, 5.0]))
def test_next_hop_is_the_cheapest_of_the_surest_options(case: tuple[np.ndarray, ...], reach: float) -> None:
    distances, to_goal, from_state, state_to_goal = case
    n = len(distances)
    graph = KeypointGraph(distances, MAX_HOP, reach)
    routes = graph.routes(to_goal)
    hops = graph.next_hops(routes, from_state, state_to_goal)
    for b in range(len(to_goal)):
        options = {k: float(hop_cost(from_state[b, k], n) + routes.costs[b, k]) for k in range(n)}
        options[n] = float(hop_cost(state_to_goal[b], n))
        trusted = {k: cost for k, cost in options.items() if cost < MAX_HOP * (n + 1)}
        cheapest = min((trusted or options).values())
        assert hops.cost[b] == pytest.approx(cheapest, rel=1e-6) and hops.fallback[b] == (not trusted)
        if cheapest == INF:
            possible = {k for k in range(n) if from_state[b, k] == from_state[b].min() < INF} or {n}
        else:
            possible = {k for k, cost in options.items() if cost <= cheapest * (1 + 1e-6) + 1e-6}
        left = {leave_reached(k, routes.successors[b], from_state[b], reach) for k in possible}
        assert hops.target[b] in left


def leave_reached(node: int, successors: np.ndarray, from_state: np.ndarray, reach: float) -> int:
    while node < len(successors) and from_state[node] <= reach and successors[node] >= 0:
        node = int(successors[node])
    return node


@given(cases())
def test_a_batch_equals_its_rows(case: tuple[np.ndarray, ...]) -> None:
    distances, to_goal, from_state, state_to_goal = case
    graph = KeypointGraph(distances, MAX_HOP, reach=1.0)
    routes = graph.routes(to_goal)
    hops = graph.next_hops(routes, from_state, state_to_goal)
    for b in range(len(to_goal)):
        single = graph.routes(to_goal[b])
        assert_array_equal(single.costs[0], routes.costs[b])
        assert_array_equal(single.successors[0], routes.successors[b])
        one = graph.next_hops(single, from_state[b : b + 1], state_to_goal[b : b + 1])
        assert [part[0] for part in one] == [part[b] for part in hops]


def test_chunks_of_goals_and_of_keypoints_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    distances, to_goal = rng.uniform(0, 20, (30, 30)), rng.uniform(0, 20, (11, 30))
    whole = KeypointGraph(distances, MAX_HOP).routes(to_goal)
    for chunk in (1, 70, 2000):  # less than a row, two rows, two goals
        monkeypatch.setattr("proq_agent.planning.graph._CHUNK", chunk)
        for one, other in zip(KeypointGraph(distances, MAX_HOP).routes(to_goal), whole, strict=True):
            assert_array_equal(one, other)


def test_a_reached_keypoint_is_left_for_its_successor() -> None:
    graph = line(reach=1.0)
    goal = np.array([[18.0, 0.0]])
    routes = graph.routes(apart(graph.points, goal).T)
    for x, target in [(1.5, 1), (3.0, 2), (4.0, 2), (16.0, 5), (17.0, 5)]:
        state = np.array([[x, 0.0]])
        hops = graph.next_hops(routes, apart(state, graph.points), apart(state, goal)[0])
        assert (hops.target[0], bool(hops.fallback[0])) == (target, False)
        assert hops.cost[0] == pytest.approx(18.0 - x, abs=2.0)


def test_path_lists_the_keypoints_and_ends_with_the_goal() -> None:
    graph = line()
    goal, state = np.array([[18.0, 0.0]]), np.array([[1.0, 0.0]])
    routes = graph.routes(apart(graph.points, goal).T)
    assert plan(graph, routes, apart(state, graph.points)[0], 17.0) == [1, 2, 3, 4, 5]
    assert plan(graph, routes, apart(state, graph.points), 3.0) == [5]


def test_a_goal_far_from_every_keypoint_is_reached_from_the_nearest_and_flagged() -> None:
    graph = line()
    routes = graph.routes(np.array([[40.0, 30.0, 20.0, 25.0, 40.0]]))
    assert_allclose(routes.costs - routes.costs[:, 2:3], [[8.0, 4.0, 0.0, 4.0, 8.0]], atol=1e-6)
    assert_array_equal(routes.successors, [[1, 2, 5, 2, 3]])
    hops = graph.next_hops(routes, np.array([[1.0, 3.0, 7.0, 11.0, 15.0]]), np.array([40.0]))
    assert (int(hops.target[0]), bool(hops.fallback[0])) in {(0, True), (1, True)}


def test_a_gap_is_bridged_where_it_is_narrowest_and_flagged() -> None:
    points = np.array([0.0, 4.0, 8.0, 14.0, 18.0, 22.0])[:, None]  # a gap of 6 in the middle, hops up to 5
    graph = KeypointGraph(apart(points, points), max_hop=5.0)
    assert graph.connectivity() == (12 / 30, 2)
    routes = graph.routes(apart(points, np.array([[23.0]])).T)
    assert graph.path(routes, 0) == [0, 1, 2, 3, 4, 6]
    assert routes.trusted.tolist() == [[False, False, False, True, True, True]]
    for state, target, fallback in ((-1.0, 0, True), (-9.0, 0, True), (15.0, 4, False)):
        from_state = apart(np.array([[state]]), points)
        hops = graph.next_hops(routes, from_state, np.array([23.0 - state]))
        assert (int(hops.target[0]), bool(hops.fallback[0])) == (target, fallback)


def test_without_any_route_the_nearest_free_keypoint_is_taken_at_unknown_cost() -> None:
    graph = line()
    graph.block(nodes=[1])
    routes = graph.routes(np.full(5, INF))
    from_state = np.array([[3.0, 1.0, 5.0, 9.0, 13.0]])
    hops = graph.next_hops(routes, from_state, np.array([INF]))
    assert (int(hops.target[0]), float(hops.cost[0]), bool(hops.fallback[0])) == (0, INF, True)
    assert plan(graph, routes, from_state) == [0]
    graph.block(nodes=range(5))
    hops = graph.next_hops(graph.routes(np.ones(5)), from_state, np.array([7.0]))
    assert (int(hops.target[0]), bool(hops.fallback[0])) == (5, True) and np.isfinite(hops.cost[0])


@given(cases(), st.data())
def test_blocking_a_node_equals_deleting_it(case: tuple[np.ndarray, ...], data: st.DataObject) -> None:
    distances, to_goal, from_state, state_to_goal = case
    n = len(distances)
    closed = data.draw(st.sets(st.integers(0, n - 1), max_size=n - 1))
    kept = np.array([k for k in range(n) if k not in closed])
    names = np.append(kept, n)
    graph, smaller = KeypointGraph(distances, MAX_HOP), KeypointGraph(distances[np.ix_(kept, kept)], MAX_HOP)
    graph.block(nodes=sorted(closed))
    routes, expected = graph.routes(to_goal), smaller.routes(to_goal[:, kept])
    assert_allclose(graph.costs[np.ix_(kept, kept)], smaller.costs)
    assert_allclose(routes.costs[:, kept], expected.costs)
    assert_array_equal(routes.successors[:, kept], np.where(expected.successors < 0, -1, names[expected.successors]))
    assert np.isinf(routes.costs[:, sorted(closed)]).all()
    hops = graph.next_hops(routes, from_state, state_to_goal)
    expected_hops = smaller.next_hops(expected, from_state[:, kept], state_to_goal)
    assert_array_equal(hops.target, names[expected_hops.target])
    assert_allclose(hops.cost, expected_hops.cost)
    assert_array_equal(hops.fallback, expected_hops.fallback)
    assert graph.connectivity() == smaller.connectivity()


@given(cases(), st.data())
def test_blocking_an_edge_equals_deleting_it_and_unblocking_restores_exactly(
    case: tuple[np.ndarray, ...], data: st.DataObject
) -> None:
    distances, to_goal, _, _ = case
    node = st.integers(0, len(distances) - 1)
    edges = data.draw(st.lists(st.tuples(node, node), min_size=1, max_size=5))
    graph = KeypointGraph(distances, MAX_HOP)
    before, routes = graph.costs.copy(), graph.routes(to_goal)
    first = graph.block(edges=edges)
    deleted = distances.copy()
    deleted[tuple(np.transpose(edges))] = INF
    assert_allclose(graph.costs, brute_force(deleted), rtol=1e-6, atol=1e-6)
    second = graph.block(nodes=edges[0][0])
    third = graph.penalise(*edges[-1], 3.0)
    for handle in data.draw(st.permutations([first, second, third])):
        graph.unblock(handle)
    assert_array_equal(graph.costs, before)
    for one, other in zip(graph.routes(to_goal), routes, strict=True):
        assert_array_equal(one, other)


def test_a_penalty_adds_up_reroutes_and_is_cleared_without_touching_blocks() -> None:
    detour = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 2.0], [2.0, 2.0, 0.0]])
    graph = KeypointGraph(detour, max_hop=2.0)
    graph.penalise(0, 1, 1.5)
    assert graph.costs[0, 1] == pytest.approx(2.5)
    graph.penalise(0, 1, 9.0)
    assert graph.costs[0, 1] == pytest.approx(4.0)  # by keypoint 2
    assert graph.costs[1, 0] == pytest.approx(1.0)  # the other direction is as it was
    graph.block(edges=[(2, 1)])
    assert graph.costs[0, 1] == pytest.approx(11.5)
    graph.clear_penalties()
    assert graph.costs[0, 1] == pytest.approx(1.0)
    assert np.isinf(graph.weights[2, 1])
    graph.penalise(np.array([0, 2]), 1, 1.0)
    graph.unblock()
    assert_allclose(graph.costs, detour)


def test_version_grows_with_every_change_and_only_then() -> None:
    graph = line()
    graph.unblock()
    graph.clear_penalties()
    assert graph.version == 0
    handle = graph.block(nodes=0)
    graph.penalise(1, 2, 1.0)
    graph.clear_penalties()
    graph.unblock(handle)
    assert graph.version == 4
    graph.routes(np.ones(5))
    assert graph.version == 4


def test_changes_cost_one_pass_of_shortest_paths_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[np.ndarray] = []

    def count(weights: np.ndarray) -> np.ndarray:
        passes.append(weights)
        return floyd_warshall(weights)

    monkeypatch.setattr(planner, "floyd_warshall", count)
    graph = line()
    for goal in (np.ones(5), np.arange(5.0)):
        graph.routes(goal)
    assert len(passes) == 1
    handle = graph.block(nodes=0)
    graph.block(edges=[(1, 2)])
    graph.penalise(2, 3, 1.0)
    for goal in (np.ones(5), np.arange(5.0)):
        graph.routes(goal)
    assert len(passes) == 2
    graph.unblock(handle)
    graph.routes(np.ones(5))
    assert len(passes) == 3


def ring() -> KeypointGraph:
    """Eight keypoints around a 20 x 20 square, so that there are two ways to everywhere."""
    points = np.array([[0, 0], [10, 0], [20, 0], [20, 10], [20, 20], [10, 20], [0, 20], [0, 10]], dtype=float)
    return KeypointGraph(apart(points, points), max_hop=11.0, points=points)


def in_strip(points: np.ndarray) -> np.ndarray:
    return (np.abs(points[:, 0] - 5.0) < 0.1) & (points[:, 1] < 5.0)


@pytest.mark.parametrize(
    "area",
    [
        {"box": ([4.9, -1.0], [5.1, 5.0])},
        {"box": ([5.0, -INF], [5.0, 5.0])},  # a line without any width
        {"region": in_strip},
    ],
)
def test_a_wall_between_keypoints_sends_the_plan_the_other_way_round(area: dict) -> None:
    graph = ring()
    to_goal = apart(graph.points, np.array([[15.0, 0.0]])).T
    start = apart(graph.points[7:8], graph.points)
    assert plan(graph, graph.routes(to_goal), start) == [0, 1, 8]
    handle = graph.block(**area)
    assert not graph.blocked.any()
    assert plan(graph, graph.routes(to_goal), start) == [6, 5, 4, 3, 2, 8]
    graph.unblock(handle)
    assert plan(graph, graph.routes(to_goal), start) == [0, 1, 8]


def test_a_box_and_a_region_close_the_keypoints_inside() -> None:
    graph = ring()
    graph.block(box=([-1.0, -1.0], [1.0, 1.0]), region=lambda points: points.sum(axis=1) > 39.0)
    assert_array_equal(np.flatnonzero(graph.blocked), [0, 4])
    assert graph.connectivity().n_components == 2
    graph.block(nodes=range(8))
    assert graph.connectivity() == (0.0, 0)


@given(arrays(np.float64, (4, 2, 3), elements=st.integers(-3, 3).map(float)))
def test_the_exact_box_agrees_with_sampling(corners: np.ndarray) -> None:
    """On a coarse lattice a segment that touches the widened box comes within a sample of it."""
    low, high = np.sort(corners[0], axis=0)
    starts, ends = corners[1:, 0], corners[1:, 1]
    points = np.concatenate([starts, ends])
    graph = KeypointGraph(apart(points, points), max_hop=100.0, points=points)
    graph.block(box=(low, high))
    samples = starts[:, None] + np.linspace(0, 1, 1261)[:, None] * (ends - starts)[:, None]
    slack = 0.01
    inside = ((samples >= low - slack) & (samples <= high + slack)).all(axis=2)
    strictly = ((samples >= low) & (samples <= high)).all(axis=2).any(axis=1)
    hit = np.isinf(graph.mask_blocked(np.ones(3), starts, ends)) | graph.blocked[:3]
    assert (strictly <= hit).all()
    assert (hit <= inside.any(axis=1)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hops_of_states_and_goals_through_a_wall_are_masked(dtype: type) -> None:
    graph = ring()
    states = np.array([[4.0, 0.0], [5.0, 0.0]], dtype=dtype)  # before the wall, and caught in it
    distances = apart(states, graph.points)
    assert graph.mask_blocked(distances, states[:, None], graph.points) is distances
    graph.block(box=([4.5, -2.0], [5.5, 0.1]))
    masked = graph.mask_blocked(distances, states[:, None], graph.points.astype(dtype))
    assert_array_equal(np.flatnonzero(np.isinf(masked[0])), [1, 2])
    assert_array_equal(masked[1], distances[1])
    assert_array_equal(graph.mask_blocked(np.ones(2), states, states[::-1]), [INF, 1.0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda graph: graph.block(), "at least one of"),
        (lambda graph: graph.block(nodes=[5]), r"within 0\.\.4"),
        (lambda graph: graph.block(nodes=[-1]), r"within 0\.\.4"),
        (lambda graph: graph.block(nodes=[0.5]), "integer"),
        (lambda graph: graph.block(edges=[(0, 1, 2)]), "pairs"),
        (lambda graph: graph.block(box=([0.0], [1.0])), "2 coordinates"),
        (lambda graph: graph.block(box=([1.0, 1.0], [0.0, 2.0])), "low <= high"),
        (lambda graph: graph.block(region=lambda points: points > 0), "region must map"),
        (lambda graph: graph.penalise(0, 1, -1.0), "non-negative"),
        (lambda graph: graph.penalise(0, 1, INF), "block"),
        (lambda graph: graph.unblock(7), "No block or penalty 7"),
        (lambda graph: graph.routes(np.ones(4)), "to_goal"),
        (lambda graph: graph.routes(np.full(5, np.nan)), "to_goal"),
        (lambda graph: KeypointGraph(np.ones((2, 3)), 1.0), "square"),
        (lambda graph: KeypointGraph(np.ones((0, 0)), 1.0), "K >= 1"),
        (lambda graph: KeypointGraph(-np.ones((2, 2)), 1.0), "negative"),
        (lambda graph: KeypointGraph(np.full((2, 2), np.nan), 1.0), "NaN"),
        (lambda graph: KeypointGraph(np.ones((2, 2)), 0.0), "max_hop"),
        (lambda graph: KeypointGraph(np.ones((2, 2)), 1.0, points=np.ones((3, 2))), "points"),
        (lambda graph: KeypointGraph(np.ones((2, 2)), 1.0).block(box=([0.0], [1.0])), "points="),
    ],
)
def test_bad_input_is_named_and_changes_nothing(change, message: str) -> None:
    graph = line()
    with pytest.raises(ValueError, match=message):
        change(graph)
    assert graph.version == 0


@given(cases(), st.data())
def test_a_penalty_is_paid_and_shortens_no_reach(case: tuple[np.ndarray, ...], data: st.DataObject) -> None:
    """Hops with penalties cost so much more; what is within a hop, reached or a fallback depends on length alone."""
    distances, to_goal, from_state, state_to_goal = case
    graph = KeypointGraph(distances, MAX_HOP)
    penalty = data.draw(st.sampled_from([0.5, 7.0, 1e3]))
    plain = graph.next_hops(graph.routes(to_goal), from_state, state_to_goal)
    dear = graph.next_hops(
        graph.routes(to_goal, np.full_like(to_goal, penalty)), from_state, state_to_goal, 0.0, np.array(penalty)
    )
    assert_array_equal(dear.fallback, plain.fallback)  # each way has exactly one last hop
    assert_allclose(dear.cost, plain.cost + penalty, rtol=1e-6, atol=1e-6)


def test_a_penalised_first_hop_gives_way_to_another_within_reach() -> None:
    graph = line()
    routes, from_state, far = (
        graph.routes(np.array([INF, INF, INF, INF, 0.0])),
        np.array([[1.0, 3.0, INF, INF, INF]]),
        np.array([INF]),
    )
    assert graph.next_hops(routes, from_state, far).target == 1
    hops = graph.next_hops(routes, from_state, far, np.array([[0.0, 50.0, 0.0, 0.0, 0.0]]))
    assert hops.target == 0 and not hops.fallback and hops.cost == pytest.approx(17.0)


def test_what_is_barred_stays_so() -> None:
    graph = line(barred=[2])
    handle = graph.block(nodes=3)
    assert graph.blocked.tolist() == [False, False, True, True, False]
    graph.unblock(handle)
    graph.unblock()
    assert graph.blocked.tolist() == [False, False, True, False, False]
