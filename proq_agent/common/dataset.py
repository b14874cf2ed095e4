"""Logged trajectories as tensors on the training device, or on disk where they are more than fit."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch as th

from proq_agent.common.errors import within
from proq_agent.common.goals import GoalSpec, as_goal_spec
from proq_agent.common.minari_files import read_minari
from proq_agent.common.npz import read_npz
from proq_agent.common.row_cache import open_rows
from proq_agent.common.row_file import Rows, whole
from proq_agent.common.row_statistics import std_mean
from proq_agent.common.shards import find_shards
from proq_agent.common.state_rows import NEEDED, OPTIONAL, episode_arrays, known_arrays, state_rows
from proq_agent.common.trajectory_index import TrajectoryIndex

TIME_WINDOW = 40  # steps that goals near in time are away at most
HELD_OUT, MAX_HELD_OUT = 0.05, 50_000  # share of the rows that is set aside, and how many at most
NEAR_CANDIDATES = 256  # random states that the nearest is taken from; more means nearer

Goal = GoalSpec | Sequence[int] | Callable[[np.ndarray], np.ndarray] | None


class GoalDataset:
    """
    Trajectories of observations, achieved goals and actions, one after the other.

    Row ``i`` holds a state and the action taken there; row ``i + 1`` is the next state unless ``terminals[i]`` marks
    the end of a trajectory (the last row of a trajectory has no next state, its action is never used).

    :param observations: ``[rows, observation_dim]``, what the actor sees
    :param actions: ``[rows, action_dim]``
    :param terminals: ``[rows]``, true on the last row of each trajectory
    :param achieved_goals: ``[rows, goal_dim]``, each state as a point in goal space; the observations if omitted
    :param goal: what of the observations is the goal, instead of ``achieved_goals``: indices, a function of
        observations ``[rows, observation_dim]``, or a :class:`~proq_agent.GoalSpec`, which also says when a goal is
        reached and may come with ``achieved_goals`` for that alone
    :param next_observations: as OGBench's loader returns them. Then a row is a transition, ``terminals`` marks the last
        one of each trajectory, and no state is lost
    :param valids: as OGBench's loader returns them with ``compact_dataset=True``: false on the last row of a trajectory
    :param action_space: a ``Box`` that the actions are checked against, if given
    :param device: where the tensors live
    :raises ValueError: naming the array, the row and the remedy, if the arrays do not describe trajectories
    """

    held_out: GoalDataset | None = None  #: trajectories to judge by, which nobody learns from
    coordinates: tuple[int, ...] | None = None  #: those that are left of the goals, see :meth:`on_coordinates`
    fingerprint: str | None = None  #: of what was read with :meth:`from_files`

    def __init__(
        self,
        observations: Any,
        actions: Any,
        terminals: Any,
        achieved_goals: Any = None,
        *,
        goal: Goal = None,
        next_observations: Any = None,
        valids: Any = None,
        action_space: Any = None,
        device: th.device | str = "cpu",
    ) -> None:
        self.goal_spec = as_goal_spec(goal)
        rows = state_rows(
            observations,
            actions,
            terminals,
            achieved_goals,
            goal=self.goal_spec,
            next_observations=next_observations,
            valids=valids,
            action_space=action_space,
        )
        self.device = th.device(device)
        self.trajectory_ends = rows.ends
        self.observations: Rows = th.as_tensor(rows.observations, device=self.device)
        self.actions: Rows = th.as_tensor(rows.actions, device=self.device)
        same = rows.goals is rows.observations
        self.achieved_goals: Rows = self.observations if same else th.as_tensor(rows.goals, device=self.device)
        scale = rows.goals.std(axis=0, dtype=np.float64).clip(1e-6)
        self.goal_scale = th.as_tensor(scale, dtype=th.float32).to(self.device)
        self._index = TrajectoryIndex(rows.ends, self.device)

    def cut(self, rows: np.ndarray) -> GoalDataset:
        """
        The same trajectories, ended at the given transitions: these are not sampled, and no goal is drawn across them.

        :param rows: row numbers of the states that the transitions start from; earlier cuts stay
        :return: a dataset that shares its tensors with this one
        """
        rows = np.asarray(rows, dtype=np.int64)
        if rows.size and (rows.min() < 0 or rows.max() >= len(self)):
            raise ValueError(f"cut rows must lie in 0..{len(self) - 1}, got {rows.min()}..{rows.max()}")
        index = self._index.cut(rows)
        if not index.n_transitions:
            raise ValueError("cutting these rows would leave no transition to learn from")
        other = copy.copy(self)
        other._index = index
        return other

    def split(self, share: float = HELD_OUT, seed: int = 0) -> GoalDataset:
        """
        The same trajectories but for a random few, which are set aside as its ``held_out``.

        :param share: of the rows; 50,000 at most and one trajectory at least, but never more than half of them
        :param seed: chooses them
        :return: a copy; this dataset if it has a single trajectory, or has set some aside already
        """
        if not 0.0 <= share <= 0.5:
            raise ValueError(f"the share that is set aside must lie between 0 and one half, got {share!r}")
        if self.held_out is not None or self.n_trajectories < 2 or share == 0.0:
            return self
        chosen = self.random_trajectories(min(share * len(self), MAX_HELD_OUT), self.n_trajectories // 2, seed)
        train, train.held_out = self.only(~chosen), self.only(chosen).in_memory()
        return train

    def random_trajectories(self, rows: float, most: int, seed: int) -> np.ndarray:
        """
        Choose some trajectories, one at least.

        :param rows: that they have together, at most
        :param most: number of them, likewise
        :param seed: chooses
        :return: ``[n_trajectories]``, true for these
        """
        order = np.random.default_rng(seed).permutation(self.n_trajectories)
        total = np.cumsum(np.diff(self.trajectory_ends, prepend=-1)[order])
        chosen = np.zeros(self.n_trajectories, dtype=bool)
        chosen[order[: np.searchsorted(total, rows, side="right").clip(1, most)]] = True
        return chosen

    def only(self, trajectories: np.ndarray) -> GoalDataset:
        """
        Some of the trajectories, moved together; on disk they stay where they are.

        :param trajectories: ``[n_trajectories]``, true for those that are kept
        """
        lengths = np.diff(self.trajectory_ends, prepend=-1)
        other = copy.copy(self)
        if isinstance(self.observations, th.Tensor):
            rows = th.as_tensor(np.flatnonzero(np.repeat(trajectories, lengths)), device=self.device)
            other._set_arrays(lambda array: array[rows])
        else:
            other._set_arrays(lambda array: array.only(trajectories))  # type: ignore[union-attr]
        other.goal_scale = _scale(other.achieved_goals)
        other.trajectory_ends = np.cumsum(lengths[trajectories]) - 1
        other._index = self._index.only(trajectories, self.trajectory_ends + 1 - lengths, lengths)
        return other

    def in_memory(self, max_rows: int | None = None, seed: int = 0) -> GoalDataset:
        """
        The same trajectories as tensors: this dataset if it has them, else a copy.

        :param max_rows: read a random few of the trajectories, with so many rows together, if there are more on disk
        :param seed: chooses these
        """
        if isinstance(self.observations, th.Tensor):
            return self
        if max_rows is not None and len(self) > max_rows:
            return self.only(self.random_trajectories(max_rows, self.n_trajectories, seed)).in_memory()
        other = copy.copy(self)
        other._set_arrays(whole)
        return other

    def some_goals(self, max_rows: int = 1_000_000) -> th.Tensor:
        """
        ``[rows, goal_dim]``, the states as points in goal space, to look at.

        :param max_rows: of those on disk; in memory it is all of them
        """
        return whole(self.in_memory(max_rows).achieved_goals)

    def _set_arrays(self, change: Callable[[Rows], Rows]) -> None:
        same = self.achieved_goals is self.observations
        self.observations, self.actions = change(self.observations), change(self.actions)
        self.achieved_goals = self.observations if same else change(self.achieved_goals)

    def on_observations(self) -> GoalDataset:
        """The same trajectories with whole observations as goals; it shares its tensors with this one."""
        other = copy.copy(self)
        other.achieved_goals, other.goal_spec, other.coordinates = self.observations, GoalSpec(), None
        other.goal_scale = _scale(self.observations)
        other.held_out = self.held_out and self.held_out.on_observations()
        return other

    def on_coordinates(self, coordinates: Sequence[int]) -> GoalDataset:
        """
        The same trajectories with some coordinates of their goals alone.

        :param coordinates: numbers of these; a dataset that has been reduced to them is returned as it is
        """
        chosen = tuple(coordinates)
        if chosen == self.coordinates:
            return self
        other, goals = copy.copy(self), self.achieved_goals
        other.coordinates, other.goal_spec = chosen, self.goal_spec.on_coordinates(chosen, goals.shape[1])
        other.achieved_goals = goals[:, list(chosen)] if isinstance(goals, th.Tensor) else goals.features(chosen)
        other.goal_scale = self.goal_scale[list(chosen)]
        other.held_out = self.held_out and self.held_out.on_coordinates(chosen)
        return other

    @property
    def transition_rows(self) -> np.ndarray:
        """The rows that start a transition: one number for each."""
        return np.delete(np.arange(len(self)), self._index.ends)

    def nth_transitions(self, numbers: th.Tensor) -> th.Tensor:
        """The rows that start the transitions of these numbers, from 0 to ``n_transitions - 1``."""
        return self._index.transitions(numbers)

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def n_transitions(self) -> int:
        return self._index.n_transitions

    @property
    def longest_step(self) -> th.Tensor:
        """``[goal_dim]``, how far a transition moves in each coordinate of goal space at most."""
        goals = self.achieved_goals
        if isinstance(goals, th.Tensor):
            starts = self._index.transitions(th.arange(self.n_transitions, device=self.device))
            return (goals[starts + 1] - goals[starts]).abs().amax(dim=0)
        steps = goals.longest_steps()
        cuts = np.setdiff1d(self._index.ends, self.trajectory_ends)
        for number in np.unique(np.searchsorted(self.trajectory_ends, cuts)):
            rows, here, there = self._transitions_of(int(number))
            steps[number] = (there - here).abs().amax(dim=0).cpu().numpy() if len(rows) else 0.0
        return th.as_tensor(steps.max(axis=0), dtype=th.float32, device=self.device)

    def _transitions_of(self, number: int) -> tuple[np.ndarray, th.Tensor, th.Tensor]:
        """The rows of a trajectory that start a transition, and the goals before and after it."""
        first = int(self.trajectory_ends[number - 1]) + 1 if number else 0
        last, ends = int(self.trajectory_ends[number]), self._index.ends
        states = self.achieved_goals[first : last + 1]
        steps = np.delete(np.arange(last - first), ends[slice(*np.searchsorted(ends, [first, last]))] - first)
        return first + steps, states[steps], states[steps + 1]

    def farther_than(self, limit: np.ndarray) -> Iterator[tuple[np.ndarray, th.Tensor, th.Tensor]]:
        """
        Transitions of those trajectories that move farther than a limit somewhere; of all, if they are in memory.

        :param limit: ``[goal_dim]``, for each coordinate of goal space
        :return: parts of them: the rows that they start from, and the goals before and after
        """
        goals = self.achieved_goals
        if isinstance(goals, th.Tensor):
            rows = self.transition_rows
            yield rows, goals[rows], goals[rows + 1]
            return
        for number in np.flatnonzero((goals.longest_steps() > limit).any(axis=1)):
            yield self._transitions_of(int(number))

    @property
    def action_bounds(self) -> tuple[th.Tensor, th.Tensor]:
        """``[action_dim]`` each, the least and the greatest action, those at cuts too; the last row has none."""
        actions = self.actions
        if isinstance(actions, th.Tensor):
            actions = actions[np.delete(np.arange(len(self)), self.trajectory_ends)]
        low, high = actions.aminmax(dim=0)
        return low, high

    @property
    def n_trajectories(self) -> int:
        return len(self.trajectory_ends)

    def __repr__(self) -> str:
        place = "" if isinstance(self.observations, th.Tensor) else "on disk, "
        dims = f"observation {self.observations.shape[1]}, goal {self.achieved_goals.shape[1]}"
        return (
            f"GoalDataset({self.n_trajectories} trajectories, {self.n_transitions} transitions, {dims}, "
            f"action {self.actions.shape[1]}, {place}device={self.device})"
        )

    def to(self, device: th.device | str) -> GoalDataset:
        """The same trajectories on ``device``: this dataset if it is there, else a copy."""
        device = th.device(device)
        if device == self.device:
            return self
        other = copy.copy(self)
        other.device = device
        other._set_arrays(lambda array: array.to(device))
        other.goal_scale, other._index = self.goal_scale.to(device), self._index.to(device)
        return other

    # What goals are drawn with: row numbers in, row numbers out, all on the device.

    def random_transitions(self, size: int, generator: th.Generator | None = None) -> th.Tensor:
        """``[size]`` rows that start a transition."""
        return self._index.transitions(self._random_index(self.n_transitions, size, generator))

    def random_rows(self, size: int, generator: th.Generator | None = None) -> th.Tensor:
        """``[size]`` rows of any states."""
        return self._random_index(len(self), size, generator)

    @property
    def most_steps(self) -> int:
        """From a state to the last of its trajectory."""
        return self._index.most_steps

    def random_followed(self, lead: int, size: int, generator: th.Generator | None = None) -> th.Tensor:
        """``[size]`` rows of states that have one so many steps later on their trajectory; none if there are none."""
        followed = self._index.followed(lead)
        return followed.rows(self._random_index(max(followed.total, 1), size if followed.total else 0, generator))

    def ahead(self, rows: th.Tensor, steps: th.Tensor | int) -> th.Tensor:
        """The rows so many steps later, or the last of the trajectory if that comes first."""
        return th.minimum(rows + steps, self._index.end_of(rows))

    def between_next_and_end(self, rows: th.Tensor, shares: th.Tensor) -> th.Tensor:
        """The rows nearest to a share, from 0 to 1, of the way from the next row to the last of the trajectory."""
        first, last = self.ahead(rows, 1), self._index.end_of(rows)
        return first + (shares * (last - first)).round().long()

    def nearest_of_random(self, rows: th.Tensor, generator: th.Generator | None = None) -> th.Tensor:
        """For each row the closest, in standardised coordinates, of ``NEAR_CANDIDATES`` random states."""
        candidates = self.random_rows(NEAR_CANDIDATES, generator)
        states, pool = (self.achieved_goals[index] / self.goal_scale for index in (rows, candidates))
        return candidates[th.cdist(states, pool).argmin(dim=1)]

    def near_in_time(self, rows: th.Tensor, generator: th.Generator | None = None) -> th.Tensor:
        """For each row one up to ``TIME_WINDOW`` steps away on the same trajectory, before or after."""
        offsets = self._random_index(TIME_WINDOW, len(rows), generator) + 1
        before = (rows - offsets).clamp_min(0)
        same = (rows >= offsets) & (self._index.end_of(before) == self._index.end_of(rows))
        backwards = self._random_index(2, len(rows), generator).bool()
        return th.where(backwards & same, before, self.ahead(rows, offsets))

    def _random_index(self, high: int, size: int, generator: th.Generator | None) -> th.Tensor:
        return th.randint(high, (size,), generator=generator, device=self.device)

    @classmethod
    def from_npz(cls, path: str | Path, **kwargs: Any) -> GoalDataset:
        """
        Read an ``.npz`` with ``observations, actions, terminals`` and, optionally, ``achieved_goals``,
        ``next_observations`` or ``valids``.

        :param path: OGBench's own files are of this form
        :param kwargs: ``goal``, ``action_space`` and ``device``; a goal that follows from the observations replaces
            the file's
        :raises ValueError: if the file is damaged or of another kind
        """
        path = Path(path).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"there is no dataset file {path}")
        arrays = read_npz(path, NEEDED, OPTIONAL)
        try:
            return cls.from_ogbench(arrays, **kwargs)
        except ValueError as error:
            raise ValueError(f"{path} cannot be used: {error}") from error

    @classmethod
    def from_ogbench(cls, arrays: Mapping[str, Any], **kwargs: Any) -> GoalDataset:
        """
        Build from what ``ogbench.make_env_and_datasets`` returns, compact or not.

        :param arrays: ``oracle_reps`` are goals; arrays of names that this class does not know are left out
        :param kwargs: ``goal``, ``action_space`` and ``device``; a goal that follows from the observations replaces
            those among the arrays
        :raises ValueError: naming what is missing
        """
        return cls(**known_arrays(arrays, as_goal_spec(kwargs.get("goal"))), **kwargs)

    @classmethod
    def from_minari(cls, dataset: Any, **kwargs: Any) -> GoalDataset:
        """
        Read a Minari dataset, with flat observations or with ``observation`` and ``achieved_goal`` in a dict.

        :param dataset: a dataset id; or, if you trust its author, what ``minari.load_dataset`` returns
        :param kwargs: ``goal`` and ``device``; actions are checked against the dataset's own space
        """
        name = "the Minari dataset"
        if isinstance(dataset, str):
            name += f" {dataset}"
            episodes, action_space = read_minari(dataset)
        else:
            episodes = ((e.observations, e.actions) for e in dataset.iterate_episodes())
            action_space = dataset.action_space
        with within(f"{name} cannot be used", kind=ValueError):
            return cls.from_episodes(episodes, **{"action_space": action_space} | kwargs)

    @classmethod
    def from_episodes(cls, episodes: Iterable[tuple[Any, Any]], **kwargs: Any) -> GoalDataset:
        """
        Build from ``(observations, actions)`` pairs, with one more observation than actions in each.

        :param episodes: observations are arrays, or dicts with ``observation`` and ``achieved_goal``
        :param kwargs: ``goal``, ``action_space`` and ``device``; a goal that follows from the observations replaces
            the dicts'
        """
        arrays: dict[str, Any] = episode_arrays(episodes, as_goal_spec(kwargs.get("goal")))
        return cls(**arrays, **kwargs)

    @classmethod
    def from_files(
        cls,
        files: str | PathLike[str] | Iterable[str | PathLike[str]],
        *,
        goal: Goal = None,
        action_space: Any = None,
        device: th.device | str = "cpu",
        cache: str | PathLike[str] | None = None,
        progress: bool = False,
    ) -> GoalDataset:
        """
        Learn from files that are more than fit into memory: rows are read from disk when they are drawn.

        The files are read once from end to end, checked, and written as rows of float32 to a folder ``.proq-cache``
        beside them, with statistics of every trajectory; after an interruption that goes on where it stopped. Later
        calls find them there as long as the files stay as they are. A single folder of ``.npy`` files in float32 is
        not copied. Samples are those of the same trajectories in memory.

        :param files: files, folders of them or patterns such as ``"logs/*.parquet"``: ``.npz``, ``.parquet``, folders
            with ``observations.npy``, ``actions.npy`` and ``terminals.npy``, Minari datasets (the folder with ``data``
            in it); each holds whole trajectories in the arrays or columns that :meth:`from_npz` reads. A folder's are
            taken in the order of their names
        :param goal: as of the class; a goal that follows from the observations replaces the files'
        :param action_space: a ``Box`` that the actions are checked against, if given
        :param device: where batches go
        :param cache: folder to write to instead, if that beside the files is read-only or too small
        :param progress: show how far the reading is
        :raises ValueError: naming the file that is damaged or of another kind than the others
        """
        spec = as_goal_spec(goal)
        found = open_rows(find_shards(files), spec, action_space, None if cache is None else Path(cache), progress)
        self = cls.__new__(cls)
        self.goal_spec, self.device, self.trajectory_ends = spec, th.device(device), found.ends
        self.observations, self.actions, self.achieved_goals = found.observations, found.actions, found.goals
        self._set_arrays(lambda array: array.to(self.device))
        self.goal_scale = _scale(self.achieved_goals)
        self._index = TrajectoryIndex(found.ends, self.device)
        self.fingerprint = found.fingerprint
        return self


def _scale(goals: Rows) -> th.Tensor:
    """``[features]``, by how much goals differ from each other."""
    std, _ = std_mean(goals)
    return std.clamp_min(1e-6).float()
