"""When the world is not as the map says: notice that there is no progress, and remember where."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MIN_PROGRESS = 1.0  # the cost to go counts steps; less than one is the controller's noise
MAX_SNAGS = 64  # places that an agent remembers; who was stuck so often will not get there


class Progress(NamedTuple):
    """What is remembered of each agent from one step to the next."""

    goals: np.ndarray  #: ``[B, goal_dim]``
    best: np.ndarray  #: ``[B]`` the least cost to go so far, on the way to this goal over this graph
    stalled: np.ndarray  #: ``[B]`` steps since then
    version: np.ndarray  #: ``[B]`` of the graph
    snags: (
        np.ndarray
    )  #: ``[B, S, 2 * map_dim + 1]`` place, target and cost, see :class:`Snags`; NaN where there is none

    @classmethod
    def begin(cls, desired: np.ndarray, version: int, map_dim: int) -> Progress:
        """
        Nothing to remember yet.

        :param desired: ``[B, goal_dim]`` where the agents want to be
        :param version: of the graph over which they plan
        :param map_dim: number of coordinates of a place
        """
        n = len(desired)
        none = np.empty((n, 0, 2 * map_dim + 1))
        return cls(desired.copy(), np.full(n, np.inf), np.zeros(n, dtype=np.intp), np.full(n, version), none)

    @classmethod
    def of(
        cls, state: Any, desired: np.ndarray, version: int, map_dim: int, episode_start: np.ndarray | None = None
    ) -> Progress:
        """
        The state that a caller hands back. Where goal or graph have changed, the cost to go means something else, and
        is looked at anew; where an episode begins, nothing is remembered.

        :param state: what the last call returned, of as many agents or of others; None at the beginning
        :param episode_start: ``[B]`` agents that begin anew
        :raises ValueError: if it is anything else
        """
        begun, starts = cls.begin(desired, version, map_dim), _as_starts(episode_start, len(desired))
        if state is None:
            return begun
        try:
            goals, best, stalled, versions, snags = arrays = [np.asarray(part) for part in state]
            n, dim = goals.shape
            numbers = all(array.dtype.kind in "fiu" for array in arrays)
            rows = all(part.shape == (n,) for part in (best, stalled, versions))
            if not (numbers and rows and dim == desired.shape[1] and _are_snags(snags, n, map_dim)) or not (
                np.isfinite(goals).all() and (best > -np.inf).all() and _are_counts(stalled) and _are_counts(versions)
            ):
                raise ValueError("arrays of other shapes, types or values")
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"state must be what the last predict() returned, or None to begin anew ({error})"
            ) from error
        if n != len(desired):
            return begun
        anew = (goals != desired).any(axis=1) | (versions != version) | starts
        if starts.any():
            snags = np.where(starts[:, None, None], np.nan, snags)
        return begun._replace(
            best=np.where(anew, np.inf, best), stalled=np.where(anew, 0, stalled), snags=snags.astype(np.float64)
        )

    @property
    def snagged(self) -> np.ndarray:
        """Rows of the agents that were stuck before."""
        return np.flatnonzero(~np.isnan(self.snags[..., 0]).all(axis=1)) if self.snags.size else np.empty(0, np.intp)

    def snags_of(self, row: int) -> np.ndarray:
        """``[n, 2 * map_dim + 1]`` those of one agent, the oldest first."""
        return self.snags[row][~np.isnan(self.snags[row, :, 0])]

    def with_snag(self, row: int, place: np.ndarray, target: np.ndarray, cost: float) -> Progress:
        """
        One agent was stuck, and goes another way from now on, whose cost is another.

        :param row: of the agent
        :param place: ``[map_dim]`` where it was
        :param target: ``[map_dim]`` where it was heading
        :param cost: of passing there again
        """
        best, snags, known = self.best.copy(), self.snags, len(self.snags_of(row))
        best[row] = np.inf
        if known < MAX_SNAGS:
            if known == snags.shape[1]:
                snags = np.pad(snags, ((0, 0), (0, 1), (0, 0)), constant_values=np.nan)
            snags = snags.copy()
            snags[row, known] = np.concatenate([place, target, [cost]])
        return self._replace(best=best, snags=snags)


def watch(patience: int, costs: np.ndarray, arrived: np.ndarray, progress: Progress) -> tuple[Progress, np.ndarray]:
    """
    Take note of one step of each agent. Those whose cost to go has not fallen for ``patience`` steps are stuck.

    :param patience: steps
    :param costs: ``[B]`` cost to go
    :param arrived: ``[B]`` agents that are at their goals, and need not get closer
    :param progress: what was known before
    :return: what is known now, and the rows of the agents that are stuck
    """
    closer = (costs <= progress.best - MIN_PROGRESS) | arrived | np.isinf(costs)
    best = np.where(closer, costs, progress.best)
    stalled = np.where(closer, 0, progress.stalled + 1)
    return progress._replace(best=best, stalled=stalled), np.flatnonzero(stalled >= patience)


def _as_starts(episode_start: Any, n: int) -> np.ndarray:
    """``[n]`` bool: which agents begin anew."""
    starts = np.asarray(False if episode_start is None else episode_start)
    if starts.shape not in ((), (n,)):
        raise ValueError(f"episode_start has shape {starts.shape}, expected {(n,)}")
    if starts.dtype.kind not in "biuf":
        raise ValueError(f"episode_start must be true or false for each agent, got {starts.dtype}")
    return np.broadcast_to(starts.astype(bool), n)


def _are_counts(numbers: np.ndarray) -> bool:
    return bool(((numbers >= 0) & (numbers < np.inf)).all())


def _are_snags(snags: np.ndarray, n: int, map_dim: int) -> bool:
    """Whether these are places, targets and costs, or none, of ``n`` agents; those that there are come first."""
    if snags.ndim != 3 or snags.shape[0] != n or snags.shape[1] > MAX_SNAGS or snags.shape[2] != 2 * map_dim + 1:
        return False
    some, none = (np.abs(snags) <= np.finfo(np.float32).max).all(axis=2), np.isnan(snags).all(axis=2)
    first = (some[:, :-1] | ~some[:, 1:]).all()
    return bool((some | none).all() and first and (snags[..., -1] >= 0)[some].all())
