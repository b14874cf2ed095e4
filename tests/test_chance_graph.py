"""Plans with chance nodes, against brute force over policies and against simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proq_agent.chance.edges import ChanceEdge
from proq_agent.planning.chance_graph import ChanceGraph, ChanceNodes
from proq_agent.planning.graph import KeypointGraph

INF = np.inf


def chance_graph(distances: np.ndarray, max_hop: float, entrances=(), outcomes=None) -> ChanceGraph:
    outcomes = np.empty((0, len(distances))) if outcomes is None else outcomes
    return ChanceGraph(KeypointGraph(distances, max_hop), ChanceNodes(np.array(entrances, dtype=np.intp), outcomes))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Distances of a few nodes, some of them entrances with random outcomes, and distances to a goal."""
    n = draw(st.integers(3, 5))
    entry = st.sampled_from([1.0, 2.0, 5.0, INF, INF])
    distances = np.array(draw(st.lists(entry, min_size=n * n, max_size=n * n))).reshape(n, n)
    to_goal = np.array(draw(st.lists(st.sampled_from([1.0, INF, INF]), min_size=n, max_size=n)))
    to_goal[draw(st.integers(0, n - 1))] = 1.0
    entrances = np.array(sorted(draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=2))))
    outcomes = np.zeros((len(entrances), n))
    for row in outcomes:
        for node in draw(st.lists(st.integers(0, n - 1), min_size=2, max_size=2)):
            row[node] += 0.5
    return distances, to_goal, entrances, outcomes


def policy_value(distances, to_goal, entrances, outcomes, policy) -> np.ndarray:
    """Probability of reaching the goal from each node when each node always takes the same edge (n is the goal)."""
    n = len(distances)
    transition = np.zeros((n + 1, n + 1))
    transition[n, n] = 1.0
    for node in range(n):
        if node in entrances:
            transition[node, :n] = outcomes[list(entrances).index(node)]
        else:
            transition[node, policy[node]] = 1.0
    reached = np.zeros(n + 1)
    reached[n] = 1.0
    return (np.linalg.matrix_power(transition, 4096) @ reached)[:n]


@settings(max_examples=60)
@given(graphs())
def test_the_odds_are_those_of_the_best_policy(case):
    distances, to_goal, entrances, outcomes = case
    n = len(distances)
    to_goal[entrances] = INF
    if not np.isfinite(to_goal).any():
        return
    options = [
        [n] * bool(np.isfinite(to_goal[i])) + [j for j in range(n) if distances[i, j] < INF] or [i] for i in range(n)
    ]
    best = np.max([policy_value(*case, policy) for policy in itertools.product(*options)], axis=0)
    routes = chance_graph(distances, 10.0, entrances, outcomes).routes(to_goal)
    np.testing.assert_allclose(routes.odds[0], best, atol=1e-6)


@settings(max_examples=40)
@given(graphs())
def test_without_entrances_it_is_the_deterministic_plan(case):
    distances, to_goal, _, _ = case
    plain, chance = (kind(distances, 10.0).routes(to_goal) for kind in (KeypointGraph, chance_graph))
    for one, other in zip(plain, chance, strict=True):
        np.testing.assert_array_equal(one, other)


def line(n: int) -> np.ndarray:
    """Nodes in a row, one step apart, that can be walked in both directions."""
    nodes = np.arange(n)
    return np.where(np.abs(nodes[:, None] - nodes) == 1, 1.0, INF)


def with_portal(detour: bool) -> ChanceGraph:
    """Nodes 0-5 in a row, node 6 beside 0 an entrance to 5 or to the sealed node 7, one half each."""
    distances = np.full((8, 8), INF)
    distances[:6, :6] = line(6)
    distances[0, 6] = 1.0
    if not detour:
        distances[2, 3] = distances[3, 2] = INF
    outcomes = np.zeros((1, 8))
    outcomes[0, [5, 7]] = 0.5
    return chance_graph(distances, 2.0, [6], outcomes)


