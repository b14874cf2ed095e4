"""The ant seen from its body: what may not matter does not, and its symmetries are those of the physics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.data.ant import (
    ACTION_DIM,
    ACTION_INDEX,
    ACTION_SIGN,
    DIRECTION,
    FEATURE_INDEX,
    FEATURE_SIGN,
    WALKER_PATH,
    Walker,
    ant_features,
    leg_actions,
    motor_actions,
    world_axes,
)
from zoo.data.flat_floor import FlatFloor

QUARTER = np.array([np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)])
SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def model() -> Any:
    return FlatFloor(1, np.random.default_rng(0)).model


def step(model: Any, qpos: np.ndarray, qvel: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = qpos, qvel, action
    mujoco.mj_step(model, data, nstep=5)
    return data.qpos.copy(), data.qvel.copy()


def moving_ant(model: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """An ant in the middle of a clumsy walk: off the floor, on it, or both."""
    qpos, qvel = model.qpos0 + rng.uniform(-0.1, 0.1, size=15), 0.1 * rng.standard_normal(14)
    for _ in range(rng.integers(1, 30)):
        qpos, qvel = step(model, qpos, qvel, rng.uniform(-1, 1, size=ACTION_DIM))
    return qpos, qvel


def rotated(qpos: np.ndarray, qvel: np.ndarray, quaternion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same ant after a rotation of the world around the z axis."""
    qpos, qvel = qpos.copy(), qvel.copy()
    mujoco.mju_rotVecQuat(qpos[:3], qpos[:3].copy(), quaternion)
    mujoco.mju_mulQuat(qpos[3:7], quaternion, qpos[3:7].copy())
    mujoco.mju_rotVecQuat(qvel[:3], qvel[:3].copy(), quaternion)
    return qpos, qvel


def features_of(qpos: np.ndarray, qvel: np.ndarray, direction: np.ndarray) -> np.ndarray:
    return ant_features(qpos, qvel, direction, world_axes(qpos))


def unit(angle: float) -> np.ndarray:
    return np.array([np.cos(angle), np.sin(angle)])


def symmetric_ant(
    qpos: np.ndarray, qvel: np.ndarray, direction: np.ndarray, number: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ant whose features are those of another after a symmetry, put together joint by joint."""
    features = features_of(qpos, qvel, direction)[FEATURE_INDEX[number]] * FEATURE_SIGN[number]
    qpos, qvel, direction = qpos.copy(), qvel.copy(), direction.copy()
    if number >= 4:
        qpos[1], qvel[1], direction[1] = -qpos[1], -qvel[1], -direction[1]
        qpos[[4, 6]] *= -1  # the mirror image of a rotation keeps the part of its axis across the mirror
    for _ in range(number % 4):
        mujoco.mju_mulQuat(qpos[3:7], qpos[3:7].copy(), QUARTER)
    qvel[3:6] = features[10:13]
    for leg in range(4):
        bends = 1 if leg in (0, 3) else -1
        qpos[7 + 2 * leg], qpos[8 + 2 * leg] = features[13 + leg], bends * features[17 + leg]
        qvel[6 + 2 * leg], qvel[7 + 2 * leg] = features[21 + leg], bends * features[25 + leg]
    return qpos, qvel, direction


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS, number=st.integers(0, 7))
def test_physics_have_the_symmetries_of_the_tables(model: Any, seed: int, number: int) -> None:
    rng = np.random.default_rng(seed)
    qpos, qvel = moving_ant(model, rng)
    action, direction = rng.uniform(-1, 1, size=ACTION_DIM), unit(rng.uniform(-np.pi, np.pi))
    twin_qpos, twin_qvel, twin_direction = symmetric_ant(qpos, qvel, direction, number)
    twin_action = motor_actions(leg_actions(action)[ACTION_INDEX[number]] * ACTION_SIGN[number])

    after, twin_after = step(model, qpos, qvel, action), step(model, twin_qpos, twin_qvel, twin_action)
    expected = features_of(*after, direction)[FEATURE_INDEX[number]] * FEATURE_SIGN[number]
    np.testing.assert_allclose(features_of(*twin_after, twin_direction), expected, atol=1e-8)
    way, twin_way = (
        (a[0] - b)[:2] @ d for a, b, d in ((after, qpos, direction), (twin_after, twin_qpos, twin_direction))
    )
    assert twin_way == pytest.approx(way, abs=1e-10)


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS, angle=st.floats(-np.pi, np.pi), x=st.floats(-50, 50), y=st.floats(-50, 50))
def test_features_depend_neither_on_the_place_nor_on_the_heading(
    model: Any, seed: int, angle: float, x: float, y: float
) -> None:
    rng = np.random.default_rng(seed)
    qpos, qvel = moving_ant(model, rng)
    features = features_of(qpos, qvel, unit(0.3))
    qpos, qvel = rotated(qpos, qvel, np.array([np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2)]))
    qpos[:2] = x, y
    np.testing.assert_allclose(features_of(qpos, qvel, unit(0.3 + angle)), features, atol=1e-9)


def test_features_of_many_ants_are_those_of_each(model: Any) -> None:
    ants = [moving_ant(model, np.random.default_rng(seed)) for seed in range(5)]
    qpos, qvel = (np.stack(column) for column in zip(*ants, strict=True))
    directions = np.stack([unit(seed) for seed in range(5)])
    each = [features_of(*ant, direction) for ant, direction in zip(ants, directions, strict=True)]
    np.testing.assert_array_equal(ant_features(qpos, qvel, directions, world_axes(qpos)), each)


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS, turns=st.integers(1, 3))
def test_the_walker_does_the_same_with_whichever_legs_are_in_front(model: Any, seed: int, turns: int) -> None:
    rng = np.random.default_rng(seed)
    walker = Walker.load()
    qpos, qvel = moving_ant(model, rng)
    direction = unit(rng.uniform(-np.pi, np.pi))
    action = leg_actions(walker.act(qpos, qvel, direction))
    twin = leg_actions(walker.act(*symmetric_ant(qpos, qvel, direction, turns)))
    np.testing.assert_allclose(twin, action[ACTION_INDEX[turns]] * ACTION_SIGN[turns], atol=1e-4)
    assert np.abs(twin - action).max() > 1e-3  # and not because it does nothing


def test_direction_is_where_the_name_says(model: Any) -> None:
    qpos, qvel = moving_ant(model, np.random.default_rng(0))
    there, back = features_of(qpos, qvel, unit(1.0)), features_of(qpos, qvel, -unit(1.0))
    np.testing.assert_array_equal(there[DIRECTION], -back[DIRECTION])
    np.testing.assert_array_equal(np.delete(there, DIRECTION), np.delete(back, DIRECTION))


def test_a_saved_walker_is_the_same_and_holds_no_pickles(tmp_path: Path, model: Any) -> None:
    walker = Walker.load()
    walker.save(tmp_path / "copy.npz")
    state = (*moving_ant(model, np.random.default_rng(1)), unit(2.0))
    np.testing.assert_array_equal(Walker.load(tmp_path / "copy.npz").act(*state), walker.act(*state))
    assert WALKER_PATH.stat().st_size < 500_000


def test_a_file_without_a_walker_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("other.npz", "text.npz"):
        with pytest.raises(ValueError, match=f"{name} holds no walker.*zoo.expert"):
            Walker.load(tmp_path / name)
