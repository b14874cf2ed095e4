"""Keypoints move from the rims to the middle of what is nearest to them."""

from __future__ import annotations

import pytest
import torch as th
from conftest import TINY
from hypothesis import given
from hypothesis import strategies as st

from proq_agent import ProQ
from proq_agent.proq.centring import centre_keypoints


def far(policy, goals: th.Tensor) -> float:
    """How far states are from the keypoint nearest to each, there and back."""
    keypoints, states = policy.embed_goals(policy.keypoints), policy.embed_goals(goals)
    apart = policy.pairwise_distances(keypoints, states) + policy.pairwise_distances(states, keypoints).T
    return apart.amin(dim=0).sum().item()


def on_states(policy, goals: th.Tensor) -> th.Tensor:
    return (policy.keypoints[:, None] - goals).abs().amax(dim=2).amin(dim=1) < 1e-3


@pytest.fixture(scope="module")
def states(walks) -> th.Tensor:
    return walks.achieved_goals[::6]  # fewer than are looked at in a cell


@pytest.fixture(scope="module")
def policy(walks):
    return ProQ(**TINY, dataset=walks).learn(60, log_interval=None).policy.train(False)


@given(seed=st.integers(0, 99))
@th.no_grad()
def test_states_get_nearer_to_their_keypoints(policy, states, seed):
    chosen = th.randperm(len(states), generator=th.Generator().manual_seed(seed))[:8]
    policy.standard_keypoints.copy_(policy.goal_scaler(states[chosen]))
    before = far(policy, states)
    centre_keypoints(policy, states)
    assert far(policy, states) < before and on_states(policy, states).all()


@th.no_grad()
def test_keypoints_at_a_rim_leave_it(policy, states):
    rim = states[states[:, 0].argsort()[:8]]
    policy.standard_keypoints.copy_(policy.goal_scaler(rim))
    centre_keypoints(policy, states)
    assert policy.keypoints[:, 0].max() > rim[:, 0].max() + 1.0


@th.no_grad()
def test_who_has_no_states_stays(policy, states):
    """Of twins the first has all states; one that is far from all has none."""
    points = th.cat([states[:1], states[:1], states[1:6], th.tensor([[500.0, 500.0]])])
    policy.standard_keypoints.copy_(policy.goal_scaler(points))
    centre_keypoints(policy, states)
    assert th.allclose(policy.keypoints[7], points[7], atol=1e-2)
    assert policy.keypoints.isfinite().all()


def test_it_is_done_when_the_map_is_finished_if_told_to(tiny, walks):
    plain, centred, again = (
        tiny(map_fraction=0.5, keypoints={"centred": centred}).learn(20, log_interval=None).policy
        for centred in (False, True, True)
    )
    assert not th.equal(plain.keypoints, centred.keypoints) and th.equal(again.keypoints, centred.keypoints)
    assert on_states(centred, walks.achieved_goals).all()
