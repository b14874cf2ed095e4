"""From logged trajectories with portals to plans that know their odds, against the true optimum of the maze."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from grid_maze import PORTAL_AND_DETOUR, PORTAL_ONLY, SMALL, TWO_PORTALS, GridMaze

from proq_agent import ProQ


def true_odds(env: GridMaze, goal: int) -> np.ndarray:
    """Best probability of reaching the goal's cell from each cell, by value iteration on the maze itself."""
    cells = [tuple(cell) for cell in env.cells]
    odds = np.eye(len(cells))[goal]
    for _ in range(500):
        for i, cell in enumerate(env.cells):
            if i == goal:
                continue
            if env.tile(cell).isupper():
                odds[i] = np.mean([odds[cells.index(tuple(e))] for e in env.exits(env.tile(cell))])
            else:
                around = [j for j, other in enumerate(env.cells) if np.abs(cell - other).sum() == 1]
                odds[i] = max([odds[i], *(odds[j] for j in around)])
    return odds


def walkable(env: GridMaze, start: int) -> set[int]:
    """Cells that can be walked to without stepping on an entrance."""
    seen, queue = {start}, deque([start])
    while queue:
        here = env.cells[queue.popleft()]
        for j, other in enumerate(env.cells):
            if j not in seen and np.abs(here - other).sum() == 1 and not env.tile(other).isupper():
                seen.add(j)
                queue.append(j)
    return seen


def trained(layout: str) -> tuple[GridMaze, ProQ]:
    env = GridMaze(layout)
    model = ProQ(env=env, dataset=env.random_walks(500, 50), **(SMALL | {"n_keypoints": 40, "max_hop": 6.0}))
    return env, model.learn(2000, log_interval=None)


def played(env: GridMaze, model: ProQ, start: int, goal: int, episodes: int = 100) -> tuple[float, int]:
    """Share of the episodes that reach the goal, and the jumps in all of them."""
    wins, jumps = 0, 0
    for episode in range(episodes):
        env.reset(seed=episode)
        env.position, env.goal = env.cells[start].copy(), env.cells[goal].copy()
        observation, done = env._observation(), False
        while not done:
            before = env.position
            action, _ = model.predict(observation, deterministic=True)
            observation, _, success, timeout, _ = env.step(action)
            jumps += int(np.abs(env.position - before).max() > 2 * env.STEP)
            wins, done = wins + success, success or timeout
    return wins / episodes, jumps


@pytest.mark.slow
@pytest.mark.parametrize("layout", [PORTAL_AND_DETOUR, PORTAL_ONLY, TWO_PORTALS])
def test_plans_promise_the_true_odds_and_agents_meet_them(layout):
    env, model = trained(layout)
    letters = {tile for row in env.rows for tile in row if tile.isupper()}
    assert len(model.chance_edges) == len(letters)
    cells = [tuple(cell) for cell in env.cells]
    start = cells.index((2, 2))
    right_room = cells.index((len(env.rows[0]) - 3, 3))
    plan = model.plan(env.cells[start], env.cells[right_room])
    assert not plan.fallback
    assert plan.probability == pytest.approx(true_odds(env, right_room)[start], abs=0.1)
    can_walk = right_room in walkable(env, start)
    assert can_walk == (plan.nodes[-1] == model.planner.n_nodes)
    # After a jump the agent goes on from where it landed.
    wins, jumps = played(env, model, start, right_room)
    assert wins == pytest.approx(true_odds(env, right_room)[start], abs=0.15)  # three standard deviations
    assert (jumps == 0) == can_walk
    if layout == TWO_PORTALS:
        assert env.tile(plan.points[-1]) == "B"


def test_ignoring_chance_keeps_every_transition():
    dataset = GridMaze(PORTAL_AND_DETOUR).random_walks(100, 50)
    settings = SMALL | {"held_out": 0.0}
    ignoring, planning = (ProQ(dataset=dataset, **(settings | {"stochastic": mode})) for mode in ("ignore", "plan"))
    assert ignoring.chance_edges == () and len(planning.chance_edges) == 1
    assert planning.dataset.n_transitions < ignoring.dataset.n_transitions == dataset.n_transitions


def test_a_saved_agent_keeps_its_chance_edges(tmp_path):
    model = ProQ(dataset=GridMaze(PORTAL_AND_DETOUR).random_walks(100, 50), **SMALL)
    model.save(tmp_path / "agent")
    loaded = ProQ.load(tmp_path / "agent", device="cpu")
    (edge,), (kept,) = model.chance_edges, loaded.chance_edges
    assert vars(edge).keys() == vars(kept).keys()
    for name, value in vars(edge).items():
        np.testing.assert_array_equal(getattr(kept, name), value)
    assert loaded.planner.n_nodes == model.planner.n_nodes == SMALL["n_keypoints"] + 1 + len(edge.exits)
