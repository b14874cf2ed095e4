"""A driver who rocks the car out of the valley, to more or less height, with noise and random pushes."""

from __future__ import annotations

import numpy as np

from zoo.data.playing import plain_env, play_env

MEAN_HOLD = 8  # steps for which a random push is held
HILL = 0.0025 / 3  # energy at its top, and the valley's below zero, in units of the velocity squared


def play(dataset_id: str, rows: int, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """
    Play one episode: the driver brings the car to an energy, another every now and then, so that it climbs to all
    heights and comes down again.

    :param dataset_id: its environment is played in
    :param rows: length of the episode in rows, one more than its transitions
    :param noise: standard deviation of the Gaussian noise on the action
    :param rng: source of every random number of the episode
    """
    wanted = push = 0.0

    def act(observation: np.ndarray) -> np.ndarray:
        nonlocal wanted, push
        position, velocity = observation
        if rng.uniform() < 1 / 60 or wanted == 0.0:
            wanted = rng.uniform(-HILL, 1.5 * HILL)  # from the bottom to over the top
        if rng.uniform() < 1 / MEAN_HOLD:
            push = rng.uniform(-0.5, 0.5)
        missing = wanted - velocity**2 / 2 - HILL * np.sin(3 * position)
        way = np.sign(missing * velocity) or 1.0
        return np.array([way * min(abs(missing) / (0.2 * HILL), 1.0) + push + rng.normal(0.0, noise)])

    return play_env(plain_env(dataset_id), act, rows, rng)
