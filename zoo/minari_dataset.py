"""Generated trajectories as a Minari dataset."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wrappers import make_goal_env


def write_minari(name: str, arrays: Mapping[str, np.ndarray], env_id: str) -> int:
    """
    Write a dataset that ``minari:<name>`` then stands for.

    :param name: ``namespace/dataset-v0``, as Minari wants it
    :param arrays: one split of what :func:`zoo.generate.generate` returns
    :param env_id: the environment that it comes from, recorded in the dataset
    :return: the number of transitions
    :raises ImportError: without the package
    :raises ValueError: if there is such a dataset, or the name is none
    """
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
    except ImportError as error:
        raise ImportError("Minari datasets need the package: pip install minari h5py") from error
    if name in minari.list_local_datasets():
        raise ValueError(f"there is a Minari dataset {name} already: minari delete {name}, or give another name")
    env = make_goal_env(env_id)
    observations, goals = arrays["observations"], arrays.get("achieved_goals", arrays["observations"])
    episodes, first = [], 0
    for end in np.flatnonzero(arrays["terminals"]):
        rows, steps = slice(first, end + 1), int(end - first)
        episodes.append(
            EpisodeBuffer(
                observations={
                    "observation": observations[rows],
                    "achieved_goal": goals[rows],
                    "desired_goal": np.repeat(goals[end][None], steps + 1, axis=0),  # where it went
                },
                actions=arrays["actions"][first:end],
                rewards=[0.0] * steps,
                terminations=[False] * steps,
                truncations=[False] * (steps - 1) + [True],
            )
        )
        first = int(end) + 1
    minari.create_dataset_from_buffers(
        name,
        episodes,
        env=env.spec,
        observation_space=env.observation_space,
        action_space=env.action_space,
        description=f"ProQ's behaviour policy in {env_id}",
    )
    env.close()
    return sum(len(episode.rewards) for episode in episodes)
