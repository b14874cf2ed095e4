"""Goal environments by name."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import io
from typing import Any

import gymnasium as gym

from wrappers.goal_dict import GoalDict

OPTIONAL_PACKAGES = ("gymnasium-robotics", "highway-env")
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
        (``pointmaze-giant-v0``), any other Gymnasium id of a goal environment (``PointMaze_UMaze-v3``,
        ``parking-v0``), or ``module:EnvId`` for one that is registered when ``module`` is imported
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
    module, _, plain_name = name.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            raise ValueError(f"{env_id!r} names a module that cannot be imported: {error}") from error
    missing = [] if module or name in gym.registry else _register_optional_packages()
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    try:
        env = gym.make(plain_name, **kwargs)
    except gym.error.Error as error:
        if plain_name in gym.registry:
            raise
        closest = difflib.get_close_matches(plain_name, [*gym.registry, *dataset_ids], n=5)
        hint = f"did you mean {', '.join(closest)}?" if closest else "see gymnasium.registry for the known ones."
        if not module:
            hint += " An environment of your own is named module:EnvId, after the module that registers it."
        if missing:
            hint += f" More are known after `pip install {' '.join(missing)}`."
        raise ValueError(f"Unknown environment {env_id!r}: {hint}") from error
    return GoalDict(env, task_id)


def _register_optional_packages() -> list[str]:
    """
    Make the environments of optional packages known.

    :return: Those that are not installed
    """
    missing = []
    for package in OPTIONAL_PACKAGES:
        try:
            with contextlib.redirect_stderr(io.StringIO()):  # news of environments that nobody asked for
                gym.register_envs(importlib.import_module(package.replace("-", "_")))
        except ModuleNotFoundError:
            missing.append(package)
    return missing
