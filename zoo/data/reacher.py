"""A hand that moves Reacher's two joints to random angles, one pair after the other, with noise."""

from __future__ import annotations

import numpy as np

from zoo.data.playing import plain_env, play_env

GAINS = (0.35, 0.05)  # torque for each radian off, and against each radian a second
ELBOW = 2.8  # the most that the second joint bends, a little less than its stop


def play(dataset_id: str, rows: int, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """
    Play one episode.

    :param dataset_id: its environment is played in
    :param rows: length of the episode in rows, one more than its transitions
    :param noise: standard deviation of the Gaussian noise on each torque
    :param rng: source of every random number of the episode
    """
    env = plain_env(dataset_id)
    wanted: np.ndarray | None = None

    def act(observation: np.ndarray) -> np.ndarray:
        nonlocal wanted
        angles, velocities = np.arctan2(observation[2:4], observation[:2]), observation[6:8]
        if wanted is None or rng.uniform() < 1 / 25:
            wanted = rng.uniform(-1.0, 1.0, 2) * [np.pi, ELBOW]
        off = wanted - angles
        off[0] = (off[0] + np.pi) % (2 * np.pi) - np.pi  # the shoulder turns all the way round, the elbow does not
        return GAINS[0] * off - GAINS[1] * velocities + rng.normal(0.0, noise, 2)

    return play_env(env, act, rows, rng)
