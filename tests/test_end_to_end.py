"""What ProQ learns is true: distances, keypoints and plans against mazes whose shortest paths are known."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
import torch as th
from grid_maze import ONE_WAY_RING, ROOMS, SMALL, GridMaze
from stable_baselines3.common.evaluation import evaluate_policy

from proq_agent import ProQ
from proq_agent.common.evaluation import EnvPool
from proq_agent.proq.hop_trials import check_hops


def trained(layout: str, updates: int) -> tuple[GridMaze, ProQ]:
    env = GridMaze(layout)
    model = ProQ(env=env, dataset=env.random_walks(400, 50), **SMALL)
    model.set_planning(patience=10)  # as in every preset: without it an agent may push against a wall for ever
    return env, model.learn(updates, log_interval=None)


def distances(model: ProQ, env: GridMaze) -> np.ndarray:
    with th.no_grad():
        embeddings = model.policy.embedder(model.policy.encode(th.as_tensor(env.cells)))
        return model.policy.quasimetric.pairwise(embeddings, embeddings).numpy()


@pytest.fixture(scope="module")
def rooms() -> tuple[GridMaze, ProQ]:
    return trained(ROOMS, 2500)


@pytest.mark.slow
def test_distances_follow_the_true_shortest_paths(rooms):
    env, model = rooms
    truth = env.true_steps()
    off_diagonal = ~np.eye(len(truth), dtype=bool)
    assert np.corrcoef(distances(model, env)[off_diagonal], truth[off_diagonal])[0, 1] > 0.9


@pytest.mark.slow
def test_keypoints_lie_in_free_cells_and_cover_them(rooms):
    env, model = rooms
    points = model.planner.points[~model.planner.blocked]
    assert len(points) >= 22
    # To a quarter of a cell: the data's own edge is the wall, and the classifier's boundary is smooth.
    assert all(np.abs(env.cells - p).max(axis=1).min() <= 0.75 for p in points)
    covered = {tuple(np.rint(p).astype(int)) for p in points}
    assert len(covered) >= 0.6 * len(env.cells)
    report = model.diagnose()
    assert report["in_distribution"] > 0.9 and report["connected_pairs"] > 0.95


@pytest.mark.slow
def test_no_plan_leads_through_a_wall(rooms):
    env, model = rooms
    truth, rng = env.true_steps(), np.random.default_rng(0)

    def cell(point: np.ndarray) -> int:
        return int(np.abs(env.cells - point).max(axis=1).argmin())

    for _ in range(50):
        start, goal = env.cells[rng.choice(len(env.cells), 2, replace=False)]
        plan = model.plan(start, goal)
        assert not plan.fallback
        stops = [start, *plan.points]
        np.testing.assert_array_equal(stops[-1], goal)
        # The way around a wall takes 12 steps or more; rounding both ends to cells is worth at most 4.
        for a, b in pairwise(stops):
            assert truth[cell(a), cell(b)] <= model.planning.max_hop + 4


@pytest.mark.slow
def test_the_agent_reaches_its_goals(rooms):
    _, model = rooms
    for deterministic in (False, True):
        mean, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=30, deterministic=deterministic)
        assert mean >= 0.95


@pytest.mark.slow
def test_the_controller_makes_the_hops_of_the_log_unless_it_is_broken(rooms):
    env, model = rooms
    pool = EnvPool(lambda task: GridMaze(ROOMS))
    fine = check_hops(model, pool, [0], 20, env.random_walks(40, 50, seed=1))
    assert fine.ok and fine.value > 0.95
    lame = deepcopy(model)
    th.nn.init.zeros_(lame.policy.actor.output.weight)  # whatever the target, in the same direction
    broken = check_hops(lame, pool, [0], 20, env.random_walks(40, 50, seed=1))
    assert broken.ok is False and broken.value < 0.5 and "not up to its hops" in broken.advice
    assert check_hops(model, pool, [0], 1, env.random_walks(40, 2, seed=1)).ok is None  # shorter than a hop


@pytest.mark.slow
def test_a_one_way_door_makes_the_distance_asymmetric():
    env, model = trained(ONE_WAY_RING, 2000)
    cells = [tuple(c) for c in env.cells]
    before, behind = cells.index((1, 1)), cells.index((3, 1))
    learned, truth = distances(model, env), env.true_steps()
    assert truth[behind, before] > 3 * truth[before, behind]
    assert learned[behind, before] > 1.5 * learned[before, behind]
