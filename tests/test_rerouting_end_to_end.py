"""A wall after training: told of it or not, the agent goes round; what it finds out it can keep in mind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from grid_maze import SMALL, GridMaze

from proq_agent import ProQ
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


@pytest.fixture(scope="module")
def agent() -> ProQ:
    env = GridMaze(RING)
    return ProQ(env=env, dataset=env.random_walks(400, 50), **SMALL).learn(2500, log_interval=None)


@pytest.fixture
def model(agent):
    yield agent
    agent.set_planning(patience=None)


class LeftToRight(GridMaze):
    """Every episode leads from the left part of the top corridor to its right part."""

    def reset(self, **kwargs: Any) -> tuple[dict, dict]:
        super().reset(**kwargs)
        self.position, self.goal = LEFT.copy(), RIGHT.copy()
        return self._observation(), {}


def walk(model: ProQ, layout: str, wrapped: bool = False, state: Any = None) -> tuple[bool, np.ndarray, Any]:
    """Success, the positions on the way and the last state; the planner is in ``predict`` or in the wrapper."""
    env = KeypointGoal(LeftToRight(layout), model) if wrapped else LeftToRight(layout)
    observation, _ = env.reset()
    path, over = [LEFT], False
    while not over:
        if wrapped:
            action, _ = model.controller.predict(observation, deterministic=True)
        else:
            action, state = model.predict(observation, state, deterministic=True)
        observation, _, success, truncated, _ = env.step(action)
        path.append(observation["achieved_goal"])
        over = success or truncated
    return success, np.array(path), state


@pytest.mark.slow
def test_where_the_map_is_right_the_agent_takes_the_short_way(model):
    model.set_planning(patience=10)
    success, path, _ = walk(model, RING)
    assert success and path[:, 1].max() < 2.0


@pytest.mark.slow
@pytest.mark.parametrize("wall", [{"box": WALL}, {"region": lambda p: (np.abs(p - [5.0, 1.0]) <= 0.5).all(axis=1)}])
def test_told_of_a_wall_it_goes_round_at_once(model, wall):
    handle = model.planner.block(**wall)
    success, path, _ = walk(model, WALLED_RING)
    assert success and path[:10, 1].max() > 3.0
    model.planner.unblock(handle)
    assert walk(model, RING)[1][:, 1].max() < 2.0


@pytest.mark.slow
@pytest.mark.parametrize("wrapped", [False, True])
def test_untold_it_bumps_into_the_wall_and_goes_round(model, wrapped):
    assert not walk(model, WALLED_RING, wrapped)[0]  # it trusts the map for ever
    model.set_planning(patience=10)
    success, first, state = walk(model, WALLED_RING, wrapped)
    assert success and first[:, 1].max() > 3.0
    if not wrapped:
        success, second, _ = walk(model, WALLED_RING, state=state)
        assert success and len(second) < len(first) - 10  # who hands the state on remembers
    assert walk(model, RING, wrapped)[1][:, 1].max() < 2.0
