"""Keypoints: where they begin, what moves them, where they settle."""

from __future__ import annotations

from functools import partial

import pytest
import torch as th

from proq_agent.proq.keypoints import (
    diagnose_keypoints,
    keypoint_objective,
    move_keypoints,
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