def to_node(node: int, n: int = 8) -> np.ndarray:
    return np.where(np.arange(n) == node, 0.5, INF)


def test_a_safe_detour_is_walked_although_the_portal_is_shorter():
    graph = with_portal(detour=True)
    routes = graph.routes(to_node(5))
    assert routes.successors[0, 0] == 1
    assert routes.costs[0, 0] == pytest.approx(5.5)
    assert graph.graph.path(routes, 0) == [0, 1, 2, 3, 4, 5, 8]


@pytest.mark.parametrize(("length", "trusted"), [(4.0, True), (4.1, False)])
def test_a_last_hop_that_is_not_trusted_promises_nothing(length, trusted):
    graph = with_portal(detour=True)  # hops of up to twice max_hop are trusted
    routes = graph.routes(np.where(np.arange(8) == 3, length, INF))
    np.testing.assert_array_equal(routes.trusted[0, :6], trusted)
    hops = graph.next_hops(routes, to_node(0)[None], np.array([INF]))
    assert (hops.odds[0], hops.fallback[0]) == ((1.0, False) if trusted else (0.0, True))


def test_where_chance_has_no_part_costs_are_those_of_the_walk_to_the_last_digit():
    distances = np.full((8, 8), INF)
    distances[:6, :6] = line(6) * np.array([0.1, 0.7, 0.3, 0.9, 0.6, 0.4])
    outcomes = np.zeros((1, 8))
    outcomes[0, [5, 7]] = 0.5
    graph = chance_graph(distances, 2.0, [6], outcomes)
    routes, walk = (one.routes(to_node(5) / 3.0) for one in (graph, graph.graph))
    np.testing.assert_array_equal(routes.costs[0, :6], walk.costs[0, :6])


def test_a_portal_that_is_the_only_way_is_taken():
    graph = with_portal(detour=False)
    routes = graph.routes(to_node(5))
    assert routes.successors[0, :3].tolist() == [6, 0, 1]
    assert routes.odds[0][[0, 3, 6, 7]] == pytest.approx([0.5, 1.0, 0.5, 0.0])
    # One step to the entrance, one to be moved, half a step from node 5 to the goal.
    assert routes.costs[0, 0] == pytest.approx(1.0 + 1.0 + 0.5)
    assert graph.graph.path(routes, 2) == [2, 1, 0, 6]


def test_a_gap_in_the_keypoints_is_no_reason_to_gamble():
    graph = with_portal(detour=True)  # hops of at most 2
    for gap, onward, odds in ((3.9, 1, 1.0), (4.1, 6, 0.5)):
        distances = graph.graph.distances.copy()
        distances[2, 3] = gap
        gapped = chance_graph(distances, 2.0, graph.nodes.entrances, graph.nodes.outcomes)
        routes = gapped.routes(to_node(5))
        assert routes.successors[0, 0] == onward and routes.odds[0, 0] == odds
        before_gap = np.full(8, INF)
        before_gap[[3, 6]] = gap, 1.0  # an agent that sees the far side and the entrance alone
        hops = gapped.graph.next_hops(routes, before_gap[None], np.array([INF]))
        assert hops.target == (3 if onward == 1 else 6) and hops.odds == odds


def test_of_two_portals_the_surer_is_taken_even_if_it_is_farther():
    # 0-1-2-3 in a row; 4 beside 0 leads to the goal's node 6 with 0.3, 5 beside 3 with 0.7; 7 is a dead end.
    distances = np.full((8, 8), INF)
    distances[:4, :4] = line(4)
    distances[0, 4] = distances[3, 5] = 1.0
    outcomes = np.zeros((2, 8))
    outcomes[0, [6, 7]] = 0.3, 0.7
    outcomes[1, [6, 7]] = 0.7, 0.3
    graph = chance_graph(distances, 2.0, [4, 5], outcomes)
    routes = graph.routes(to_node(6))
    assert routes.successors[0, :4].tolist() == [1, 2, 3, 5]
    assert routes.odds[0][0] == pytest.approx(0.7)


