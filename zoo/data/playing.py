"""One episode in any environment by a function that acts, in the form of the official files."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from zoo.data.tasks import make_task_env


@cache
def plain_env(dataset_id: str) -> Any:
    """A dataset's environment, made once a process, without goals and without a limit of steps."""
    return make_task_env(dataset_id).unwrapped


def play_env(
    env: Any,
    act: Callable[[np.ndarray], np.ndarray],
    rows: int,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """
    Play until the rows are full or the environment ends the episode.

    :param env: shows arrays
    :param act: gives the action for an observation; clipped to the environment's bounds
    :param rows: the most that there are, one more than the transitions
    :param rng: its next number is the episode's seed
    :return: ``observations``, ``actions``, ``terminals``
    """
    low, high = env.action_space.low, env.action_space.high
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    observations, actions = [observation], []
    over = False
    while not over and len(observations) < rows:
        # As the file holds it: its actions replay to the same states.
        actions.append(np.clip(act(observation), low, high).astype(np.float32))
        observation, _, over, _, _ = env.step(actions[-1])
        observations.append(observation)
    actions.append(np.zeros_like(actions[-1]))  # none is taken in the last state
    return {
        "observations": np.array(observations, dtype=np.float32),
        "actions": np.array(actions),
        "terminals": np.arange(len(actions)) == len(actions) - 1,
    }
