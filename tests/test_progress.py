"""An agent that gets no closer notices, remembers where, and goes another way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch as th
from grid_maze import GridMaze
from test_end_to_end import SMALL

from proq_agent import ProQ
from proq_agent.planner import KeypointGraph
from proq_agent.progress import Progress, ProgressMonitor, Snags
from wrappers import KeypointGoal

RING = """
###########
#.........#
#.#######.#
#.#######.#
#.........#
###########
"""
WALLED_RING = RING.replace("#.........#", "#....#....#", 1)
WALL = (4.5, 0.5), (5.5, 1.5)
LEFT, RIGHT = np.array([2.0, 1.0], np.float32), np.array([8.0, 1.0], np.float32)


# ------------------------------------------------------------------------------------------------- on a line of points


@pytest.fixture
def line() -> Snags:
    """Keypoints 0, 1, ... 9 on a line, hops up to 4."""
    points = np.arange(10.0)[:, None]
    graph = KeypointGraph(np.abs(points - points.T), max_hop=4.0, points=points)
    return Snags(graph, lambda x, y: (x - y).abs().sum(-1), th.as_tensor(points), slack=0.5)


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
    cost = line.surcharge(distances, th.as_tensor(starts[:, None, None]), th.as_tensor(ends[:, None]))
    np.testing.assert_allclose(cost - distances, [[0, 100, 100], [0, 100, 100], [0, 0, 0]], atol=1e-9)


def test_snags_add_up_and_go_with_the_penalties_of_the_graph(line):
    hop = np.array([3.0]), position(4.0)[None], position(7.0)[None]
    assert line.surcharge(*hop) == 3.0
    for total in (13.0, 23.0):
        line.add(position(4.2), position(7.0), cost=10.0)
        assert line.surcharge(*hop) == pytest.approx(total)
    line.graph.block(nodes=0)
    assert line.surcharge(*hop) == pytest.approx(23.0)
    line.graph.clear_penalties()
    assert line.surcharge(*hop) == 3.0
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
    np.testing.assert_allclose(line.surcharge(distances, starts.double(), ends.double()), [np.inf, 2.7, np.inf])
    line.graph.unblock(handle)
    np.testing.assert_array_equal(line.surcharge(distances, starts.double(), ends.double()), distances)


# --------------------------------------------------------------------------------------------------------- the monitor


class Watch:
    """Feeds costs to go of agents that stand still to a monitor."""

    def __init__(self, model: ProQ, patience: int, n: int = 1) -> None:
        self.navigator, self.monitor = model.navigator, ProgressMonitor(patience)
        self.goals = np.full((n, 2), 3.0, np.float32)
        self.here, self.target = self.goals + 1.0, self.goals + 0.5
        self.state: Progress | None = None

    def __call__(self, *costs: float, episode_start: Any = None) -> bool:
        self.state, stuck = self.monitor.watch(
            self.navigator, self.here, self.goals, self.target, np.array(costs), self.state, episode_start
        )
        return stuck


def test_an_agent_is_stuck_after_patience_steps_without_a_lower_cost(tiny):
    watch = Watch(tiny(), patience=3)
    assert [watch(c) for c in (50.0, 49.9, 51.0, 50.0)] == [False, False, False, True]
    assert watch.navigator.graph.version > watch.state.version[0]
    assert [watch(c) for c in (90.0, 90.0, 90.0, 90.0)] == [False, False, False, True]


def test_progress_resets_the_count(tiny):
    watch = Watch(tiny(), patience=2)
    assert not any(watch(c) for c in (50.0, 50.0, 48.0, 48.0, 46.0, 46.0, 44.0))


@pytest.mark.parametrize("reason", ["episode", "goal", "graph"])
def test_a_row_begins_anew_with_its_episode_goal_or_graph(tiny, reason):
    watch = Watch(tiny(), patience=2, n=2)
    watch(50.0, 50.0)
    watch(50.0, 50.0)
    if reason == "goal":
        watch.goals = watch.goals + 1.0
    if reason == "graph":
        watch.navigator.graph.block(nodes=0)
    assert not watch(60.0, 60.0, episode_start=np.array([True, True]) if reason == "episode" else None)
    assert not watch(60.0, 60.0)
    assert watch(60.0, 50.0)


def test_only_the_stuck_row_adds_a_penalty(tiny):
    watch = Watch(tiny(), patience=2, n=2)
    before = watch.navigator.graph.version
    assert [watch(50.0, cost) for cost in (50.0, 40.0, 30.0)] == [False, False, True]
    assert watch.navigator.graph.version == before + 1


@pytest.mark.parametrize("patience", [0, -1, 2.5, "3"])
def test_patience_is_a_number_of_steps(tiny, patience):
    with pytest.raises(ValueError, match="patience"):
        tiny(patience=patience)


# --------------------------------------------------------------------------------------------- a wall after training


@pytest.fixture(scope="module")
def agent() -> ProQ:
    env = GridMaze(RING)
    return ProQ(env=env, dataset=env.random_walks(400, 50), **SMALL).learn(2500, log_interval=None)


@pytest.fixture
def model(agent):
    yield agent
    agent.patience = None
    agent.planner.clear_penalties()


class LeftToRight(GridMaze):
    """Every episode leads from the left part of the top corridor to its right part."""

    def reset(self, **kwargs: Any) -> tuple[dict, dict]:
        super().reset(**kwargs)
        self.position, self.goal = LEFT.copy(), RIGHT.copy()
        return self._observation(), {}


def walk(model: ProQ, layout: str, wrapped: bool = False) -> tuple[bool, np.ndarray]:
    """Success, and the positions on the way; the planner is in ``predict`` or in the wrapper."""
    env = KeypointGoal(LeftToRight(layout), model) if wrapped else LeftToRight(layout)
    observation, _ = env.reset()
    path, state, over = [LEFT], None, False
    while not over:
        if wrapped:
            action, _ = model.controller.predict(observation, deterministic=True)
        else:
            action, state = model.predict(observation, state, np.array([state is None]), deterministic=True)
        observation, _, success, truncated, _ = env.step(action)
        path.append(observation["achieved_goal"])
        over = success or truncated
    return success, np.array(path)


@pytest.mark.slow
def test_where_the_map_is_right_the_agent_takes_the_short_way(model):
    model.patience = 10
    success, path = walk(model, RING)
    assert success and path[:, 1].max() < 2.0


@pytest.mark.slow
@pytest.mark.parametrize("wall", [{"box": WALL}, {"region": lambda p: (np.abs(p - [5.0, 1.0]) <= 0.5).all(axis=1)}])
def test_told_of_a_wall_it_goes_round_at_once(model, wall):
    handle = model.planner.block(**wall)
    success, path = walk(model, WALLED_RING)
    assert success and path[:10, 1].max() > 3.0
    model.planner.unblock(handle)
    assert walk(model, RING)[1][:, 1].max() < 2.0


@pytest.mark.slow
@pytest.mark.parametrize("wrapped", [False, True])
def test_untold_it_bumps_into_the_wall_and_goes_round(model, wrapped):
    assert not walk(model, WALLED_RING, wrapped)[0]  # it trusts the map for ever
    model.patience = 10
    success, first = walk(model, WALLED_RING, wrapped)
    assert success and first[:, 1].max() > 3.0
    success, second = walk(model, WALLED_RING, wrapped)
    assert success and len(second) < len(first) - 10  # what it found out stays known
    model.planner.clear_penalties()
    assert walk(model, RING, wrapped)[1][:, 1].max() < 2.0
