"""
The two forms in which OGBench hands out its datasets, as one row a state.

With ``s4`` the last state of a trajectory of four transitions, its loader returns

===================== ============================ ==============================
array                 regular                      ``compact_dataset=True``
===================== ============================ ==============================
``observations``      s0 s1 s2 s3                  s0 s1 s2 s3 s4
``next_observations`` s1 s2 s3 s4
``terminals``         0 0 0 1                      0 0 0 1 1
``valids``                                         1 1 1 1 0
===================== ============================ ==============================
"""

from __future__ import annotations

from typing import Any

import numpy as np


def with_last_states(
    observations: Any, actions: Any, terminals: Any, next_observations: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """
    Rows of transitions as rows of states: one more for each trajectory.

    :param observations: ``[transitions, observation_dim]``
    :param actions: ``[transitions, action_dim]``
    :param terminals: ``[transitions]``, true on the last transition of each trajectory
    :param next_observations: ``[transitions, observation_dim]``
    :return: observations, actions and terminals with one row a state
    :raises ValueError: if the transitions of a trajectory do not follow each other
    """
    observations, actions, following = map(np.asarray, (observations, actions, next_observations))
    if following.shape != observations.shape or not observations.ndim:
        raise ValueError(f"next_observations has shape {following.shape}, observations {observations.shape}")
    if actions.shape[:1] != observations.shape[:1]:
        raise ValueError(f"actions has shape {actions.shape}; expected one row for each of {len(observations)} rows")
    ends = np.flatnonzero(as_flags("terminals", terminals, len(observations)))
    if not len(ends) or ends[-1] != len(observations) - 1:
        raise ValueError(f"terminals row {len(observations) - 1}, the last, is not set: mark every trajectory's last")
    apart = (following[:-1] != observations[1:]).any(axis=tuple(range(1, observations.ndim)))
    apart[ends[:-1]] = False
    if apart.any():
        row = int(apart.argmax())
        raise ValueError(
            f"next_observations row {row} is not observations row {row + 1} ({apart.sum()} such rows); keep the "
            "transitions of a trajectory in their order, and mark its last one in terminals"
        )
    return (
        np.insert(observations, ends + 1, following[ends], axis=0),
        np.insert(actions, ends + 1, actions[ends], axis=0),
        np.insert(np.zeros(len(observations), dtype=bool), ends + 1, True),
    )


def ends_of_valid(terminals: Any, valids: Any) -> np.ndarray:
    """
    The last state of each trajectory, which starts no valid transition.

    :param terminals: ``[rows]``, true on the last two rows of each trajectory
    :param valids: ``[rows]``, false on the last
    :raises ValueError: if the two contradict each other
    """
    terminals = np.asarray(terminals)
    last = ~as_flags("valids", valids, terminals.size)
    terminals = as_flags("terminals", terminals, terminals.size)
    lost = last & ~terminals
    if lost.any():
        raise ValueError(
            f"valids row {lost.argmax()} is not valid, but no trajectory ends there ({lost.sum()} such rows); set "
            "terminals in the last row of each trajectory"
        )
    return last


def as_flags(name: str, array: Any, rows: int) -> np.ndarray:
    """
    Truth values, however they are stored.

    :param name: of the array
    :param array: booleans, or 0 and 1
    :param rows: that it must have
    :raises ValueError: naming it, if it is something else
    """
    array = np.asarray(array)
    if array.shape != (rows,):
        raise ValueError(f"{name} has shape {array.shape}; expected ({rows},), one flag for each row")
    if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise ValueError(f"{name} (dtype {array.dtype}) must hold booleans or 0 and 1 alone")
    return array.astype(bool)
