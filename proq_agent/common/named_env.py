"""
Environments by name. Agents know environments as they are given them and no more, so that packages which know names say
so with an entry point; the one that comes with this package reads OGBench's ids, of datasets too.
"""

from __future__ import annotations

from importlib.metadata import entry_points

import gymnasium as gym

GROUP = "proq_agent.make_env"  #: of functions that make a goal environment of a name; see setup.cfg


def make_named_env(name: str) -> gym.Env:
    """
    Make a goal environment.

    :param name: ``pointmaze-giant-v0``, ``pointmaze-giant-stitch-v0``, ``module:EnvId`` ...
    :raises ValueError: if nobody knows it
    """
    known = entry_points(group=GROUP)
    if not known:
        remedy = "pass an environment, as wrappers.make_goal_env makes it, or run `pip install -e .` once more"
        raise ValueError(f"env={name!r}: no installed package makes environments of names; {remedy}")
    return next(iter(known)).load()(name)
