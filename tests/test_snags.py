"""One bump into a wall tells about all hops through it."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th

from proq_agent.planning.graph import KeypointGraph
from proq_agent.planning.snags import Snags


@pytest.fixture
def line() -> Snags:
    """Keypoints 0, 1, ... 9 on a line, hops up to 4."""
    points = np.arange(10.0)[:, None]
    graph = KeypointGraph(np.abs(points - points.T), max_hop=4.0, points=points)
    return Snags(graph, th.cdist, th.as_tensor(points), slack=0.5)


def position(x: float) -> th.Tensor:
    return th.tensor([x], dtype=th.float64)


def test_a_snag_penalises_the_edges_that_lead_past_it_in_its_direction(line):
    line.add(position(4.2), position(7.0), cost=100.0)
    extra = line.graph.weights - line.graph.distances
    for i in range(10):
        for j in range(10):
            if 0 < abs(i - j) <= 4:
                past = i <= 4 < j
                assert extra[i, j] == pytest.approx(100.0 if past else 0.0, abs=1e-6), (i, j)


def test_a_snag_penalises_hops_from_states_and_to_goals_alike(line):
    line.add(position(4.2), position(7.0), cost=100.0)
    starts, ends = np.array([3.7, 4.2, 6.1]), np.array([2.0, 5.5, 9.5])
    distances = np.abs(starts[:, None] - ends)
    penalties = line.penalties(distances, th.as_tensor(starts[:, None, None]), th.as_tensor(ends[:, None]))
    np.testing.assert_array_equal(penalties, [[0, 100, 100], [0, 100, 100], [0, 0, 0]])


def test_snags_add_up_and_go_with_the_penalties_of_the_graph(line):
    hop = np.array([3.0]), position(4.0)[None], position(7.0)[None]
    assert line.penalties(*hop) == 0.0
    for total in (10.0, 20.0):
        line.add(position(4.2), position(7.0), cost=10.0)
        assert line.penalties(*hop) == total
    line.graph.block(nodes=0)
    assert line.penalties(*hop) == 20.0
    line.graph.clear_penalties()
    assert line.penalties(*hop) == 0.0
    assert line.graph.blocked[0]


def test_a_closed_place_closes_what_leads_past_in_both_directions_until_its_block_is_lifted(line):
    place = position(4.2)[None]
    edges = line.edges_past(place)
    assert {(3, 6), (6, 3), (3, 5), (5, 4)} <= set(map(tuple, edges.tolist()))
    assert not {(0, 3), (3, 0), (9, 5), (5, 9)} & set(map(tuple, edges.tolist()))
    handle = line.graph.block(edges=edges)
    line.close(place, handle)
    starts, ends = th.tensor([[3.0], [4.3], [6.0]]), th.tensor([[7.0], [7.0], [2.0]])
    distances = np.array([4.0, 2.7, 4.0])
    np.testing.assert_array_equal(line.penalties(distances, starts.double(), ends.double()), [np.inf, 0.0, np.inf])
    line.graph.unblock(handle)
    assert line.penalties(distances, starts.double(), ends.double()) == 0.0
