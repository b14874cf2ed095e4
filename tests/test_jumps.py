"""Jumps are far outside the ordinary steps; noise, switches, idle joints and angles are not."""

from __future__ import annotations

import numpy as np
import pytest
from chance_worlds import SIDE, STEP, Landing, Square, landing_at
from hypothesis import given, settings
from hypothesis import strategies as st

from proq_agent.chance.jumps import find_jumps


def walks(rng: np.random.Generator, n: int, dim: int, noise: np.ndarray | float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Places ``[n, dim]`` in a box, and where bounded steps with noise lead from them."""
    places = rng.uniform(-5.0, 5.0, (n, dim))
    return places, np.clip(places + rng.uniform(-0.1, 0.1, (n, dim)) + noise, -5.0, 5.0)


@settings(max_examples=20, deadline=None)
@given(
    dim=st.integers(1, 6),
    freedom=st.sampled_from([2.0, 3.0, 5.0]),
    scale=st.floats(0.003, 0.1),
    seed=st.integers(0, 2**16),
)
def test_noise_with_a_heavy_tail_does_not_jump(dim: int, freedom: float, scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    noise = scale * rng.standard_t(freedom, (20_000, dim))
    assert not len(find_jumps(*walks(rng, 20_000, dim, noise)).rows)


@settings(max_examples=20, deadline=None)
@given(dim=st.integers(1, 6), n_jumps=st.integers(5, 1000), unit=st.sampled_from([1e-3, 1.0, 1e3]))
def test_jumps_are_found_whatever_the_unit(dim: int, n_jumps: int, unit: float) -> None:
    rng = np.random.default_rng(n_jumps)
    places, after = walks(rng, 20_000, dim)
    after[:n_jumps] = rng.uniform(-5.0, 5.0, (n_jumps, dim))
    far = np.abs(after - places).max(axis=1) > 1.0
    found = np.isin(np.arange(20_000), find_jumps(places * unit, after * unit).rows)
    assert not found[n_jumps:].any()
    if far.sum() >= 5:
        assert found[far].all()


def test_four_jumps_are_no_evidence() -> None:
    places, after = walks(np.random.default_rng(0), 20_000, 2)
    after[:4] = -places[:4] + 9.0
    assert not len(find_jumps(places, after).rows)


def test_a_switch_says_nothing_about_places() -> None:
    rng = np.random.default_rng(1)
    places, after = walks(rng, 20_000, 2)
    contact = (rng.random((20_000, 1)) < 0.2).astype(float)
    touched = np.where(rng.random(contact.shape) < 0.02, 1.0 - contact, contact)
    assert not len(find_jumps(np.hstack([places, contact]), np.hstack([after, touched])).rows)
    nearly, later = np.clip(np.stack([contact, touched]) + rng.normal(scale=0.02, size=(2, 20_000, 1)), 0, 1)
    assert not len(find_jumps(np.hstack([places, nearly]), np.hstack([after, later])).rows)


def test_an_object_that_topples_now_and_then_does_not_jump() -> None:
    # Changes of all sizes up to a hundred ordinary steps: hardly a tail, but no gap either.
    rng = np.random.default_rng(5)
    places, after = walks(rng, 20_000, 2)
    after[:100, 0] = places[:100, 0] + 0.1 * 3.0 ** rng.uniform(0.5, 4.2, 100) * -np.sign(places[:100, 0])
    assert not len(find_jumps(places, after).rows)


def test_an_idle_joint_says_nothing_about_places() -> None:
    # Nearly constant: noise of 1e-4, and now and then a push of any size that wears off.
    rng = np.random.default_rng(2)
    places, after = walks(rng, 20_000, 2)
    joint = 1e-4 * rng.normal(size=(20_001, 1))
    for t in range(20_000):
        joint[t + 1] += 0.9 * joint[t] + (rng.random() < 0.01) * rng.choice([-1e-3, 1e-3]) * rng.lognormal()
    found = find_jumps(np.hstack([places, joint[:-1]]), np.hstack([after, joint[1:]]))
    assert not len(found.rows)
    # Beside it, what jumps is still found, and named.
    after[:100] = -places[:100]
    far = np.flatnonzero(np.abs(after - places).max(axis=1) > 1.0)
    found = find_jumps(np.hstack([joint[:-1], places]), np.hstack([joint[1:], after]))
    np.testing.assert_array_equal(found.rows, far)
    assert set(found.coordinates) == {1, 2}


@pytest.mark.parametrize("period", [2 * np.pi, 360.0])
def test_an_angle_is_followed_across_the_seam(period: float) -> None:
    rng = np.random.default_rng(3)
    angles = rng.uniform(-period / 2, period / 2, (50_000, 1))
    turned = (angles + period * rng.normal(scale=0.02, size=angles.shape) + period / 2) % period - period / 2
    assert np.sum(np.abs(turned - angles) > period / 2) > 500
    assert not len(find_jumps(angles, turned).rows)
    turned[:50] = (angles[:50] + period) % period - period / 2  # half a turn is a jump
    np.testing.assert_array_equal(find_jumps(angles, turned).rows, np.arange(50))


@pytest.mark.parametrize("other", [[0.0, 4.0], [-4.95, 0.0]])
def test_a_portal_between_opposite_walls_is_no_seam(other: list[float]) -> None:
    rng = np.random.default_rng(4)
    places, after = walks(rng, 20_000, 2)
    enters = (places[:, 0] > 4.9) & (rng.random(20_000) < 0.5)
    after[enters] = np.where(rng.random((enters.sum(), 1)) < 0.5, [-4.95, 0.0], other)
    np.testing.assert_array_equal(find_jumps(places, after).rows, np.flatnonzero(enters))


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"goals \(20, 2\) and next_goals \(20, 1\)"):
        find_jumps(np.zeros((20, 2)), np.zeros((20, 1)))


def anywhere(at: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0.0, SIDE, at.shape)


@pytest.mark.parametrize(
    ("rate", "landing"),
    [
        (0.05, anywhere),
        (0.1, anywhere),
        (0.25, anywhere),
        *((rate, landing_at((2.0, 10.0))) for rate in (0.01, 0.05, 0.1)),
    ],
)
def test_jumps_are_found_however_often_steps_are_jumps(rate: float, landing: Landing) -> None:
    """To one place they lead by all distances from a step on; far ones are jumps."""
    data = Square(lambda at: np.full(len(at), rate), landing).walks(60_000)
    places = data.achieved_goals.numpy()
    rows = data.transition_rows
    far = np.abs(places[rows + 1] - places[rows]).max(axis=1) / STEP
    found = np.isin(np.arange(len(rows)), find_jumps(places[rows], places[rows + 1]).rows)
    assert found[far > 5.0].all() and not found[far < 1.01].any()


def test_what_comes_to_a_stop_does_not_jump() -> None:
    """Speeds of all sizes end at zero, wherever that happens."""
    rng = np.random.default_rng(8)
    places = rng.uniform(-1.5, 1.5, (20_000, 3))
    after = places + rng.uniform(-0.1, 0.1, places.shape)
    stops = rng.random(20_000) < 0.05
    after[stops, 2] = 0.0
    assert not len(find_jumps(places, after).rows)


@pytest.mark.parametrize("every", [2, 4, 9])
def test_a_slow_sensor_does_not_jump(every: int) -> None:
    rng = np.random.default_rng(9)
    seen = np.repeat(np.cumsum(rng.uniform(-0.1, 0.1, (20_001, 2)), axis=0)[::every], every, axis=0)
    seen = seen + rng.normal(scale=1e-6, size=seen.shape)
    assert not len(find_jumps(seen[:-1], seen[1:]).rows)


def drawer(rng: np.random.Generator, moves: int, lasting: int) -> tuple[np.ndarray, np.ndarray]:
    """A hand that wanders, and a drawer that it moves now and then, for so many steps."""
    n = 20_000
    hand = np.cumsum(rng.uniform(-0.1, 0.1, n + 1))
    pushed = np.zeros(n)
    for start in rng.choice(n - lasting, moves, replace=False):
        pushed[start : start + lasting] = 0.3
    states = np.stack([hand, np.concatenate([[0.0], np.cumsum(pushed)])], axis=1)
    return states[:-1], states[1:]


def test_a_drawer_that_is_pushed_now_and_then_does_not_jump() -> None:
    assert not len(find_jumps(*drawer(np.random.default_rng(3), 100, 12)).rows)


def test_what_moves_by_a_single_step_now_and_then_jumps() -> None:
    before, after = drawer(np.random.default_rng(3), 100, 1)
    found = find_jumps(before, after).rows
    assert set(found) == set(np.flatnonzero(after[:, 1] > before[:, 1]))
