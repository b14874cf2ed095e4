"""When the world is not as the map says: notice that there is no progress."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MIN_PROGRESS = 1.0  # the cost to go counts steps; less than one is the controller's noise


class Progress(NamedTuple):
    """What is remembered of each agent from one step to the next."""

    goals: np.ndarray  #: ``[B, goal_dim]``
    best: np.ndarray  #: ``[B]`` the least cost to go so far, on the way to this goal over this graph
    stalled: np.ndarray  #: ``[B]`` steps since then
    version: np.ndarray  #: ``[B]`` of the graph

    @classmethod
    def of(cls, state: Any, desired: np.ndarray) -> Progress:
        """
        The state that a caller hands back.

        :param state: what the last call returned, of as many agents or of others
        :param desired: ``[B, goal_dim]`` where the agents want to be
        :raises ValueError: if it is anything else
        """
        try:
            goals, best, stalled, version = arrays = [np.asarray(part) for part in state]
            n, dim = goals.shape
            numbers = all(array.dtype.kind in "fiu" for array in arrays)
            if not numbers or dim != desired.shape[1] or any(part.shape != (n,) for part in (best, stalled, version)):
                raise ValueError("arrays of other shapes or types")
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"state must be what the last predict() returned, or None to begin anew ({error})"
            ) from error
        return cls(goals, best, stalled, version)


def watch(
    patience: int,
    version: int,
    desired: np.ndarray,
    costs: np.ndarray,
    arrived: np.ndarray,
    progress: Progress | None = None,
    episode_start: np.ndarray | None = None,
) -> tuple[Progress, np.ndarray]:
    """
    Take note of one step of each agent. Those whose cost to go has not fallen for ``patience`` steps are stuck.

    :param patience: steps
    :param version: of the graph over which they plan; on another, the cost to go means something else
    :param desired: ``[B, goal_dim]`` where they want to be
    :param costs: ``[B]`` cost to go
    :param arrived: ``[B]`` agents that are at their goals, and need not get closer
    :param progress: what the last call returned; None at the beginning
    :param episode_start: ``[B]`` agents that begin anew
    :return: what to pass to the next call, and the rows of the agents that are stuck
    """
    versions = np.full(len(costs), version)
    if progress is None or progress.goals.shape != desired.shape:
        return Progress(desired.copy(), costs, np.zeros(len(costs), dtype=np.intp), versions), np.empty(0, np.intp)
    anew = (progress.goals != desired).any(axis=1) | (progress.version != versions)
    if episode_start is not None:
        starts = np.asarray(episode_start)
        if starts.shape not in ((), anew.shape):
            raise ValueError(f"episode_start has shape {starts.shape}, expected {anew.shape}")
        anew |= starts.astype(bool)
    closer = anew | (costs <= progress.best - MIN_PROGRESS) | arrived | np.isinf(costs)
    best = np.where(closer, costs, progress.best)
    stalled = np.where(closer, 0, progress.stalled + 1)
    return Progress(desired.copy(), best, stalled, versions), np.flatnonzero(stalled >= patience)
