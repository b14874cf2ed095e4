"""Logged trajectories as tensors on the training device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces

from proq_agent.common.errors import within
from proq_agent.common.goals import GoalSpec, as_goal_spec
from proq_agent.common.minari_files import read_minari
from proq_agent.common.npz import read_npz
from proq_agent.common.transitions import as_flags, ends_of_valid, with_last_states

TIME_WINDOW = 40  # steps that goals near in time are away at most
HELD_OUT, MAX_HELD_OUT = 0.05, 50_000  # share of the rows that is set aside, and how many at most
NEAR_CANDIDATES = 256  # random states that the nearest is taken from; more means nearer
_OPTIONAL = ("achieved_goals", "next_observations", "valids")  # arrays that a file may have


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

    def __init__(
        self,
        observations: Any,
        actions: Any,
        terminals: Any,
        achieved_goals: Any = None,
        *,
        goal: GoalSpec | Sequence[int] | Callable[[np.ndarray], np.ndarray] | None = None,
        next_observations: Any = None,
        valids: Any = None,
        action_space: Any = None,
        device: th.device | str = "cpu",
    ) -> None:
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
        self.goal_spec = as_goal_spec(goal)
        if achieved_goals is None:
            achieved_goals = self.goal_spec.of(observations)
        elif self.goal_spec.selects:
            raise ValueError("give achieved_goals, or a goal that follows from the observations, not both")
        goals = observations if achieved_goals is observations else _as_matrix("achieved_goals", achieved_goals)
        self.goal_spec.check_dimension(goals.shape[1])
        ends = _trajectory_ends(terminals, len(observations))
        for name, array in (("actions", actions), ("achieved_goals", goals)):
            if len(array) != len(observations):
                raise ValueError(
                    f"{name} has {len(array)} rows but observations has {len(observations)}; give one row a state "
                    "(the last row of a trajectory needs an action too: any finite value)"
                )
        if action_space is not None:
            _check_actions(actions, ends, action_space)

        self.device = th.device(device)
        self.trajectory_ends = ends
        self.observations = th.as_tensor(observations, device=self.device)
        self.actions = th.as_tensor(actions, device=self.device)
        self.achieved_goals = self.observations if goals is observations else th.as_tensor(goals, device=self.device)
        self.goal_scale = th.as_tensor(goals.std(axis=0, dtype=np.float64).clip(1e-6), dtype=th.float32).to(self.device)
        self._index_transitions(np.isin(np.arange(len(observations)), ends))

    def _index_transitions(self, is_end: np.ndarray) -> None:
        """Find the rows that start a transition, and the end of each row's trajectory."""
        self._is_end = is_end
        ends = np.flatnonzero(is_end)
        end_of_row = ends[np.searchsorted(ends, np.arange(len(is_end)))]
        self._end_of_row = th.as_tensor(end_of_row, device=self.device)
        self._transition_rows = th.as_tensor(np.flatnonzero(~is_end), device=self.device)

    def cut(self, rows: np.ndarray) -> GoalDataset:
        """
        The same trajectories, ended at the given transitions: these are not sampled, and no goal is drawn across them.

        :param rows: row numbers of the states that the transitions start from; earlier cuts stay
        :return: a dataset that shares its tensors with this one
        """
        rows = np.asarray(rows, dtype=np.int64)
        if rows.size and (rows.min() < 0 or rows.max() >= len(self)):
            raise ValueError(f"cut rows must lie in 0..{len(self) - 1}, got {rows.min()}..{rows.max()}")
        mask = self._is_end.copy()
        mask[rows] = True
        if mask.all():
            raise ValueError("cutting these rows would leave no transition to learn from")
        other = copy.copy(self)
        other._index_transitions(mask)
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
        starts = np.r_[0, self.trajectory_ends[:-1] + 1]
        order = np.random.default_rng(seed).permutation(self.n_trajectories)
        rows = np.cumsum((self.trajectory_ends + 1 - starts)[order])
        n = np.searchsorted(rows, min(share * len(self), MAX_HELD_OUT), side="right").clip(1, self.n_trajectories // 2)
        chosen = np.zeros(self.n_trajectories, dtype=bool)
        chosen[order[:n]] = True
        train, train.held_out = self._only(~chosen), self._only(chosen)
        return train

    def _only(self, trajectories: np.ndarray) -> GoalDataset:
        """A copy of some of the trajectories."""
        lengths = np.diff(self.trajectory_ends, prepend=-1)
        kept = np.repeat(trajectories, lengths)
        rows = th.as_tensor(np.flatnonzero(kept), device=self.device)
        other = copy.copy(self)
        other.observations, other.actions = self.observations[rows], self.actions[rows]
        same = self.achieved_goals is self.observations
        other.achieved_goals = other.observations if same else self.achieved_goals[rows]
        other.goal_scale = other.achieved_goals.double().std(dim=0, correction=0).clamp_min(1e-6).float()
        other.trajectory_ends = np.cumsum(lengths[trajectories]) - 1
        other._index_transitions(self._is_end[kept])
        return other

    def on_observations(self) -> GoalDataset:
        """The same trajectories with whole observations as goals; it shares its tensors with this one."""
        other = copy.copy(self)
        other.achieved_goals, other.goal_spec = self.observations, GoalSpec()
        other.goal_scale = self.observations.double().std(dim=0, correction=0).clamp_min(1e-6).float()
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
        other = copy.copy(self)
        other.coordinates, other.goal_spec = chosen, GoalSpec()
        other.achieved_goals = self.achieved_goals[:, list(chosen)]
        other.goal_scale = self.goal_scale[list(chosen)]
        other.held_out = self.held_out and self.held_out.on_coordinates(chosen)
        return other

    @property
    def transition_rows(self) -> np.ndarray:
        """The rows that start a transition."""
        return np.flatnonzero(~self._is_end)

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def n_transitions(self) -> int:
        return len(self._transition_rows)

    @property
    def longest_step(self) -> th.Tensor:
        """``[goal_dim]``, how far a transition moves in each coordinate of goal space at most."""
        rows = self._transition_rows
        return (self.achieved_goals[rows + 1] - self.achieved_goals[rows]).abs().amax(dim=0)

    @property
    def n_trajectories(self) -> int:
        return len(self.trajectory_ends)

    def __repr__(self) -> str:
        dims = f"observation {self.observations.shape[1]}, goal {self.achieved_goals.shape[1]}"
        return (
            f"GoalDataset({self.n_trajectories} trajectories, {self.n_transitions} transitions, {dims}, "
            f"action {self.actions.shape[1]}, device={self.device})"
        )

    def to(self, device: th.device | str) -> GoalDataset:
        """The same trajectories on ``device``: this dataset if it is there, else a copy."""
        device = th.device(device)
        if device == self.device:
            return self
        other = copy.copy(self)
        other.device = device
        for name in ("observations", "actions", "achieved_goals", "goal_scale", "_end_of_row", "_transition_rows"):
            setattr(other, name, getattr(self, name).to(device))
        if self.achieved_goals is self.observations:
            other.achieved_goals = other.observations
        return other

    # What goals are drawn with: row numbers in, row numbers out, all on the device.

    def random_transitions(self, size: int, generator: th.Generator | None = None) -> th.Tensor:
        """``[size]`` rows that start a transition."""
        return self._transition_rows[self._random_index(self.n_transitions, size, generator)]

    def random_rows(self, size: int, generator: th.Generator | None = None) -> th.Tensor:
        """``[size]`` rows of any states."""
        return self._random_index(len(self), size, generator)

    def ahead(self, rows: th.Tensor, steps: th.Tensor | int) -> th.Tensor:
        """The rows so many steps later, or the last of the trajectory if that comes first."""
        return th.minimum(rows + steps, self._end_of_row[rows])

    def between_next_and_end(self, rows: th.Tensor, shares: th.Tensor) -> th.Tensor:
        """The rows nearest to a share, from 0 to 1, of the way from the next row to the last of the trajectory."""
        first, last = self.ahead(rows, 1), self._end_of_row[rows]
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
        same = (rows >= offsets) & (self._end_of_row[before] == self._end_of_row[rows])
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
        arrays = read_npz(path, ("observations", "actions", "terminals"), _OPTIONAL)
        return cls.from_ogbench(arrays, **kwargs)

    @classmethod
    def from_ogbench(cls, arrays: Mapping[str, Any], **kwargs: Any) -> GoalDataset:
        """
        Build from what ``ogbench.make_env_and_datasets`` returns, compact or not.

        :param arrays: ``oracle_reps`` are goals; arrays of names that this class does not know are left out
        :param kwargs: ``goal``, ``action_space`` and ``device``; a goal that follows from the observations replaces
            those among the arrays
        :raises ValueError: naming what is missing
        """
        missing = [name for name in ("observations", "actions", "terminals") if name not in arrays]
        if missing:
            raise ValueError(f"there is no {', '.join(missing)} among the arrays, only {', '.join(arrays)}")
        known = {name: arrays[name] for name in _OPTIONAL if name in arrays}
        if "oracle_reps" in arrays:
            known["achieved_goals"] = arrays["oracle_reps"]
        if as_goal_spec(kwargs.get("goal")).selects:
            known.pop("achieved_goals", None)
        return cls(arrays["observations"], arrays["actions"], arrays["terminals"], **known, **kwargs)

    @classmethod
    def from_minari(cls, dataset: Any, **kwargs: Any) -> GoalDataset:
        """
        Read a Minari dataset, with flat observations or with ``observation`` and ``achieved_goal`` in a dict.

        :param dataset: a dataset id; or, if you trust its author, what ``minari.load_dataset`` returns
        :param kwargs: ``goal`` and ``device``; actions are checked against the dataset's own space
        """
        if isinstance(dataset, str):
            episodes, action_space = read_minari(dataset)
        else:
            episodes = ((e.observations, e.actions) for e in dataset.iterate_episodes())
            action_space = dataset.action_space
        with within("the Minari dataset cannot be used", kind=ValueError):
            return cls.from_episodes(episodes, **{"action_space": action_space} | kwargs)

    @classmethod
    def from_episodes(cls, episodes: Iterable[tuple[Any, Any]], **kwargs: Any) -> GoalDataset:
        """
        Build from ``(observations, actions)`` pairs, with one more observation than actions in each.

        :param episodes: observations are arrays, or dicts with ``observation`` and ``achieved_goal``
        :param kwargs: ``goal``, ``action_space`` and ``device``; a goal that follows from the observations replaces
            the dicts'
        """
        observations, actions, terminals, goals = [], [], [], []
        for number, (states, acts) in enumerate(episodes):
            as_dict = isinstance(states, dict)
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
        rows = [np.concatenate(parts) for parts in (observations, actions, terminals, goals)]
        achieved_goals = None if as_goal_spec(kwargs.get("goal")).selects else rows[3]
        return cls(rows[0], rows[1], rows[2], achieved_goals, **kwargs)


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


def _check_actions(actions: np.ndarray, ends: np.ndarray, space: Any) -> None:
    if not isinstance(space, spaces.Box):
        raise ValueError(f"actions must be points of a Box, and not of {space}")
    if actions.shape[1:] != tuple(space.shape):
        raise ValueError(f"actions has {actions.shape[1]} features but the action space is {space}")
    # Clipped in another precision, they may lie a little beyond.
    below, above = (1e-5 * np.maximum(1.0, np.abs(bound)) for bound in (space.low, space.high))
    outside = np.any((actions < space.low - below) | (actions > space.high + above), axis=1)
    outside[ends] = False
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"actions row {row} = {actions[row]} lies outside {space} ({outside.sum()} such rows); "
            "clip the actions or give the space they were taken in"
        )
