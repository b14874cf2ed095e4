"""A hand that swings a pendulum to and fro, higher and lower, with noise, or pushes at random."""

from __future__ import annotations

import numpy as np

from zoo.data.playing import plain_env, play_env

MEAN_HOLD = 8  # steps for which a random push is held
GRAVITY = 15.0  # of Pendulum's energy, in units of its angular velocity squared: 3 g / l over two


def play(dataset_id: str, rows: int, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """
    Play one episode: the hand brings the pendulum to an energy, another every now and then.

    :param dataset_id: its environment is played in
    :param rows: length of the episode in rows, one more than its transitions
    :param noise: standard deviation of the Gaussian noise, in units of the largest torque
    :param rng: source of every random number of the episode
    """
    env = plain_env(dataset_id)
    wanted, push = 0.0, 0.0

    def act(observation: np.ndarray) -> np.ndarray:
        nonlocal wanted, push
        cosine, _, velocity = observation
        if rng.uniform() < 1 / 50 or wanted == 0.0:
            wanted = rng.uniform(-GRAVITY, 1.5 * GRAVITY)  # from hanging still to going over the top
        if rng.uniform() < 1 / MEAN_HOLD:
            push = rng.uniform(-0.5, 0.5)
        energy = velocity**2 / 2 + GRAVITY * cosine
        way = np.sign((wanted - energy) * velocity) or 1.0
        return env.max_torque * np.array([way * min(abs(wanted - energy) / 5, 1.0) + push + rng.normal(0.0, noise)])

    return play_env(env, act, rows, rng)
