"""Keypoints: where they begin, what moves them, where they settle."""

from __future__ import annotations

from functools import partial

import pytest
import torch as th

from proq_agent import ProQ
from proq_agent.proq.keypoints import (
    MOST_KEYPOINTS,
    UNCOVERED,
    cover_with_keypoints,
    diagnose_keypoints,
    keypoint_objective,
    move_keypoints,
    near_keypoints,
    place_keypoints,
    settle_keypoints,
)
from proq_agent.proq.settings import KeypointSettings


def psi(policy) -> float:
    return policy.classifier(policy.encode_standard(policy.standard_keypoints)).sigmoid().mean().item()


def moved(policy, steps: int = 30, multiplier: float = 1.0, **settings) -> None:
    optimizer = th.optim.Adam([policy.standard_keypoints], lr=1e-2)
    group = KeypointSettings(**settings)
    objective = partial(keypoint_objective, policy, multiplier=th.tensor(multiplier), settings=group, compliance=0.05)
    for _ in range(steps):
        move_keypoints(policy, optimizer, objective, group.bounded)


def test_they_begin_on_states_of_the_data(tiny, walks):
    policy = tiny().policy
    place_keypoints(policy, walks.achieved_goals, th.Generator().manual_seed(3))
    apart = (policy.keypoints[:, None] - walks.achieved_goals).abs().amax(dim=2)
    assert apart.amin(dim=1).max() < 1e-4


def test_the_barrier_draws_them_to_where_the_data_is(tiny):
    policy = tiny().learn(40, log_interval=None).policy
    before = psi(policy)
    moved(policy, repel_strength=0.0)
    assert psi(policy) > before + 1e-3


def test_repulsion_drives_them_apart_and_only_within_its_range(tiny):
    policy = tiny().learn(40, log_interval=None).policy
    start = policy.standard_keypoints.clone()

    def energy() -> float:
        embeddings = policy.embedder(policy.encode_standard(policy.standard_keypoints))
        return (1.0 / (policy.quasimetric.pairwise(embeddings, embeddings) + 1.0)).sum().item()

    before = energy()
    moved(policy, barrier=False)
    assert energy() < before
    policy.standard_keypoints.data.copy_(start)
    moved(policy, barrier=False, repel_range=0.0)
    assert th.equal(policy.standard_keypoints, start)


def test_the_multiplier_weighs_the_barrier(tiny):
    model = tiny().learn(40, log_interval=None)
    start, found = model.policy.standard_keypoints.clone(), []
    for multiplier in (0.0, 1000.0):
        model.policy.standard_keypoints.data.copy_(start)
        moved(model.policy, multiplier=multiplier)
        found.append(psi(model.policy))
    assert found[1] > found[0]


@pytest.mark.parametrize("chunk", [7, 10_000])
def test_a_keypoint_settles_on_the_nearest_state(tiny, walks, chunk):
    policy = tiny().policy
    points = policy.goal_scaler(th.rand(8, 2, generator=th.Generator().manual_seed(0)) * 5.0)
    policy.standard_keypoints.copy_(points)
    settle_keypoints(policy, walks.achieved_goals, chunk)
    states = policy.goal_scaler(walks.achieved_goals)
    least = th.cdist(points, states).amin(dim=1)
    assert th.allclose((policy.standard_keypoints - points).norm(dim=1), least, atol=1e-5)


def test_the_diagnosis_says_how_many_are_in_distribution(tiny):
    model = tiny()
    list(model.policy.classifier.parameters())[-1].data.fill_(10.0)
    found = diagnose_keypoints(model.policy, model.planner.graph)
    assert found["in_distribution"] == 1.0 and found["nearest_mean"] >= 0.0


@pytest.mark.parametrize(("start", "expected"), [(0.25, 150), (0.0, 0), (1, 1), (2000, 2000)])
def test_they_start_after_a_share_or_a_number_of_updates(start, expected):
    assert KeypointSettings(start=start).first_update(600) == expected


