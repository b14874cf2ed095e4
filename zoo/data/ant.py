"""
The ant seen from its own body, its symmetries, and the walker that moves it in a direction.

The dynamics on a flat floor do not care which way the ant faces, nor which of its four equal legs is in front. So the
walker sees everything in the body's frame, with the legs in the order of their angles, turned by quarters until the
direction to walk in is within 45 degrees of the x axis: what is learned in one quarter is known in all four.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from proq_agent.common.files import atomic_file

ACTION_DIM = 8
FEATURE_DIM = 29
DIRECTION = slice(7, 10)  # where the direction is among the features
LAYERS = ("hidden_1", "hidden_2", "action")
WALKER_PATH = Path(__file__).parent / "experts" / "ant.npz"

# Joints come as hip and ankle of legs 1, 2, 3, 4, motors as hip and ankle of legs 4, 1, 2, 3. Here it is the hips of
# the four legs, then the ankles, and an ankle bends the same way in all legs.
_JOINTS = np.array([0, 2, 4, 6, 1, 3, 5, 7])
_MOTORS = np.array([2, 4, 6, 0, 3, 5, 7, 1])
_SIGNS = np.array([1.0, 1.0, 1.0, 1.0, 1.0, -1.0, -1.0, 1.0])


def world_axes(qpos: np.ndarray) -> np.ndarray:
    """The axes x, y and z of the world in the body's frame: [..., 15] to [..., 3, 3]."""
    w, x, y, z = (qpos[..., 3:7] / np.sqrt((qpos[..., 3:7] ** 2).sum(-1, keepdims=True))).T
    axes = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    return axes if qpos.ndim == 1 else axes.transpose(2, 0, 1)


def ant_features(qpos: np.ndarray, qvel: np.ndarray, direction: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """
    What the walker sees, none of it dependent on where the ant is and which way it faces.

    :param qpos: positions [..., 15]
    :param qvel: velocities [..., 14]
    :param direction: in which to walk, a unit vector in the world's plane [..., 2]
    :param axes: :func:`world_axes` of the positions
    :return: [..., 29]: height; in the body's frame up, velocity, direction and rotation; angles and rates of the joints
    """
    velocity = (qvel[..., :3, None] * axes).sum(-2)
    heading = (direction[..., None] * axes[..., :2, :]).sum(-2)
    return np.concatenate(
        (
            qpos[..., 2:3],
            axes[..., 2, :],
            velocity,
            heading,
            qvel[..., 3:6],
            qpos[..., 7 + _JOINTS] * _SIGNS,
            qvel[..., 6 + _JOINTS] * _SIGNS,
        ),
        axis=-1,
    )


def leg_actions(motors: np.ndarray) -> np.ndarray:
    """Actions in the order of the legs from those in the order of the motors."""
    return motors[..., _MOTORS] * _SIGNS


def motor_actions(legs: np.ndarray) -> np.ndarray:
    """The inverse of :func:`leg_actions`."""
    motors = np.empty_like(legs)
    motors[..., _MOTORS] = legs * _SIGNS
    return motors


def _turn(features: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same ant with the body's x axis where its y axis was."""
    height, vectors, legs = features[:1], features[1:13].reshape(4, 3), features[13:].reshape(4, 4)
    vectors = np.stack((vectors[:, 1], -vectors[:, 0], vectors[:, 2]), axis=1)
    legs, actions = np.roll(legs, -1, axis=1), np.roll(actions.reshape(2, 4), -1, axis=1)
    return np.concatenate((height, vectors.ravel(), legs.ravel())), actions.ravel()


def _mirror(features: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ant in a mirror that swaps left and right; a rotation turns the other way around all but the y axis."""
    height, vectors, legs = features[:1], features[1:13].reshape(4, 3), features[13:].reshape(4, 4)
    sides = np.array([[1, -1, 1], [1, -1, 1], [1, -1, 1], [-1, 1, -1]])
    hips = np.array([-1, 1])[:, None]
    legs, actions = legs[:, ::-1] * np.tile(hips, (2, 1)), actions.reshape(2, 4)[:, ::-1] * hips
    return np.concatenate((height, (vectors * sides).ravel(), legs.ravel())), actions.ravel()


def _symmetry_tables() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Each symmetry picks entries and flips signs: done to the numbers 1, 2, ..., it shows which."""
    rows = []
    numbers = np.arange(FEATURE_DIM) + 1, np.arange(ACTION_DIM) + 1
    for pair in (numbers, _mirror(*numbers)):
        for _ in range(4):
            rows.append(pair)
            pair = _turn(*pair)
    features, actions = (np.stack(column) for column in zip(*rows, strict=True))
    return abs(features) - 1, np.sign(features), abs(actions) - 1, np.sign(actions)


# Of the eight symmetries: 0-3 quarter turns, 4-7 a mirror and then 0-3 quarter turns. ``x[INDEX[k]] * SIGN[k]``.
FEATURE_INDEX, FEATURE_SIGN, ACTION_INDEX, ACTION_SIGN = _symmetry_tables()


class Walker:
    """
    The trained walker: a network of two hidden layers, in plain NumPy.

    Sums run in a fixed order in one thread, so that data made with it do not depend on a library's threads.

    :param weights: ``<layer>.weight`` [in, out] and ``<layer>.bias`` [out] of the three layers
    """

    def __init__(self, weights: Mapping[str, np.ndarray]):
        self.weights = {
            f"{layer}.{part}": np.ascontiguousarray(weights[f"{layer}.{part}"], dtype=np.float32)
            for layer in LAYERS
            for part in ("weight", "bias")
        }

    @classmethod
    def load(cls, path: Path = WALKER_PATH) -> Walker:
        """Read the weights that :meth:`save` wrote, the shipped ones by default."""
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(file)
        except (KeyError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} holds no walker ({error}); make one with python -m zoo.expert") from error

    def save(self, path: Path) -> None:
        """Write the weights, without pickles."""
        with atomic_file(path) as file:
            np.savez_compressed(file, **self.weights)  # type: ignore[arg-type]

    def act(self, qpos: np.ndarray, qvel: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """
        The most likely action, in the order of the motors.

        :param qpos: positions of one ant [15]
        :param qvel: velocities [14]
        :param direction: in which to walk, a unit vector [2]
        """
        features = ant_features(qpos, qvel, direction, world_axes(qpos))
        x, y, _ = features[DIRECTION].tolist()
        turns = (0 if x >= 0 else 2) if abs(x) >= abs(y) else (1 if y >= 0 else 3)
        values = (features[FEATURE_INDEX[turns]] * FEATURE_SIGN[turns]).astype(np.float32)
        for layer in LAYERS:
            values = np.einsum("i,ij->j", values, self.weights[f"{layer}.weight"]) + self.weights[f"{layer}.bias"]
            values = np.tanh(values) if layer == "action" else np.maximum(values, 0)
        return motor_actions(values[ACTION_INDEX[-turns % 4]] * ACTION_SIGN[-turns % 4])
