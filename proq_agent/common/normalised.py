"""Environments that normalise what they show."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
from stable_baselines3.common.vec_env import VecNormalize


def warn_if_normalised(env: Any) -> None:
    """
    Say so if an environment hands out normalised observations, to which an agent of ours is blind: it standardises
    by itself, and knows places by their coordinates.

    This notices ``VecNormalize`` and ``NormalizeObservation`` in an environment that it is shown. Of an observation
    alone an agent notices no more than that it lies outside of its data, see ``goal_limits.py``; normalised values that
    lie inside look like other places.

    :param env: an environment, or several in a ``VecEnv``
    """
    waiting = [env]
    while waiting:
        env = waiting.pop()
        if isinstance(env, gym.wrappers.NormalizeObservation) or (isinstance(env, VecNormalize) and env.norm_obs):
            warnings.warn(
                f"{type(env).__name__} changes the observations, and the agent will take one place for another; take "
                "it off (norm_obs=False), unless the dataset was recorded through the very same normalisation",
                stacklevel=3,
            )
            return
        waiting += [
            inner
            for inner in (getattr(env, "venv", None), getattr(env, "__dict__", {}).get("env"))
            if inner is not None
        ]
        waiting += getattr(env, "envs", [])[:1]