def test_what_can_be_tried_again_and_again_is_sure_and_its_cost_counts_every_try():
    # From 0 one step to entrance 1, which leads to the goal's node 2 or back to 0: certain, in two tries on average.
    distances = np.full((3, 3), INF)
    distances[0, 1] = 1.0
    graph = chance_graph(distances, 2.0, [1], np.array([[0.5, 0.0, 0.5]]))
    routes = graph.routes(to_node(2, 3))
    assert routes.odds[0, 0] == pytest.approx(1.0)
    assert routes.costs[0, 0] == pytest.approx(2 * (1.0 + 1.0) + 0.5, rel=1e-6)


def test_the_promised_odds_are_met_by_playing():
    graph = with_portal(detour=False)
    routes = graph.routes(to_node(5))
    rng = np.random.default_rng(0)
    wins = 0
    for _ in range(2000):
        node = 2
        for _ in range(50):
            if node == 6:
                node = int(rng.choice(8, p=graph.nodes.outcomes[0]))
            onward = int(routes.successors[0, node])
            if onward == 8:
                wins += 1
                break
            if onward < 0:
                break
            node = onward
    assert wins / 2000 == pytest.approx(0.5, abs=0.04)


def test_rows_of_a_batch_do_not_mix():
    graph = with_portal(detour=False)
    goals = np.stack([to_node(5), to_node(2), to_node(7)])
    batch = graph.routes(goals)
    for row, goal in enumerate(goals):
        for together, alone in zip(batch, graph.routes(goal), strict=True):
            np.testing.assert_array_equal(together[row], alone[0])


def test_outcomes_that_are_no_probabilities_are_refused():
    with pytest.raises(ValueError, match="sum to one"):
        chance_graph(line(3), 2.0, [1], np.array([[0.5, 0.0, 0.2]]))


def test_a_blocked_entrance_is_not_played():
    graph = with_portal(detour=False).with_closures(np.arange(8) == 6, 0.0)
    routes = graph.routes(to_node(5))
    assert routes.odds[0].tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    at_entrance = np.where(np.arange(8) == 6, 0.5, np.where(np.arange(8) == 0, 1.5, INF))
    hops = graph.graph.next_hops(routes, at_entrance[None], np.array([INF]))
    assert hops.target == 0 and hops.fallback and np.isinf(hops.cost)


def test_without_a_plan_nobody_gambles():
    graph = with_portal(detour=False)
    beside_entrance = np.where(np.arange(8) == 6, 0.5, np.where(np.arange(8) == 1, 1.5, INF))
    hops = graph.graph.next_hops(graph.routes(np.full(8, INF)), beside_entrance[None], np.array([INF]))
    assert hops.target == 1 and hops.fallback  # no route at all: the nearest place to stand on
    off_the_map = np.where(np.arange(8) == 6, 4.5, np.where(np.arange(8) == 3, 4.6, INF))
    hops = graph.graph.next_hops(graph.routes(to_node(5)), off_the_map[None], np.array([INF]))
    assert hops.target == 3 and hops.fallback  # beyond every hop: the surest, then the nearest


@pytest.mark.parametrize("luck", [0.5, 1e-2, 1e-4, 1e-5])
def test_rare_luck_costs_no_time_and_is_counted_right(luck):
    # From 0 one step to entrance 1, which leads to the goal's node 2 with little luck, or back to 0.
    distances = np.full((3, 3), INF)
    distances[0, 1] = 1.0
    graph = chance_graph(distances, 2.0, [1], np.array([[1.0 - luck, 0.0, luck]]))
    routes = graph.routes(to_node(2, 3))
    assert routes.odds[0][0] == pytest.approx(1.0)
    assert routes.costs[0][0] == pytest.approx(2.0 / luck + 0.5, rel=1e-6)
    assert (routes.odds[0, :2] == 1.0).all()  # to the last digit: a billionth less would count as a step


