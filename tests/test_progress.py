"""An agent that gets no closer notices, remembers where, and goes another way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from grid_maze import GridMaze
from test_end_to_end import SMALL

from proq_agent import ProQ
from proq_agent.planning.progress import Progress, ProgressMonitor
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


# --------------------------------------------------------------------------------------------------------- the monitor


class Watch:
    """Feeds costs to go of agents that stand still to a monitor."""

    def __init__(self, model: ProQ, patience: int, n: int = 1) -> None:
        self.graph, self.monitor = model.planner, ProgressMonitor(patience)
        self.goals = np.full((n, 2), 3.0, np.float32)
        self.here, self.target = self.goals + 1.0, self.goals + 0.5
        self.state: Progress | None = None
        self.arrived = np.zeros(n, dtype=bool)

    def __call__(self, *costs: float, episode_start: Any = None) -> bool:
        self.state, stuck = self.monitor.watch(
            self.graph, self.here, self.goals, self.target, np.array(costs), self.arrived, self.state, episode_start
        )
        return stuck


def test_an_agent_is_stuck_after_patience_steps_without_a_lower_cost(tiny):
    watch = Watch(tiny(), patience=3)
    assert [watch(c) for c in (50.0, 49.9, 51.0, 50.0)] == [False, False, False, True]
    assert watch.graph.version > watch.state.version[0]
    assert [watch(c) for c in (90.0, 90.0, 90.0, 90.0)] == [False, False, False, True]


def test_who_has_arrived_is_not_stuck(tiny):
    watch = Watch(tiny(), patience=2)
    watch.arrived[:] = True
    assert not any(watch(5.0) for _ in range(9))
    model = tiny(patience=2, reach=10.0)
    there = {key: np.full(2, 3.0, np.float32) for key in model.observation_space}
    state, before = None, model.plan(np.zeros(2), there["desired_goal"]).cost
    for _ in range(9):
        _, state = model.predict(there, state)
    assert model.plan(np.zeros(2), there["desired_goal"]).cost == before


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
        watch.graph.block(nodes=0)
    assert not watch(60.0, 60.0, episode_start=np.array([True, True]) if reason == "episode" else None)
    assert not watch(60.0, 60.0)
    assert watch(60.0, 50.0)


def test_only_the_stuck_row_adds_a_penalty(tiny):
    watch = Watch(tiny(), patience=2, n=2)
    before = watch.graph.version
    assert [watch(50.0, cost) for cost in (50.0, 40.0, 30.0)] == [False, False, True]
    assert watch.graph.version == before + 1


def test_an_agent_that_cannot_move_at_all_does_not_run_up_endless_costs(tiny):
    model = tiny(patience=2)
    here, goal = np.zeros(2, np.float32), np.ones(2, np.float32)
    observation = {**model.observation_space.sample(), "achieved_goal": here, "desired_goal": goal}
    state, bumps = None, 200
    for _ in range(3 * bumps):
        _, state = model.predict(observation, state, deterministic=True)
    hops = 1 + model.keypoints.n
    assert model.plan(here, goal).cost <= (1 + bumps * hops) * model.planner.longest_way


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
    agent.set_planning(patience=None)
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
    model.set_planning(patience=10)
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
    model.set_planning(patience=10)
    success, first = walk(model, WALLED_RING, wrapped)
    assert success and first[:, 1].max() > 3.0
    success, second = walk(model, WALLED_RING, wrapped)
    assert success and len(second) < len(first) - 10  # what it found out stays known
    model.planner.clear_penalties()
    assert walk(model, RING, wrapped)[1][:, 1].max() < 2.0
