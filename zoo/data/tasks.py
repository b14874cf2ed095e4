"""The numbered tasks of an environment, in the form that :func:`proq_agent.common.evaluation.evaluate_tasks` takes."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym

from proq_agent.common.errors import one_line
from proq_agent.common.evaluation import NO_TASK, EnvPool
from proq_agent.common.minari_files import load_minari, named_environment
from wrappers import GoalDict, make_goal_env
from zoo.data.catalogue import MAZE_PREFIX, MINARI
from zoo.worlds import TEXT_MAZE_ID


class UntrustedEnvironment(ValueError):
    """An environment that only a dataset describes, and that building would run code of its author."""


def make_task_env(env_id: str, task: int | None = None, *, trust_dataset: bool = False, **kwargs: Any) -> GoalDict:
    """
    Make the environment that a dataset was collected in.

    :param env_id: as for :func:`wrappers.make_goal_env`, an id of :mod:`zoo.worlds`, ``maze:<file with a layout>``, or
        ``minari:<id of a Minari dataset>``
    :param task: its number; ``NO_TASK`` or ``None`` for any
    :param trust_dataset: build whatever a Minari dataset describes; by default only an environment that is registered
        with Gymnasium on this machine, under the name that the dataset gives, with plain numbers and words as arguments
    :param kwargs: ``render_mode`` and others of ``gymnasium.make``
    :raises UntrustedEnvironment: if it would take more than that
    """
    if env_id.startswith(MAZE_PREFIX):
        return make_goal_env(TEXT_MAZE_ID, task or None, layout=env_id.removeprefix(MAZE_PREFIX), **kwargs)
    if not env_id.startswith(MINARI):
        return make_goal_env(env_id, task or None, **kwargs)
    dataset_id = env_id.removeprefix(MINARI)
    if trust_dataset:
        return GoalDict(load_minari(dataset_id).recover_environment(eval_env=True, **kwargs), task or None)
    named = named_environment(dataset_id)
    if named is None or not named.is_plain:
        says = "names no environment" if named is None else f"describes the environment {named.id!r:.80} by code"
        raise UntrustedEnvironment(
            f"{env_id} {says}, which is not built; give --trust-dataset if you trust the dataset's author"
        )
    try:
        return make_goal_env(named.id, task or None, **named.arguments | kwargs)
    except Exception as error:  # whatever an environment makes of the arguments in a stranger's dataset
        reason = one_line(error, 300)
        if named.id not in gym.registry:
            raise UntrustedEnvironment(
                f"{env_id} is of an environment that is not registered here: {reason}"
            ) from error
        raise ValueError(f"{env_id}: its environment {named.id} cannot be made: {reason}") from error


def find_task_env(env_id: str) -> GoalDict | None:
    """:func:`make_task_env`, or None where only a stranger's dataset describes the environment."""
    try:
        return make_task_env(env_id)
    except UntrustedEnvironment:
        return None


def task_envs(env_id: str, trust_dataset: bool = False) -> tuple[EnvPool, tuple[int, ...]]:
    """
    Prepare an evaluation.

    :param env_id: see :func:`make_task_env`
    :param trust_dataset: likewise
    :return: a pool of its environments (close it when done), and the numbers of its tasks
    """
    make_env = partial(make_task_env, env_id, trust_dataset=trust_dataset)
    pool = EnvPool(make_env)
    env = make_env()
    tasks = env.task_ids or (NO_TASK,)
    env.close()
    return pool, tasks
