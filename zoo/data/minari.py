"""Generated trajectories as a Minari dataset."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from proq_agent.common.errors import within
from zoo.data.catalogue import find_world
from zoo.data.tasks import make_task_env


def check_minari_name(name: str, overwrite: bool = False) -> None:
    """
    Find out before the work is done whether a dataset can be written; Minari does so when it has begun.

    :param name: ``namespace/dataset-v0``, as Minari wants it
    :param overwrite: there may be such a dataset
    :raises ImportError: without the package
    :raises ValueError: if there is such a dataset, or the name is none
    """
    try:
        from minari.dataset.minari_dataset import parse_dataset_id
        from minari.storage import get_dataset_path
    except ImportError as error:
        raise ImportError("Minari datasets need the package: pip install minari h5py") from error
    with within(f"{name:.80} is no name of a Minari dataset", kind=ValueError):
        parse_dataset_id(name)
    if get_dataset_path(name).exists() and not overwrite:
        raise ValueError(f"there is a Minari dataset {name} already; give --overwrite, or another name")


def write_minari(name: str, arrays: Mapping[str, np.ndarray], env_id: str, overwrite: bool = False) -> int:
    """
    Write a dataset that ``minari:<name>`` then stands for.

    :param name: as for :func:`check_minari_name`
    :param arrays: one split of what :func:`zoo.data.generation.generate` returns
    :param env_id: the environment that it comes from, recorded in the dataset
    :param overwrite: replace a dataset of that name
    :return: the number of transitions
    """
    check_minari_name(name, overwrite)
    import minari
    from minari.data_collector import EpisodeBuffer
    from minari.storage import get_dataset_path

    env, world = make_task_env(env_id), find_world(env_id)
    observations = arrays["observations"]
    goals = arrays.get("achieved_goals", world.goal.of(observations) if world and world.goal else observations)
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
    if get_dataset_path(name).exists():
        minari.delete_dataset(name)
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
