"""The graph against brute force: Floyd-Warshall on every node, deletion instead of blocking, rows one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from straight_map import apart

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


LINE = np.array([[0.0], [4.0], [8.0], [12.0], [16.0]])


def line(points: np.ndarray = LINE, **kwargs: Any) -> KeypointGraph:
    """An obstacle-free corridor."""
    return KeypointGraph(apart(points, points), **{"max_hop": 5.0, **kwargs})


def among(n: int, nodes: Any) -> np.ndarray:
    """Nodes as a mask."""
    return np.isin(np.arange(n), np.array(nodes, dtype=int))


def surcharges(n: int, edges: Any, cost: float = INF) -> np.ndarray:
    extra = np.zeros((n, n))
    extra[tuple(np.transpose(edges))] = cost
    return extra


def plan(graph: KeypointGraph, routes: Routes, from_state: np.ndarray, state_to_goal: float = INF) -> list[int]:
    hops = graph.next_hops(routes, np.atleast_2d(from_state), np.array([state_to_goal]))
    return graph.path(routes, hops.target[0])


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
    graph = line(LINE[:4], max_hop=9.0)  # 0 -> 2 directly, or by 1 at the same cost
    assert plan(graph, graph.routes(np.array([INF, INF, 0.0, INF])), np.array([1.0, INF, INF, INF])) == [0, 2, 4]


def test_a_one_way_door_is_passed_one_way_only() -> None:
    distances = np.array([[0.0, 1.0], [INF, 0.0]])
    graph = KeypointGraph(distances, max_hop=2.0)
    assert_allclose(graph.costs, [[0.0, 1.0], [INF, 0.0]])
    assert graph.connectivity() == (0.5, 2)


def can_be_walked(distances: np.ndarray, to_goal: np.ndarray) -> np.ndarray:
    """From which keypoints there is a way to the goal without a long hop."""
    walked = to_goal <= MAX_HOP
    for _ in distances:
        walked = walked | ((distances <= MAX_HOP) & walked).any(axis=1)
    return walked


@settings(max_examples=150)
@given(cases(), st.sampled_from([0.0, 1.0, 5.0]))
@example((np.zeros((1, 1)), np.array([[10.0]]), np.array([[10.0]]), np.array([11.0])), 0.0)
def test_next_hop_is_the_cheapest_of_the_surest_options(case: tuple[np.ndarray, ...], reach: float) -> None:
    distances, to_goal, from_state, state_to_goal = case
    n = len(distances)
    graph = KeypointGraph(distances, MAX_HOP, reach)
    routes = graph.routes(to_goal)
    hops = graph.next_hops(routes, from_state, state_to_goal)
    for b in range(len(to_goal)):
        options = {k: float(hop_cost(from_state[b, k], n) + routes.costs[b, k]) for k in range(n)}
        options[n] = float(hop_cost(state_to_goal[b], n))
        walked = (from_state[b] <= MAX_HOP) & can_be_walked(distances, to_goal[b])
        trusted = {k: options[k] for k in np.flatnonzero(np.append(walked, state_to_goal[b] <= MAX_HOP))}
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
    goal = np.array([[18.0]])
    routes = graph.routes(apart(LINE, goal).T)
    for x, target in [(1.5, 1), (3.0, 2), (4.0, 2), (16.0, 5), (17.0, 5)]:
        state = np.array([[x]])
        hops = graph.next_hops(routes, apart(state, LINE), apart(state, goal)[0])
        assert (hops.target[0], bool(hops.fallback[0])) == (target, False)
        assert hops.cost[0] == pytest.approx(18.0 - x, abs=2.0)


def test_a_reached_keypoint_is_gone_to_when_the_hop_from_here_to_its_successor_has_failed() -> None:
    graph = line(reach=1.0)
    routes = graph.routes(apart(LINE, np.array([[18.0]])).T)
    state = np.array([[3.0]])
    penalties = np.zeros((1, len(LINE)))
    penalties[0, 2] = graph.max_hop
    hops = graph.next_hops(routes, apart(state, LINE), np.array([15.0]), penalties)
    assert hops.target[0] == 1
    at_the_end = graph.next_hops(routes, apart(LINE[4:], LINE), np.array([2.0]), goal_penalties=np.array([50.0]))
    assert at_the_end.target[0] == 4


def test_of_several_reached_keypoints_none_is_the_target() -> None:
    points = np.array([[0.0], [0.3], [0.6], [0.9], [4.0]])
    graph = line(points, max_hop=0.35, reach=1.0)  # so short that each of the first four is on the way
    routes = graph.routes(apart(points, np.array([[8.0]])).T)
    hops = graph.next_hops(routes, apart(np.array([[0.0]]), points), np.array([8.0]))
    assert hops.target[0] == 4


def test_path_lists_the_keypoints_and_ends_with_the_goal() -> None:
    graph = line()
    goal, state = np.array([[18.0]]), np.array([[1.0]])
    routes = graph.routes(apart(LINE, goal).T)
    assert plan(graph, routes, apart(state, LINE)[0], 17.0) == [1, 2, 3, 4, 5]
    assert plan(graph, routes, apart(state, LINE), 3.0) == [5]


def test_of_equal_ways_the_one_straight_to_the_goal_is_taken() -> None:
    graph = line(LINE[:1], max_hop=10.0)
    routes = graph.routes(np.array([[5.0]]))
    for direct, target in ((10.0, 1), (np.nextafter(10.0, 11.0), 0)):
        assert graph.next_hops(routes, np.array([[5.0]]), np.array([direct])).target[0] == target


def test_a_last_hop_far_longer_than_the_others_does_not_hide_which_way_is_shorter() -> None:
    graph = line()
    routes = graph.routes(np.array([[2e9, 2e9, 2e9, 1e9, 2e9]]))  # from the fourth keypoint, whatever it takes
    assert_array_equal(routes.successors, [[1, 2, 3, 5, 3]])
    assert not routes.trusted.any() and np.isfinite(routes.costs).all()


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
    for state, target, fallback in ((-1.0, 1, True), (-9.0, 0, True), (15.0, 4, False)):
        from_state = apart(np.array([[state]]), points)
        hops = graph.next_hops(routes, from_state, np.array([23.0 - state]))
        assert (int(hops.target[0]), bool(hops.fallback[0])) == (target, fallback)


def test_without_any_route_the_nearest_free_keypoint_is_taken_at_unknown_cost() -> None:
    graph = line(blocked=among(5, [1]))
    routes = graph.routes(np.full(5, INF))
    from_state = np.array([[3.0, 1.0, 5.0, 9.0, 13.0]])
    hops = graph.next_hops(routes, from_state, np.array([INF]))
    assert (int(hops.target[0]), float(hops.cost[0]), bool(hops.fallback[0])) == (0, INF, True)
    assert plan(graph, routes, from_state) == [0]
    graph = line(blocked=True)
    hops = graph.next_hops(graph.routes(np.ones(5)), from_state, np.array([7.0]))
    assert (int(hops.target[0]), bool(hops.fallback[0])) == (5, True) and np.isfinite(hops.cost[0])


@given(cases(), st.data())
def test_blocking_a_node_equals_deleting_it(case: tuple[np.ndarray, ...], data: st.DataObject) -> None:
    distances, to_goal, from_state, state_to_goal = case
    n = len(distances)
    closed = sorted(data.draw(st.sets(st.integers(0, n - 1), max_size=n - 1)))
    kept = np.array([k for k in range(n) if k not in closed])
    names = np.append(kept, n)
    graph = KeypointGraph(distances, MAX_HOP, blocked=among(n, closed))
    smaller = KeypointGraph(distances[np.ix_(kept, kept)], MAX_HOP)
    routes, expected = graph.routes(to_goal), smaller.routes(to_goal[:, kept])
    assert_allclose(graph.costs[np.ix_(kept, kept)], smaller.costs)
    assert_array_equal(graph.hops[np.ix_(kept, kept)], smaller.hops)
    assert not graph.hops[closed].any() and not graph.hops[:, closed].any()
    assert_allclose(routes.costs[:, kept], expected.costs)
    assert_array_equal(routes.successors[:, kept], np.where(expected.successors < 0, -1, names[expected.successors]))
    assert np.isinf(routes.costs[:, closed]).all()
    hops = graph.next_hops(routes, from_state, state_to_goal)
    expected_hops = smaller.next_hops(expected, from_state[:, kept], state_to_goal)
    assert_array_equal(hops.target, names[expected_hops.target])
    assert_allclose(hops.cost, expected_hops.cost)
    assert_array_equal(hops.fallback, expected_hops.fallback)
    assert graph.connectivity() == smaller.connectivity()


@given(cases(), st.data())
def test_an_infinite_surcharge_equals_deleting_the_edge(case: tuple[np.ndarray, ...], data: st.DataObject) -> None:
    distances = case[0]
    n = len(distances)
    node = st.integers(0, n - 1)
    edges = np.array(data.draw(st.lists(st.tuples(node, node), min_size=1, max_size=5)))
    graph = KeypointGraph(distances, MAX_HOP, surcharges=surcharges(n, edges))
    deleted = distances.copy()
    deleted[tuple(edges.T)] = INF
    assert_allclose(graph.costs, brute_force(deleted), rtol=1e-6, atol=1e-6)
    assert_array_equal(graph.hops, KeypointGraph(deleted, MAX_HOP).hops)
    assert not graph.hops[tuple(edges.T)].any()


def test_a_surcharge_is_paid_in_its_direction_and_reroutes() -> None:
    detour = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 2.0], [2.0, 2.0, 0.0]])
    for extra, cost in ((1.5, 2.5), (10.5, 4.0)):  # the latter by keypoint 2
        graph = KeypointGraph(detour, max_hop=2.0, surcharges=surcharges(3, [(0, 1)], extra))
        assert graph.costs[0, 1] == pytest.approx(cost)
        assert graph.costs[1, 0] == pytest.approx(1.0)


def test_with_closures_leaves_the_graph_itself_as_it_was() -> None:
    graph = line()
    before = graph.costs
    closed = graph.with_closures(among(5, [2]), surcharges(5, [(0, 1)], 7.0))
    assert closed.blocked[2] and closed.costs[0, 1] == pytest.approx(11.0)
    assert graph.costs is before and not graph.blocked.any()
    assert_array_equal(closed.with_closures(among(5, []), 0.0).costs, before)
    for array in (graph.distances, graph.weights, graph.costs, closed.blocked):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_a_terminal_is_where_a_way_may_end_and_none_goes_on() -> None:
    graph = line().ending_at(among(5, [2]), trusted_hop=8.0)
    assert np.isinf(graph.costs[2, [0, 1, 3, 4]]).all() and np.isfinite(graph.costs[[0, 1, 3, 4], 2]).all()
    routes = graph.routes(np.full(5, 1.0))
    assert routes.successors[0, 2] == -1
    assert graph.routes(np.array([[INF] * 4 + [0.0]])).trusted.tolist() == [[True, True, False, True, True]]
    lost = graph.next_hops(graph.routes(np.full(5, INF)), np.array([[9.0, 5.0, 1.0, 3.0, 7.0]]), np.array([INF]))
    assert lost.target[0] == 3  # nobody waits at a terminal
    assert graph.with_closures(among(5, [0]), 0.0).trusted_hop == 8.0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: line().routes(np.ones(4)), "to_goal"),
        (lambda: line().routes(np.full(5, np.nan)), "to_goal"),
        (lambda: KeypointGraph(np.ones((2, 3)), 1.0), "square"),
        (lambda: KeypointGraph(np.ones((0, 0)), 1.0), "K >= 1"),
        (lambda: KeypointGraph(-np.ones((2, 2)), 1.0), "negative"),
        (lambda: KeypointGraph(np.full((2, 2), np.nan), 1.0), "NaN"),
        (lambda: KeypointGraph(np.ones((2, 2)), 0.0), "max_hop"),
    ],
)
def test_bad_input_is_named(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


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
