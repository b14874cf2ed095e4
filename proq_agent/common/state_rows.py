"""Logged arrays, of whatever form, as checked rows of states: the one place that knows what a dataset may hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from proq_agent.common.goals import GoalSpec
from proq_agent.common.transitions import as_flags, ends_of_valid, with_last_states

NEEDED = ("observations", "actions", "terminals")
OPTIONAL = ("achieved_goals", "next_observations", "valids")  # arrays that a file may have


class StateRows(NamedTuple):
    """One row a state, as float32."""

    observations: np.ndarray
    actions: np.ndarray
    goals: np.ndarray  #: the observations themselves if these are the goals
    ends: np.ndarray  #: the last row of each trajectory


def state_rows(
    observations: Any,
    actions: Any,
    terminals: Any,
    achieved_goals: Any = None,
    *,
    goal: GoalSpec,
    next_observations: Any = None,
    valids: Any = None,
    action_space: Any = None,
) -> StateRows:
    """
    Check arrays and bring them into one form; see :class:`~proq_agent.GoalDataset` for what they are.

    :raises ValueError: naming the array, the row and the remedy, if the arrays do not describe trajectories
    """
    if valids is not None:
        terminals = ends_of_valid(terminals, valids)
    elif next_observations is not None:
        if achieved_goals is not None:
            raise ValueError(
                "achieved_goals lacks the last state of each trajectory, which next_observations has: say with "
                "goal=... what of an observation is the goal, or give one row a state (compact_dataset=True)"
            )
        observations, actions, terminals = with_last_states(observations, actions, terminals, next_observations)
    observations = _as_matrix("observations", observations)
    actions = _as_matrix("actions", actions)
    if achieved_goals is None:
        achieved_goals = goal.of(observations)
    elif goal.selects:
        raise ValueError("give achieved_goals, or a goal that follows from the observations, not both")
    goals = observations if achieved_goals is observations else _as_matrix("achieved_goals", achieved_goals)
    goal.check_dimension(goals.shape[1])
    ends = _trajectory_ends(terminals, len(observations))
    for name, array in (("actions", actions), ("achieved_goals", goals)):
        if len(array) != len(observations):
            raise ValueError(
                f"{name} has {len(array)} rows but observations has {len(observations)}; give one row a state "
                "(the last row of a trajectory needs an action too: any finite value)"
            )
    if action_space is not None:
        check_actions_lie_in(actions, action_space, ends)
    return StateRows(observations, actions, goals, ends)


def known_arrays(arrays: Mapping[str, Any], goal: GoalSpec) -> dict[str, Any]:
    """
    What of OGBench's arrays, or of a file's, :func:`state_rows` takes.

    :param arrays: ``oracle_reps`` are goals; arrays of names that nobody knows are left out
    :param goal: one that follows from the observations replaces those among the arrays
    :raises ValueError: naming what is missing
    """
    missing = [name for name in NEEDED if name not in arrays]
    if missing:
        raise ValueError(f"there is no {', '.join(missing)} among the arrays, only {', '.join(arrays)}")
    known = {name: arrays[name] for name in (*NEEDED, *OPTIONAL) if name in arrays}
    if "oracle_reps" in arrays:
        known["achieved_goals"] = arrays["oracle_reps"]
    if goal.selects:
        known.pop("achieved_goals", None)
    return known


def episode_arrays(episodes: Iterable[tuple[Any, Any]], goal: GoalSpec, first: int = 0) -> dict[str, np.ndarray]:
    """
    Arrays of ``(observations, actions)`` pairs, with one more observation than actions in each.

    :param episodes: observations are arrays, or dicts with ``observation`` and ``achieved_goal``
    :param goal: one that follows from the observations replaces the dicts'
    :param first: number of the first episode, to name it by
    """
    observations, actions, terminals, goals = [], [], [], []
    any_dict = False
    for number, (states, acts) in enumerate(episodes, first):
        as_dict = isinstance(states, dict)
        any_dict |= as_dict
        if as_dict and not {"observation", "achieved_goal"} <= set(states):
            raise ValueError(f"episode {number}: need the keys observation and achieved_goal, got {sorted(states)}")
        seen = np.asarray(states["observation"] if as_dict else states)
        acts = np.asarray(acts)
        if not seen.ndim or not acts.ndim:
            raise ValueError(f"episode {number}: a single number is no series of observations or actions")
        if len(seen) != len(acts) + 1:
            raise ValueError(
                f"episode {number}: {len(seen)} observations and {len(acts)} actions; there must be one "
                "observation more than actions (the final state)"
            )
        observations.append(seen)
        actions.append(np.concatenate([acts, acts[-1:]]))
        terminals.append(np.arange(len(seen)) == len(acts))
        goals.append(np.asarray(states["achieved_goal"]) if as_dict else seen)
    if not observations:
        raise ValueError("there is no episode in the dataset")
    named = {"observations": observations, "actions": actions, "terminals": terminals, "achieved_goals": goals}
    if goal.selects or not any_dict:  # whole observations are goals anyway
        named.pop("achieved_goals")
    return {name: np.concatenate(parts) for name, parts in named.items()}


def _as_matrix(name: str, array: Any) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} has dtype {array.dtype}; give real numbers (float32)")
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name} has shape {array.shape}; expected [rows, features]: flatten or add an axis")
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(array, dtype=np.float32)
    bad = ~np.isfinite(array).all(axis=1)  # after the cast: 1e300 is finite only as a float64
    if bad.any():
        raise ValueError(
            f"{name} row {bad.argmax()} is not finite as float32 ({bad.sum()} such rows); drop or repair these "
            "trajectories"
        )
    return array


def _trajectory_ends(terminals: Any, rows: int) -> np.ndarray:
    terminals = as_flags("terminals", terminals, rows)
    if rows == 0:
        raise ValueError("observations is empty; a dataset needs at least one trajectory of two rows")
    ends = np.flatnonzero(terminals)
    if not len(ends) or ends[-1] != rows - 1:
        raise ValueError(f"terminals row {rows - 1}, the last, is not set: mark the last row of every trajectory")
    short = np.diff(ends, prepend=-1) < 2
    if short.any():
        raise ValueError(
            f"the trajectory that ends at row {ends[short.argmax()]} has a single row ({short.sum()} such "
            "trajectories); a trajectory needs two states or more: drop these rows"
        )
    return ends


def check_actions_lie_in(actions: np.ndarray, space: Any, ends: Sequence[int] | np.ndarray = ()) -> None:
    """
    :param actions: ``[rows, action_dim]``
    :param space: a ``Box``
    :param ends: rows that have no action
    :raises ValueError: naming the first row that is no point of the space
    """
    if not isinstance(space, spaces.Box):
        raise ValueError(f"actions must be points of a Box, and not of {space}")
    if actions.shape[1:] != tuple(space.shape):
        raise ValueError(f"actions has {actions.shape[1]} features but the action space is {space}")
    # Clipped in another precision, they may lie a little beyond.
    below, above = (1e-5 * np.maximum(1.0, np.abs(bound)) for bound in (space.low, space.high))
    outside = np.any((actions < space.low - below) | (actions > space.high + above), axis=1)
    outside[np.asarray(ends, dtype=np.int64)] = False
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"actions row {row} = {actions[row]} lies outside {space} ({outside.sum()} such rows); "
            "clip the actions or give the space they were taken in"
        )
