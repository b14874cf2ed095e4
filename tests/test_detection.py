"""What chance decided is found in the data, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proq_agent.chance.detection import find_unpredictable as judge
from proq_agent.chance.jumps import find_jumps
from zoo.data.generation import generate

BOX, STEP = 5.0, 0.1  # half the width of the walled box, length of a full-speed step


def walk(rng: np.random.Generator, n: int, dim: int, noise: float) -> list[np.ndarray]:
    """Noisy walks towards random goals in a walled box; noise in full-speed steps."""
    states = rng.uniform(-BOX, BOX, (n // 100, dim))
    goals = rng.uniform(-BOX, BOX, states.shape)
    rows = []
    for _ in range(100):
        towards = (goals - states) / np.linalg.norm(goals - states, axis=1, keepdims=True)
        actions = np.clip(towards + rng.normal(scale=0.5, size=states.shape), -1, 1)
        after = np.clip(states + STEP * (actions + noise * rng.normal(size=states.shape)), -BOX, BOX)
        rows.append((states, actions, after))
        states = after
    return [np.stack(column, axis=1).reshape(-1, dim).astype(np.float32) for column in zip(*rows, strict=True)]


def find_unpredictable(observations: np.ndarray, actions: np.ndarray, after: np.ndarray, seed: int = 0) -> np.ndarray:
    """Where goals are states."""
    return judge(observations, actions, after, find_jumps(observations, after), seed=seed)


def far_corner(states: np.ndarray) -> np.ndarray:
    return np.where(states > 0, -BOX, BOX).astype(np.float32)


def check(found: np.ndarray, truth: np.ndarray) -> None:
    hits, n_found, n_true = (np.count_nonzero(rows) for rows in (found & truth, found, truth))
    precision, recall = hits / max(n_found, 1), hits / max(n_true, 1)
    report = f"precision {precision:.3f} of {n_found} found, recall {recall:.3f} of {n_true} jumps"
    print(report)  # shown with -s
    assert hits >= 0.95 * n_found and hits >= 0.95 * n_true, report


@settings(max_examples=15, deadline=None)
@given(
    dim=st.integers(2, 6),
    rate=st.floats(1e-3, 0.05),
    noise=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    n_exits=st.sampled_from([None, 1, 3]),
    seed=st.integers(0, 2**16),
)
def test_slips_at_a_known_rate_are_found(dim: int, rate: float, noise: float, n_exits: int | None, seed: int) -> None:
    rng = np.random.default_rng(seed)
    observations, actions, after = walk(rng, 20_000, dim, noise)
    slips = rng.random(len(observations)) < rate
    exits = rng.uniform(-BOX, BOX, (n_exits or len(slips), dim)).astype(np.float32)
    landing = exits[rng.integers(len(exits), size=len(slips))]
    slips &= np.abs(landing - observations).max(axis=1) > BOX / 2
    after[slips] = landing[slips]
    check(find_unpredictable(observations, actions, after), slips)


@pytest.mark.parametrize("odds", [(1 / 3, 1 / 3, 1 / 3), (0.6, 0.4, 0.0), (0.8, 0.2, 0.0), (0.95, 0.05, 0.0)])
@pytest.mark.parametrize("dim", [2, 3, 4])
def test_a_portal_with_several_exits_is_found(dim: int, odds: tuple[float, ...]) -> None:
    rng = np.random.default_rng(1)
    observations, actions, after = walk(rng, 40_000, dim, 0.1)
    inside = np.linalg.norm(observations - 1.0, axis=1) < 0.7 * dim**0.5
    exits = np.array([[-4.0] * dim, [4.0] * dim, [-4.0] + [4.0] * (dim - 1)])
    after[inside] = exits[rng.choice(3, inside.sum(), p=odds)] + STEP * actions[inside]
    check(find_unpredictable(observations, actions, after), inside)


@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("dim", [2, 4, 6])
def test_noise_and_walls_are_not_chance(dim: int, noise: float) -> None:
    assert not find_unpredictable(*walk(np.random.default_rng(2), 50_000, dim, noise)).any()


@pytest.mark.parametrize("cause", ["place", "action"])
def test_a_jump_with_a_cause_is_not_chance(cause: str) -> None:
    observations, actions, after = walk(np.random.default_rng(3), 30_000, 2, 0.1)
    jumps = np.linalg.norm(observations - 1.0, axis=1) < 1.0
    if cause == "action":
        jumps = (observations[:, 0] > 0) & (actions[:, 0] > 0.9)
    after[jumps] = -4.0
    assert jumps.sum() > 300
    assert not find_unpredictable(observations, actions, after).any()


def bounces(rng: np.random.Generator, n: int, dim: int) -> list[np.ndarray]:
    """A ball with momentum that bounces off the walls; states are positions and velocities, ``2 * dim`` numbers."""
    positions, velocities = rng.uniform(-BOX, BOX, (n // 100, dim)), rng.uniform(-0.4, 0.4, (n // 100, dim))
    rows = []
    for _ in range(100):
        actions = rng.uniform(-1, 1, positions.shape)
        speed = np.clip(velocities + 0.04 * actions, -0.5, 0.5)
        ahead = positions + speed
        hit = np.abs(ahead) > BOX
        ahead, speed = np.where(hit, 2 * BOX * np.sign(ahead) - ahead, ahead), np.where(hit, -speed, speed)
        rows.append((np.hstack([positions, velocities]), actions, np.hstack([ahead, speed])))
        positions, velocities = ahead, speed
    return [np.stack(column, axis=1).reshape(n, -1).astype(np.float32) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_bounce_is_not_chance(dim: int) -> None:
    observations, actions, after = bounces(np.random.default_rng(8), 60_000, dim)
    assert len(find_jumps(observations, after).rows) > 1000  # velocities turn round
    assert not find_unpredictable(observations, actions, after).any()
    positions, moved = observations[:, :dim], after[:, :dim]
    assert not len(find_jumps(positions, moved).rows)  # where goals are positions nothing jumps


def test_a_ball_that_is_also_kicked_by_chance_is_found() -> None:
    rng = np.random.default_rng(9)
    observations, actions, after = bounces(rng, 60_000, 2)
    kicked = rng.random(len(after)) < 0.01
    after[kicked, :2] = rng.uniform(-BOX, BOX, (kicked.sum(), 2))
    kicked &= np.abs(after - observations)[:, :2].max(axis=1) > BOX / 2
    found = judge(observations, actions, after, find_jumps(observations[:, :2], after[:, :2]))
    assert found[kicked].mean() > 0.95


def test_chance_in_half_of_the_passages_is_found() -> None:
    rng = np.random.default_rng(4)
    observations, actions, after = walk(rng, 30_000, 2, 0.1)
    slips = (np.linalg.norm(observations - 1.0, axis=1) < 1.0) & (rng.random(len(after)) < 0.5)
    after[slips] = -4.0
    check(find_unpredictable(observations, actions, after), slips)


def test_units_do_not_matter_and_neither_does_a_constant_dimension() -> None:
    rng = np.random.default_rng(5)
    observations, actions, after = walk(rng, 20_000, 2, 0.1)
    slips = rng.random(len(after)) < 0.01
    after[slips] = far_corner(observations[slips])
    plain = find_unpredictable(observations, actions, after)
    scale, shift = (
        np.array([1000.0, 0.01, 0.0], dtype=np.float32),
        np.array([500.0, -0.02, 7.0], dtype=np.float32),
    )
    wide, wide_after = (np.pad(x, ((0, 0), (0, 1))) * scale + shift for x in (observations, after))
    scaled = find_unpredictable(wide, 10 * actions, wide_after)
    assert np.mean(plain != scaled) < 1e-4
    check(scaled, slips)


def test_grid_with_a_portal_cell() -> None:
    rng = np.random.default_rng(6)
    n, moves = 20_000, np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    observations = rng.integers(0, 10, (n, 2))
    actions = moves[rng.integers(4, size=n)]
    after = np.clip(observations + actions, 0, 9)
    portal = (after == 4).all(axis=1)
    after[portal] = np.array([[0, 0], [9, 9]])[rng.choice(2, portal.sum(), p=[0.8, 0.2])]
    found = find_unpredictable(*(x.astype(np.float32) for x in (observations, actions, after)))
    np.testing.assert_array_equal(found, portal)


def test_the_seed_decides_everything() -> None:
    rng = np.random.default_rng(7)
    observations, actions, after = walk(rng, 5_000, 2, 0.1)
    after[::100] = far_corner(observations[::100])
    first, second = (find_unpredictable(observations, actions, after, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_handful_of_transitions_is_too_few_to_tell(n: int) -> None:
    found = find_unpredictable(np.zeros((n, 2)), np.zeros((n, 1)), np.ones((n, 2)))
    assert found.shape == (n,)
    assert not found.any()


def test_bad_input_is_named() -> None:
    states, actions = np.zeros((20, 2)), np.zeros((20, 1))
    with pytest.raises(ValueError, match=r"actions has shape \(19, 1\)"):
        find_unpredictable(states, actions[1:], states)
    with pytest.raises(ValueError, match=r"goals \(20, 2\) and next_goals \(20, 1\)"):
        find_jumps(states, actions)
    with pytest.raises(ValueError, match="2 dimensions and next_observations 1"):
        judge(states, actions, actions, find_jumps(states, states))
    with pytest.raises(ValueError, match=r"next_observations\[3\] is not finite"):
        find_unpredictable(states, actions, np.where(np.arange(20)[:, None] == 3, np.nan, states))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "episodes"),
    [
        ("pointmaze-medium-navigate-v0", 100),
        ("pointmaze-large-navigate-v0", 100),
        ("pointmaze-giant-stitch-v0", 500),
        ("pointmaze-teleport-navigate-v0", 100),
        ("pointmaze-teleport-stitch-v0", 500),
    ],
)
def test_of_real_mazes_nothing_but_the_portals_is_flagged(env_id: str, episodes: int) -> None:
    data = generate(env_id, 0, episodes, val_episodes=1)["train"]
    rows = np.flatnonzero(~data["terminals"].astype(bool))
    states, next_states = data["observations"][rows], data["observations"][rows + 1]
    flagged = find_unpredictable(states, data["actions"][rows], next_states, seed=0)
    jumps = np.linalg.norm(next_states - states, axis=1) > 1.0  # a step is 0.2 long
    assert len(rows) >= 100_000 and jumps.any() == ("teleport" in env_id)
    np.testing.assert_array_equal(flagged, jumps)
