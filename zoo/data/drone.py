"""
A pilot who flies a drone straight at random waypoints, another one on arrival or after long enough, with noise.

He plans nothing: that there is a way through the window is in the data only because some waypoints lie behind it.
"""

from __future__ import annotations

import numpy as np

from zoo.worlds.drone import advance, at_rest, free_points

SPEED = 0.1  # the most that is wanted on each axis
ARRIVED = 0.1


def play(_: str, rows: int, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """
    Play one episode.

    :param rows: length of the episode in rows, one more than its transitions
    :param noise: standard deviation of the Gaussian noise on each axis of the action
    :param rng: source of every random number of the episode
    """
    start, waypoint = free_points(2, rng)
    state = at_rest(start.astype(np.float32).astype(np.float64)[None])  # one that the file can hold
    observations, actions = np.empty((rows, 9), dtype=np.float32), np.empty((rows, 3), dtype=np.float32)
    for t in range(rows):
        if np.linalg.norm(waypoint - state[0, :3]) < ARRIVED or rng.uniform() < 1 / 40:
            waypoint = free_points(1, rng)[0]
        wanted = (0.3 * (waypoint - state[0, :3])).clip(-SPEED, SPEED)
        action = 20.0 * (wanted - state[0, 3:6]) + rng.normal(0.0, noise, size=3)
        observations[t], actions[t] = state[0], action.clip(-1.0, 1.0)
        state = advance(state, actions[t][None])
    return {"observations": observations, "actions": actions, "terminals": np.arange(rows) == rows - 1}
