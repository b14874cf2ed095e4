"""The diagnosis of an agent that is known to be good, and of the same agent with one thing wrong at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch as th

from proq_agent import GoalDataset, ProQ
from proq_agent.proq.diagnosis import Check, Diagnosis
from proq_agent.proq.hop_evidence import Likelihood, natural_hop
from zoo.data.generation import generate
from zoo.figures.diagnosis import draw_diagnosis
from zoo.runs.agents import shipped_agent

MAZE = "pointmaze-medium-navigate-v0"


@pytest.fixture(scope="module")
def held_out() -> GoalDataset:
    arrays = generate(MAZE, 5, 20, 1, workers=1)["train"]
    return GoalDataset(arrays["observations"], arrays["actions"], arrays["terminals"])


@pytest.fixture
def agent() -> ProQ:
    agent = shipped_agent(MAZE, device="cpu")
    assert isinstance(agent, ProQ)
    return agent


def faults(agent: ProQ, dataset: GoalDataset) -> set[str]:
    return {check.name for check in agent.diagnose(dataset).faults}


def scale_distance(agent: ProQ, factor: float) -> None:
    with th.no_grad():
        agent.policy.embedder.output.weight.mul_(factor)
        agent.policy.embedder.output.bias.mul_(factor)


def test_a_good_agent_has_no_fault_and_its_picture_can_be_drawn(agent, held_out, tmp_path):
    found = agent.diagnose(held_out)
    assert found.ok and all(check.ok for check in found.checks), found.summary()
    assert found["coverage"] > 0.99 and found["connected_pairs"] == 1.0
    draw_diagnosis(found, tmp_path / "diagnosis.png")
    assert (tmp_path / "diagnosis.png").stat().st_size > 10_000


@pytest.mark.parametrize(("factor", "fault"), [(0.3, "shortcuts"), (3.0, "calibration")])
def test_distances_that_are_too_short_or_too_long_are_found(agent, held_out, factor, fault):
    scale_distance(agent, factor)
    assert faults(agent, held_out) - {"guidance"} == {fault}


def test_a_psi_that_knows_nothing_is_found(agent, held_out):
    with th.no_grad():
        agent.policy.classifier.output.weight.zero_()
    assert "separation" in faults(agent, held_out)


def test_actions_of_other_states_are_found(agent, held_out):
    shuffled = GoalDataset(held_out.observations, held_out.actions.flip(0), ends_of(held_out))
    assert "support" in faults(agent, shuffled)


def ends_of(dataset: GoalDataset) -> np.ndarray:
    return np.isin(np.arange(len(dataset)), dataset.trajectory_ends)


def test_keypoints_that_leave_places_out_are_found(agent, held_out):
    keypoints = agent.policy.standard_keypoints
    keypoints.data.copy_(keypoints[:1].expand_as(keypoints))
    assert faults(agent, held_out) == {"routes", "coverage"}


def test_an_agent_that_has_learned_little_is_found(held_out):
    small = {"hidden_sizes": [32], "n_components": 8}
    agent = ProQ(dataset=held_out, held_out=0.2, seed=0, device="cpu", batch_size=64, policy_kwargs=small)
    found = agent.learn(5, log_interval=None).diagnose()
    assert not found.ok and found.measured is not None


def test_portals_are_no_proof_of_short_ways(agent, held_out):
    there = held_out.observations.clone()
    there[500::1001] = there[400::1001]  # one jump there and one back on every trajectory
    jumping = GoalDataset(there, held_out.actions, ends_of(held_out))
    assert agent.diagnose(jumping)["calibration"] < 0.01


def test_without_trajectories_nothing_is_checked(agent):
    found = agent.diagnose()
    assert found.checks == () and found.ok and "nothing was checked" in found.summary()
    assert found["in_distribution"] > 0.9
    with pytest.raises(ValueError, match="nothing to draw"):
        draw_diagnosis(found, "x.png")


def test_few_trajectories_are_no_reason_for_alarm(agent, held_out):
    few = held_out.split(0.05).held_out
    shortcuts = next(check for check in agent.diagnose(few).checks if check.name == "shortcuts")
    assert shortcuts.ok is None and "too few" in shortcuts.verdict


def test_a_summary_has_a_line_a_check_and_what_to_do():
    fine = Check("a", 0.1, 0.2, True, "all is well")
    wrong = replace(fine, name="bb", ok=False, verdict="far too much", advice="train longer")
    unknown = replace(fine, name="c", ok=None, value=float("nan"), verdict="not checked: no data")
    assert Diagnosis([fine, unknown]).ok
    found = Diagnosis([fine, wrong, unknown], {"other": 1.0})
    assert not found.ok and found.faults == (wrong,) and dict(found)["other"] == 1.0
    assert found.summary().splitlines() == [
        "fine  a   all is well",
        "WRONG bb  far too much",
        "-     c   not checked: no data",
        "",
        "bb: train longer",
    ]
    assert "bb" in repr(found)


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        ([0.9, 0.8, 0.8, 0.8, 0.8], 16.0),  # never fades
        ([0.9, 0.8, 0.8, 0.62, 0.5], 8.0 - 4.0 * 0.06 / 0.18),  # 0.68 is 60 % of the advantage
        ([0.9, 0.5, 0.5, 0.5, 0.5], 2.0),  # knows nothing beyond a step
    ],
)
def test_the_natural_hop_ends_where_the_goal_says_little_about_the_action(share, expected):
    found = Likelihood(np.array([1, 2, 4, 8, 16]), np.array(share), np.full(5, 0.5))
    assert natural_hop(found) == pytest.approx(expected)