def test_odds_that_differ_by_rounding_are_equal_and_the_shorter_way_is_taken():
    # Entrances 2 and 3 lead to the goal's node 4 with little luck, or back before them: 0 and 1. Both are sure.
    distances = np.full((5, 5), INF)
    distances[0, 2] = distances[1, 3] = 1.0
    near, far = 1.1e-5, 1.0e-5
    outcomes = np.array([[1 - near, 0, 0, 0, near], [0, 1 - far, 0, 0, far]])
    for swapped in (outcomes, outcomes[[1, 0]][:, [1, 0, 2, 3, 4]]):
        graph = chance_graph(distances, 2.0, [2, 3], swapped)
        routes = graph.routes(to_node(4, 5))
        assert (routes.odds[0, :4] == 1.0).all()
        shorter = int(routes.costs[0, :2].argmin())
        assert swapped[shorter, 4] == near
        hops = graph.graph.next_hops(routes, np.array([[1.0, 1.0, INF, INF, INF]]), np.array([INF]))
        assert hops.target == shorter and hops.odds == 1.0


def test_a_way_by_a_long_hop_is_no_short_cut_for_what_is_sure():
    # From 0 to the goal's node 2 by a hop too long to be trusted, or by entrance 1, in ten thousand tries.
    luck = 1e-4
    distances = np.full((3, 3), INF)
    distances[0, 1], distances[0, 2] = 1.0, 4.1
    graph = chance_graph(distances, 2.0, [1], np.array([[1.0 - luck, 0.0, luck]]))
    assert graph.graph.routes(to_node(2, 3)).costs[0, 0] < 100.0  # the long hop seems to be cheaper by far
    routes = graph.routes(to_node(2, 3))
    assert routes.successors[0, 0] == 1 and routes.odds[0, 0] == 1.0
    assert routes.costs[0, 0] == pytest.approx(2.0 / luck + 0.5, rel=1e-6)


def test_chance_edges_become_nodes_after_the_keypoints():
    edges = [
        ChanceEdge(np.array([1.0, 0.0]), 0.5, np.array([[2.0, 0.0], [3.0, 0.0]]), np.array([0.8, 0.2]), 10),
        ChanceEdge(np.array([4.0, 0.0]), 0.5, np.array([[5.0, 0.0]]), np.array([1.0]), 7),
    ]
    nodes, points = ChanceNodes.after(3, edges)
    np.testing.assert_array_equal(nodes.entrances, [3, 4])
    np.testing.assert_array_equal(np.array(points)[:, 0], [1, 4, 2, 3, 5])
    np.testing.assert_array_equal(nodes.outcomes, [[0, 0, 0, 0, 0, 0.8, 0.2, 0], [0, 0, 0, 0, 0, 0, 0, 1.0]])


def test_outcomes_of_other_nodes_are_refused():
    with pytest.raises(ValueError, match="of 2 nodes, the graph has 3"):
        chance_graph(line(3), 2.0, [1], np.array([[0.5, 0.5]]))


def test_edges_become_nodes_that_share_their_exits_and_know_how_long_to_wait():
    exits = np.array([[9.0, 0.0], [0.0, 9.0]])
    sure = ChanceEdge(np.array([1.0, 1.0]), 1.0, exits, np.array([0.75, 0.25]), 100)
    slow = ChanceEdge(np.array([5.0, 5.0]), 1.0, exits[1:], np.ones(1), 100, rate=0.02)
    nodes, points = ChanceNodes.after(3, [sure, slow])
    np.testing.assert_array_equal(points, [[1.0, 1.0], [5.0, 5.0], [9.0, 0.0], [0.0, 9.0]])
    np.testing.assert_array_equal(nodes.entrances, [3, 4])
    np.testing.assert_array_equal(nodes.outcomes[:, 5:], [[0.75, 0.25], [0.0, 1.0]])
    np.testing.assert_allclose(nodes.waits, [1.0, 50.0])
    assert len(nodes.hazards) == 1
