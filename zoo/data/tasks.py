"""The numbered tasks of an environment, in the form that :func:`proq_agent.common.evaluation.evaluate_tasks` takes."""

from __future__ import annotations

from functools import partial
from typing import Any

from proq_agent.common.dataset import load_minari
from proq_agent.common.evaluation import NO_TASK, EnvPool
from wrappers import GoalDict, make_goal_env
from zoo.data.catalogue import MAZE_PREFIX
from zoo.worlds import TEXT_MAZE_ID


def make_task_env(env_id: str, task: int | None = None, **kwargs: Any) -> GoalDict:
    """
    Make the environment that a dataset was collected in.

    :param env_id: as for :func:`wrappers.make_goal_env`, an id of :mod:`zoo.worlds`, ``maze:<file with a layout>``, or
        ``minari:<id of a Minari dataset>``
    :param task: its number; ``NO_TASK`` or ``None`` for any
    :param kwargs: ``render_mode`` and others of ``gymnasium.make``
    """
    if env_id.startswith("minari:"):
        dataset = load_minari(env_id.removeprefix("minari:"))
        return GoalDict(dataset.recover_environment(eval_env=True, **kwargs), task or None)
    if env_id.startswith(MAZE_PREFIX):
        return make_goal_env(TEXT_MAZE_ID, task or None, layout=env_id.removeprefix(MAZE_PREFIX), **kwargs)
    return make_goal_env(env_id, task or None, **kwargs)


def environment_id(env_id: str) -> str:
    """The id by which settings are looked up: a Minari dataset knows its environment."""
    if not env_id.startswith("minari:"):
        return env_id
    spec = load_minari(env_id.removeprefix("minari:")).env_spec
    return env_id if spec is None else spec.id


def task_envs(env_id: str) -> tuple[EnvPool, tuple[int, ...]]:
    """
    Prepare an evaluation.

    :param env_id: see :func:`make_task_env`
    :return: a pool of its environments (close it when done), and the numbers of its tasks
    """
    pool = EnvPool(partial(make_task_env, env_id))
    env = make_task_env(env_id)
    tasks = env.task_ids or (NO_TASK,)
    env.close()
    return pool, tasks
