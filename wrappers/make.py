"""Goal environments by name."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import io
from typing import Any

import gymnasium as gym

from wrappers.goal_dict import GoalDict

_DATASET_TYPES = {
    "antmaze": ("explore", "navigate", "stitch"),
    "antsoccer": ("navigate", "stitch"),
    "cube": ("noisy", "play"),
    "humanoidmaze": ("navigate", "stitch"),
    "pointmaze": ("navigate", "stitch"),
    "powderworld": ("play",),
    "puzzle": ("noisy", "play"),
    "scene": ("noisy", "play"),
}


def dataset_env_ids() -> dict[str, str]:
    """
    Map OGBench's dataset ids to the ids of the environments that they were collected in.

    :return: For example ``{"pointmaze-giant-stitch-v0": "pointmaze-giant-v0", ...}``
    """
    import ogbench  # noqa: F401  (registers its environments)

    ids = {}
    for env_id in gym.registry:
        family = env_id.removeprefix("visual-").split("-")[0]
        end_of_name = env_id.find("-singletask") if "-singletask" in env_id else env_id.rfind("-v")
        for dataset_type in _DATASET_TYPES.get(family, ()):
            ids[f"{env_id[:end_of_name]}-{dataset_type}{env_id[end_of_name:]}"] = env_id
    return ids


def make_goal_env(
    env_id: str, task_id: int | str | None = None, render_mode: str | None = None, **kwargs: Any
) -> GoalDict:
    """
    Make a goal environment in the form that ProQ and SB3 read, without touching any dataset.

    :param env_id: An OGBench dataset id (``pointmaze-giant-stitch-v0``), an OGBench environment id
        (``pointmaze-giant-v0``) or any other Gymnasium id of a goal environment (``PointMaze_UMaze-v3``)
    :param task_id: See :class:`~wrappers.goal_dict.GoalDict`
    :param render_mode: As for ``gymnasium.make``; ``None`` leaves the environment's default
    :param kwargs: Passed to ``gymnasium.make``
    :return: The wrapped environment
    :raises ValueError: If there is no such environment, or it is not a goal environment
    """
    dataset_ids = dataset_env_ids()
    name = env_id
    if "-oraclerep-" in env_id:
        name = env_id.replace("-oraclerep", "")
        kwargs.setdefault("use_oracle_rep", True)
    name = dataset_ids.get(name, name)
    has_robotics = importlib.util.find_spec("gymnasium_robotics") is not None
    if name not in gym.registry and has_robotics:
        with contextlib.redirect_stderr(io.StringIO()):  # it prints news of environments that nobody asked for
            import gymnasium_robotics

        gym.register_envs(gymnasium_robotics)
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    try:
        env = gym.make(name, **kwargs)
    except gym.error.Error as error:
        if name in gym.registry:
            raise
        closest = difflib.get_close_matches(env_id, [*gym.registry, *dataset_ids], n=5)
        hint = f"did you mean {', '.join(closest)}?" if closest else "see gymnasium.registry for the known ones."
        if not has_robotics:
            hint += " Gymnasium-Robotics ids need `pip install gymnasium-robotics`."
        raise ValueError(f"Unknown environment {env_id!r}: {hint}") from error
    return GoalDict(env, task_id)
