"""What chance decided is found in the data, and nothing else is."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proq_agent.chance.detection import find_unpredictable
from proq_agent.chance.edges import ChanceEdge, cluster_chance
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
    rate=st.floats(1e-4, 0.05),
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
    with pytest.raises(ValueError, match="2 dimensions and next_observations 1"):
        find_unpredictable(states, actions, actions)
    with pytest.raises(ValueError, match=r"next_observations\[3\] is not finite"):
        find_unpredictable(states, actions, np.where(np.arange(20)[:, None] == 3, np.nan, states))
    with pytest.raises(ValueError, match="one row a jump"):
        cluster_chance(states, states[1:])
    with pytest.raises(ValueError, match="closeness=0"):
        cluster_chance(states, states, closeness=0)


def lotteries(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two discs entered at their rims, mostly on one side, and three exits; the second has odds of its own."""
    which = rng.integers(2, size=n)
    angle = rng.choice([0.0, np.pi], n, p=[0.8, 0.2]) + rng.uniform(-0.8, 0.8, n)
    rim = 1.4 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    entrances = np.array([[20.0, 12.0], [0.0, 16.0]])[which] + rim
    to = np.where(which == 0, rng.choice(3, n), rng.choice(3, n, p=[0.6, 0.3, 0.1]))
    exits = np.array([[24.0, 0.0], [0.0, 20.0], [36.0, 20.0]])[to] + rng.uniform(-0.2, 0.2, (n, 2))
    return entrances, exits, which


@pytest.mark.parametrize("n", [300, 6000])
@pytest.mark.parametrize("unit", [1.0, 1e-3])
def test_lotteries_are_recovered(n: int, unit: float) -> None:
    entrances, exits, which = lotteries(np.random.default_rng(0), n)
    edges = cluster_chance(entrances * unit, exits * unit)
    assert len(edges) == 2
    assert sum(edge.count for edge in edges) == n
    first, second = sorted(edges, key=lambda edge: -edge.entrance[0])
    assert first.count == np.count_nonzero(which == 0)
    np.testing.assert_allclose(first.entrance, [20 * unit, 12 * unit], atol=0.1 * unit)
    assert first.radius == pytest.approx(1.4 * unit, abs=0.1 * unit)
    assert first.contains(entrances[which == 0] * unit).mean() == pytest.approx(0.95, abs=0.02)
    np.testing.assert_allclose(first.probabilities, 1 / 3, atol=0.12)
    np.testing.assert_allclose(second.probabilities, [0.6, 0.3, 0.1], atol=0.12)
    np.testing.assert_allclose(second.exits, unit * np.array([[24, 0], [0, 20], [36, 20]]), atol=0.2 * unit)


def test_rare_events_are_dropped() -> None:
    entrances, exits, _ = lotteries(np.random.default_rng(1), 300)
    entrances = np.vstack([entrances, [[50.0, 50.0]] * 3, [[20.0, 12.0]]])
    exits = np.vstack([exits, [[0.0, 20.0]] * 3, [[70.0, 0.0]]])
    edges = cluster_chance(entrances, exits)
    assert sum(edge.count for edge in edges) == 300
    assert all(len(edge.exits) == 3 and edge.probabilities.sum() == pytest.approx(1.0) for edge in edges)
    assert cluster_chance(entrances[:3], exits[:3]) == []


def test_an_edge_survives_json() -> None:
    (edge, _) = cluster_chance(*lotteries(np.random.default_rng(2), 300)[:2])
    copy = ChanceEdge.from_dict(json.loads(json.dumps(edge.to_dict())))
    assert (copy.radius, copy.count) == (edge.radius, edge.count)
    for name in ("entrance", "exits", "probabilities"):
        np.testing.assert_array_equal(getattr(copy, name), getattr(edge, name))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "episodes"),
    [("pointmaze-medium-navigate-v0", 100), ("pointmaze-giant-stitch-v0", 500), ("pointmaze-teleport-stitch-v0", 500)],
)
def test_of_real_mazes_nothing_but_the_portals_is_flagged(env_id: str, episodes: int) -> None:
    data = generate(env_id, 0, episodes, val_episodes=1)["train"]
    rows = np.flatnonzero(~data["terminals"].astype(bool))
    states, next_states = data["observations"][rows], data["observations"][rows + 1]
    flagged = find_unpredictable(states, data["actions"][rows], next_states, seed=0)
    jumps = np.linalg.norm(next_states - states, axis=1) > 1.0  # a step is 0.2 long
    assert len(rows) >= 100_000 and jumps.any() == ("teleport" in env_id)
    np.testing.assert_array_equal(flagged, jumps)
