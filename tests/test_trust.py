"""Hops and whether to plan at all, from trajectories that were set aside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch as th
from grid_maze import GridMaze

from proq_agent import ProQ
from proq_agent.planning.navigator import Navigator
from proq_agent.planning.settings import HOP, REACH, PlanningSettings
from proq_agent.proq.trust import HOPS, MAX_LOSS, Foretold, check_guidance, choose_planning, foretell

SETTINGS = PlanningSettings(max_hop=6.0, reach=1.0)

SMALL = {
    "batch_size": 64,
    "learning_rate": 1e-3,
    "goals": {"discount": 0.8, "value": {"near": 0.3}},
    "distance": {"far_offset": 30.0, "far_scale": 0.1},
    "keypoints": {"n": 30, "learning_rate": 1e-2, "repel_range": 20.0, "freq": 2},
    "policy_kwargs": {"hidden_sizes": [64, 64], "n_components": 16, "component_size": 4, "dropout": 0.0},
    "seed": 0,
    "device": "cpu",
}


def test_what_is_given_stays_and_the_rest_goes_with_it():
    assert PlanningSettings().known() == PlanningSettings(max_hop=HOP, reach=REACH * HOP, direct=False)
    assert PlanningSettings(max_hop=10.0).known(30.0, direct=True) == PlanningSettings(
        max_hop=10.0, reach=REACH * 10.0, direct=True
    )
    assert PlanningSettings(reach=0.0, direct=False).known(30.0, direct=True) == PlanningSettings(30.0, 0.0, False)


def test_the_loss_is_the_share_of_what_goals_tell():
    leads, told = np.array([10, 20]), np.array([1.0, 0.5])
    assert Foretold(leads, told, told, told * 0.0).loss == 0.0
    assert Foretold(leads, told, told - 0.15, told * 0.0).loss == pytest.approx(0.2)
    assert Foretold(leads, told, told + 0.15, told * 0.0).loss == pytest.approx(-0.2)
    assert Foretold(leads, told, told - 1.0, told).loss == 0.0  # goals tell nothing: neither do plans


@pytest.fixture(scope="module")
def trained():
    env = GridMaze()
    return ProQ(env=env, dataset=env.random_walks(200, 50), **SMALL).learn(600, log_interval=None)


def test_a_training_chooses_and_says_so(trained, capsys, tmp_path):
    model = ProQ(dataset=trained.dataset, verbose=1, **SMALL)
    model.learn(5, log_interval=None)
    assert "from the data" in capsys.readouterr().out
    assert model.planning.direct in (True, False) and HOPS[0] <= model.planning.max_hop <= HOPS[1]
    model.save(tmp_path / "agent.zip")
    assert ProQ.load(tmp_path / "agent.zip", device="cpu").planning == model.planning
    given = ProQ(dataset=trained.dataset, planning={"max_hop": 7.0, "reach": 1.0, "direct": False}, **SMALL)
    given.learn(5, log_interval=None)
    assert given.planning == PlanningSettings(7.0, 1.0, False) and "from the data" not in capsys.readouterr().out


class Liar:
    """A map that takes every keypoint for another."""

    def __init__(self, goal_map: Any, n_keypoints: int) -> None:
        self.goal_map, self.order = goal_map, np.random.default_rng(0).permutation(n_keypoints)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.goal_map, name)

    def pairwise(self, starts: Any, ends: Any) -> np.ndarray:
        distances = self.goal_map.pairwise(starts, ends)
        return distances[:, self.order] if len(ends) == len(self.order) else distances

    def distances(self, states: Any, targets: Any) -> tuple[np.ndarray, np.ndarray]:
        to_nodes, to_goals = self.goal_map.distances(states, targets)
        return to_nodes[:, self.order], to_goals + 10.0


def misled(model: ProQ) -> Navigator:
    """The model's navigator on a map that lies."""
    navigator = model.navigator.replanned(SETTINGS.known())
    liar = Liar(model.navigator.planner.goal_map, navigator.planner.n_nodes)
    navigator._batch = navigator._single = navigator.planner.goal_map = liar
    navigator.replanned = lambda settings: navigator  # type: ignore[method-assign]
    return navigator


def test_a_map_that_lies_is_not_planned_on(trained):
    held_out = trained.dataset.held_out
    chosen, _ = choose_planning(trained.policy, trained.navigator.replanned, PlanningSettings(), held_out)
    assert chosen.direct is False
    chosen, why = choose_planning(trained.policy, misled(trained).replanned, PlanningSettings(), held_out)
    assert chosen.direct is True and "straight to the goal" in why
    chosen, _ = choose_planning(trained.policy, misled(trained).replanned, SETTINGS, held_out)
    assert chosen.direct is False  # who says how long hops are wants them


def test_a_diagnosis_tells_whether_plans_lead_where_trajectories_went(trained):
    trained.set_planning(max_hop=6.0, reach=1.0, direct=False)
    assert trained.diagnose()["guidance"] <= MAX_LOSS
    guidance = check_guidance(trained.policy, misled(trained), SETTINGS, trained.dataset.held_out)
    assert guidance.ok is False and "planning.direct" in guidance.advice


def test_straight_to_the_goal_uses_no_keypoint(trained):
    trained.set_planning(max_hop=4.0, reach=0.5, direct=True)
    starts = trained.dataset.achieved_goals[:40].numpy()
    goals = trained.dataset.achieved_goals[-40:].numpy()
    assert (trained.navigator.next_points(starts, goals) == goals).all()
    plan = trained.plan(starts[0], goals[0])
    assert len(plan.nodes) == 1 and (plan.probability < 1.0) == (plan.cost > 4.0)


def test_held_out_actions_are_likelier_with_their_goal_than_with_any(trained):
    told = foretell(trained.policy, trained.navigator, trained.dataset.held_out, [2, 5])
    assert (told.direct > told.random + 0.1).all()
    assert told.loss <= MAX_LOSS
    assert th.isfinite(th.tensor(told.planned)).all()


def test_the_keypoints_of_an_agent_that_does_not_use_them_are_judged_all_the_same(trained):
    found = []
    for direct in (False, True):
        trained.set_planning(max_hop=6.0, reach=1.0, direct=direct)
        diagnosis = trained.diagnose()
        found.append([diagnosis[name] for name in ("routes", "coverage", "shortcuts")])
    assert found[0] == found[1] and found[0][1] > 0.5
