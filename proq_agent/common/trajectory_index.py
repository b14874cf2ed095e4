"""Where trajectories end, and all that follows from it, in two numbers a trajectory instead of two a row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch as th


class FollowedRows(NamedTuple):
    """Some rows of each trajectory, the first ones, counted through from 0."""

    total: int  #: how many there are
    last: th.Tensor  #: ``[n]`` of all trajectories, how many there are up to the end of each
    shifts: th.Tensor  #: ``[n]`` what to add to a number to get its row

    def rows(self, numbers: th.Tensor) -> th.Tensor:
        """The rows of these numbers."""
        return numbers + self.shifts[th.searchsorted(self.last, numbers, right=True)]


class TrajectoryIndex:
    """
    Rows that lie one after the other in trajectories; every row but the last of a trajectory starts a transition.

    :param ends: the last row of each trajectory, in order; the last of all is the last row there is
    :param device: of the row numbers that are asked for
    """

    def __init__(self, ends: np.ndarray, device: th.device) -> None:
        self.ends = ends
        self._lengths = np.diff(ends, prepend=-1)
        self.n_transitions = int(ends[-1]) + 1 - len(ends)
        self._ends = th.as_tensor(ends, device=device)
        self._transitions_before = th.as_tensor(ends - np.arange(len(ends)), device=device)

    def to(self, device: th.device) -> TrajectoryIndex:
        return TrajectoryIndex(self.ends, device)

    def end_of(self, rows: th.Tensor) -> th.Tensor:
        """The last row of the trajectory that each row lies in."""
        return self._ends[th.searchsorted(self._ends, rows)]

    def transitions(self, numbers: th.Tensor) -> th.Tensor:
        """The rows that start the transitions of these numbers, counted from 0 to ``n_transitions - 1``."""
        return numbers + th.searchsorted(self._transitions_before, numbers, right=True)

    @property
    def most_steps(self) -> int:
        """From a row to the last of its trajectory."""
        return int(self._lengths.max()) - 1

    def followed(self, lead: int) -> FollowedRows:
        """
        The rows that another of their trajectory follows so many steps later.

        :param lead: the number of steps
        """
        numbers = np.maximum(self._lengths - lead, 0)
        last = np.cumsum(numbers)
        shifts = self.ends + 1 - self._lengths - (last - numbers)
        return FollowedRows(int(last[-1]), *(th.as_tensor(part, device=self._ends.device) for part in (last, shifts)))

    def cut(self, rows: np.ndarray) -> TrajectoryIndex:
        """The same rows, with trajectories that end at these rows too."""
        return TrajectoryIndex(np.union1d(self.ends, rows), self._ends.device)

    def only(self, trajectories: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> TrajectoryIndex:
        """
        Some longer trajectories of which those of this index are pieces, moved together.

        :param trajectories: ``[n]`` whether each of the longer ones is kept
        :param starts: ``[n]`` their first rows
        :param lengths: ``[n]`` their numbers of rows
        """
        whole = np.searchsorted(starts, self.ends, side="right") - 1
        dropped = np.cumsum(np.where(trajectories, 0, lengths))  # rows, up to the end of each
        return TrajectoryIndex((self.ends - dropped[whole])[trajectories[whole]], self._ends.device)