def energy_and_gradient(policy, points, monkeypatch, all_pairs, n_felt=None):
    monkeypatch.setattr("proq_agent.proq.keypoints.ALL_PAIRS", all_pairs)
    monkeypatch.setattr("proq_agent.proq.keypoints.N_FELT", n_felt or len(points) - 1)
    points = points.clone().requires_grad_()
    found = keypoint_objective(policy, points, th.tensor(1.0), KeypointSettings(), 0.05)
    return found.loss, th.autograd.grad(found.loss, points)[0]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_many_keypoints_feel_those_beside_them_and_with_all_of_these_the_energy_is_the_same(tiny, monkeypatch, chunk):
    model = tiny(keypoints={"n": 30}).learn(40, log_interval=None)
    policy, points = model.policy, model.policy.standard_keypoints
    for name in ("_NEAR", "_FELT", "_SETTLING"):
        monkeypatch.setattr(f"proq_agent.proq.keypoints.{name}", chunk)
    expected = energy_and_gradient(policy, points, monkeypatch, 30)
    found = energy_and_gradient(policy, points, monkeypatch, 29)
    for one, other in zip(found, expected, strict=True):
        assert th.allclose(one, other, rtol=1e-4, atol=1e-3)
    fewer, _ = energy_and_gradient(policy, points, monkeypatch, 29, n_felt=3)
    assert fewer < expected[0]


def test_the_keypoints_beside_one_are_the_nearest_others():
    points = th.randn(40, 3, generator=th.Generator().manual_seed(0))
    points[7] = points[3]  # twins feel each other
    apart = th.cdist(points, points).fill_diagonal_(th.inf)
    near = near_keypoints(points, 5)
    assert th.allclose(apart.gather(1, near), apart.sort(dim=1).values[:, :5])
    assert 3 in near[7] and not (near == th.arange(40)[:, None]).any()


def test_many_keypoints_settle_in_parts(tiny, walks, monkeypatch):
    policy = tiny().policy
    points = policy.goal_scaler(th.rand(8, 2, generator=th.Generator().manual_seed(0)) * 5.0)
    settled = []
    for pairs in (1 << 25, 100):
        monkeypatch.setattr("proq_agent.proq.keypoints._SETTLING", pairs)
        policy.standard_keypoints.copy_(points)
        settle_keypoints(policy, walks.achieved_goals)
        settled.append(policy.standard_keypoints.clone())
    assert th.equal(*settled)


def gaps(policy, goals) -> th.Tensor:
    """How far states are from the keypoints, there or back, whichever is longer."""
    states, keypoints = policy.embed_goals(goals), policy.embed_goals(policy.keypoints)
    there, back = policy.pairwise_distances(states, keypoints), policy.pairwise_distances(keypoints, states)
    return th.maximum(there.amin(dim=1), back.amin(dim=0))


def test_as_many_are_added_as_it_takes_to_be_near_all_states_there_and_back(tiny, walks):
    policy = tiny().learn(40, log_interval=None).policy.eval()
    goals, before = walks.achieved_goals[::3], policy.keypoints
    radius = gaps(policy, goals).quantile(0.3).item()
    assert cover_with_keypoints(policy, goals, radius)
    assert (gaps(policy, goals) > radius).float().mean() <= UNCOVERED
    assert policy.n_keypoints > len(before) and th.equal(policy.keypoints[: len(before)], before)
    added = policy.keypoints[len(before) :]
    assert (added[:, None] - goals).abs().amax(dim=2).amin(dim=1).max() < 1e-4  # states of the data
    n = policy.n_keypoints
    assert cover_with_keypoints(policy, goals, 2 * radius) and policy.n_keypoints == n
    assert not cover_with_keypoints(policy, walks.achieved_goals, 0.0)
    assert policy.n_keypoints == MOST_KEYPOINTS


def test_an_agent_that_chose_their_number_keeps_it_and_learns_on(tiny, tmp_path, capsys):
    model = tiny(
        keypoints={"n": None, "start": 4}, planning={"max_hop": 1e-3, "reach": 0.0, "direct": False}, verbose=1
    )
    model.learn(6, log_interval=None)
    n = model.keypoints.n
    assert n == model.policy.n_keypoints > 100 and f"{n} keypoints" in capsys.readouterr().out
    model.save(tmp_path / "agent.zip")
    loaded = ProQ.load(tmp_path / "agent.zip", device="cpu")
    assert loaded.keypoints == model.keypoints and th.equal(loaded.policy.keypoints, model.policy.keypoints)
    loaded.set_dataset(model.dataset)
    before = loaded.policy.keypoints
    loaded.learn(12, reset_num_timesteps=False, log_interval=None)
    assert not th.equal(loaded.policy.keypoints, before)  # all of them move on


def test_an_agent_that_has_not_chosen_yet_is_loaded_as_it_is(tiny, tmp_path):
    model = tiny(keypoints={"n": None})
    model.save(tmp_path / "agent.zip")
    assert ProQ.load(tmp_path / "agent.zip", device="cpu").keypoints.n is None
