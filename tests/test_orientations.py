"""Orientations have two signs, and to an actor both look the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from conftest import TINY
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from proq_agent import GoalDataset, ProQ
from proq_agent.common.orientations import OneSign, find_quaternions

X, Q = slice(0, 2), slice(3, 7)


def turning(n: int = 200, seed: int = 0) -> np.ndarray:
    """``[n, 4]`` orientations around that of a body at rest, as (w, x, y, z)."""
    quaternions = np.array([1.0, 0.0, 0.0, 0.0]) + np.random.default_rng(seed).normal(0.0, 0.3, (n, 4))
    return quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)


def body(before: int = 3, after: int = 2, seed: int = 0, quaternions: np.ndarray | None = None) -> GoalDataset:
    """Trajectories of a body with an orientation among its coordinates; it goes about in the first two."""
    rng = np.random.default_rng(seed)
    quaternions = turning(seed=seed) if quaternions is None else quaternions
    n = len(quaternions)
    columns = [rng.uniform(-5.0, 5.0, (n, before)), quaternions, rng.normal(size=(n, after))]
    observations = np.hstack(columns).astype(np.float32)
    actions = rng.uniform(-1.0, 1.0, (n, 2))
    return GoalDataset(observations, actions, np.arange(n) % 20 == 19, observations[:, X])


@pytest.fixture(scope="module")
def agent() -> ProQ:
    return ProQ(**TINY, dataset=body(), map_of="goals").learn(20, log_interval=None)


@given(before=st.integers(2, 6), after=st.integers(0, 6), seed=st.integers(0, 99))
def test_four_coordinates_of_length_one_are_an_orientation(before, after, seed):
    assert find_quaternions(body(before, after, seed)) == (before,)


def test_a_start_that_is_not_of_length_one_does_not_hide_it_and_much_noise_does():
    quaternions = turning()
    quaternions[:5] *= 1.1
    assert find_quaternions(body(quaternions=quaternions)) == (3,)
    quaternions[:20] *= 1.1
    assert find_quaternions(body(quaternions=quaternions)) == ()


def test_an_angle_is_no_orientation():
    """Turned by half a circle it is another angle."""
    angle = np.random.default_rng(0).uniform(0.0, 6.0, 200)
    still = np.zeros(200)
    assert find_quaternions(body(quaternions=np.stack([np.cos(angle), np.sin(angle), still, still], axis=1))) == ()
    assert find_quaternions(body(quaternions=turning()[:, :3])) == ()


def test_two_orientations_one_behind_the_other():
    assert find_quaternions(body(quaternions=np.hstack([turning(seed=1), turning(seed=2)]))) == (3, 7)


@given(seed=st.integers(0, 99), flipped=st.lists(st.booleans(), min_size=200, max_size=200))
def test_both_signs_become_one_and_all_else_stays(seed, flipped):
    rows = body(seed=seed).observations
    either = rows.clone()
    either[:, Q] *= th.where(th.tensor(flipped), -1.0, 1.0)[:, None]
    one_sign = OneSign([3], rows.shape[1])
    one_sign.fit(either)  # as a long trajectory may show them
    shown = one_sign(rows)
    assert th.equal(one_sign(either), shown)
    assert th.equal(shown[:, :3], rows[:, :3]) and th.equal(shown[:, 7:], rows[:, 7:])
    assert th.equal(shown[:, Q].abs(), rows[:, Q].abs())
    upright = rows[:, 3] > 0.5
    assert upright.any() and th.equal(shown[upright], rows[upright])


@pytest.mark.parametrize("deterministic", [True, False])
def test_an_agent_acts_alike_whichever_sign_it_is_shown(agent, deterministic, tmp_path):
    agent.save(tmp_path / "agent.zip")
    loaded = ProQ.load(tmp_path / "agent.zip", device="cpu")
    assert list(loaded.policy_kwargs["quaternions"]) == [3]
    seen = {"observation": body(seed=1).observations[:8].numpy()}
    seen |= {"achieved_goal": seen["observation"][:, X], "desired_goal": seen["observation"][::-1, X]}
    other = seen | {"observation": seen["observation"].copy()}
    other["observation"][:, Q] *= -1.0
    for model in (agent, loaded):
        actions = []
        for shown in (seen, other):
            model.acting_generator.manual_seed(0)
            actions.append(model.predict(shown, deterministic=deterministic)[0])
        assert_array_equal(*actions)
        first = [model.predict({k: v[0] for k, v in shown.items()}, deterministic=True)[0] for shown in (seen, other)]
        assert_array_equal(*first)
        assert_allclose(first[0], model.predict(seen, deterministic=True)[0][0], atol=1e-5)


def test_it_can_be_left_as_it_is():
    kwargs = {**TINY, "policy_kwargs": TINY["policy_kwargs"] | {"quaternions": []}}
    assert ProQ(**kwargs, dataset=body(), map_of="goals").policy.one_sign is None


@pytest.mark.parametrize("starts", [[-1], [6], [0, 3], [4, 0], [1.0], [True]])
def test_where_none_can_be(starts):
    with pytest.raises(ValueError, match="quaternions begin at rising numbers of the 9 coordinates"):
        OneSign(starts, 9)
