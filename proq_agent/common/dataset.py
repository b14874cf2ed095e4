"""Logged trajectories as tensors on the training device, and the goals drawn from them."""

from __future__ import annotations

import copy
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch as th

TIME_WINDOW = 40  # steps


class GoalBatch(NamedTuple):
    """One training batch: transitions and the goals drawn for them, all on the dataset's device."""

    observations: th.Tensor
    actions: th.Tensor
    achieved_goals: th.Tensor
    next_achieved_goals: th.Tensor
    value_goals: th.Tensor
    actor_goals: th.Tensor


@dataclass(frozen=True)
class GoalSampling:
    """
    How goals are drawn for a batch of transitions.

    Value goals are uniform over the dataset, but for ``value_near_share`` and ``value_time_share`` of them. Actor goals
    are future states of the same trajectory at geometric offsets (HER), but for ``actor_near_share`` of them. A *near*
    goal is the closest (in standardised coordinates) of ``near_candidates`` states drawn from anywhere in the data:
    uniform goals are hardly ever close to the state, so that without near ones nothing holds the short distances in
    place. A goal near in *time* is up to ``TIME_WINDOW`` steps away on the same trajectory, before or after: it does
    the same across transitions that jump far in coordinates.

    :param discount: success probability of the geometric offset is ``1 - discount``
    :param value_near_share: share of the value goals drawn near the state
    :param actor_near_share: share of the actor goals drawn near the state
    :param near_candidates: how many random states the closest is taken from; more means nearer
    :param value_time_share: share of the value goals drawn from the same trajectory
    """

    discount: float = 0.99
    value_near_share: float = 0.0
    actor_near_share: float = 0.0
    near_candidates: int = 256
    value_time_share: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.discount < 1.0:
            raise ValueError(f"discount must lie strictly between 0 and 1, got {self.discount}")
        for name in ("value_near_share", "actor_near_share", "value_time_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)}")
        if self.near_candidates < 1:
            raise ValueError(f"near_candidates must be at least 1, got {self.near_candidates}")


class GoalDataset:
    """
    Trajectories of observations, achieved goals and actions, one after the other.

    Row ``i`` holds a state and the action taken there; row ``i + 1`` is the next state unless ``terminals[i]`` marks
    the end of a trajectory (the last row of a trajectory has no next state, its action is never used).

    :param observations: ``[rows, observation_dim]``, what the actor sees
    :param actions: ``[rows, action_dim]``
    :param terminals: ``[rows]``, true on the last row of each trajectory
    :param achieved_goals: ``[rows, goal_dim]``, each state as a point in goal space; the observations if omitted
    :param action_space: a ``Box`` that the actions are checked against, if given
    :param device: where the tensors live
    :raises ValueError: naming the array, the row and the remedy, if the arrays do not describe trajectories
    """

    def __init__(
        self,
        observations: Any,
        actions: Any,
        terminals: Any,
        achieved_goals: Any = None,
        *,
        action_space: Any = None,
        device: th.device | str = "cpu",
    ) -> None:
        observations = _as_matrix("observations", observations)
        actions = _as_matrix("actions", actions)
        goals = observations if achieved_goals is None else _as_matrix("achieved_goals", achieved_goals)
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
        mask = np.ones(len(self), dtype=bool)
        mask[self.transition_rows] = False
        mask[rows] = True
        if mask.all():
            raise ValueError("cutting these rows would leave no transition to learn from")
        other = copy.copy(self)
        other._index_transitions(mask)
        return other

    @property
    def transition_rows(self) -> np.ndarray:
        """The rows that start a transition."""
        return self._transition_rows.cpu().numpy()

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
        """Move every tensor to ``device``, in place."""
        self.device = th.device(device)
        shared = self.achieved_goals is self.observations
        for name in (
            "observations",
            "actions",
            "achieved_goals",
            "goal_scale",
            "_end_of_row",
            "_transition_rows",
        ):
            setattr(self, name, getattr(self, name).to(self.device))
        if shared:
            self.achieved_goals = self.observations
        return self

    def sample(
        self, batch_size: int, generator: th.Generator | None = None, sampling: GoalSampling | None = None
    ) -> GoalBatch:
        """
        Draw transitions uniformly and goals for them, without leaving the device.

        :param batch_size: number of transitions
        :param generator: source of randomness, on the dataset's device
        :param sampling: how goals are drawn; the paper's way by default
        """
        sampling = sampling or GoalSampling()
        rows = self._transition_rows[self._random_index(self.n_transitions, batch_size, generator)]
        uniform = th.rand(batch_size, generator=generator, device=self.device).clamp_min(1e-30)
        offsets = (uniform.log() / np.log(sampling.discount)).long() + 1
        future = th.minimum(rows + offsets, self._end_of_row[rows])
        achieved = self.achieved_goals[rows]
        value_goals = self.random_goals(batch_size, generator)
        actor_goals = self.achieved_goals[future]
        for goals, share in (
            (value_goals, sampling.value_near_share),
            (actor_goals, sampling.actor_near_share),
        ):
            near = round(share * batch_size)
            if near:  # transitions are in random order, so that the first ones are as good as any
                goals[:near] = self._nearest_of_random(achieved[:near], sampling.near_candidates, generator)
        first, in_time = (round(share * batch_size) for share in (sampling.value_near_share, sampling.value_time_share))
        if in_time:
            part = slice(first, first + in_time)
            value_goals[part] = self.achieved_goals[self._near_in_time(rows[part], generator)]
        return GoalBatch(
            self.observations[rows],
            self.actions[rows],
            achieved,
            self.achieved_goals[rows + 1],
            value_goals,
            actor_goals,
        )

    def random_goals(self, size: int, generator: th.Generator | None = None) -> th.Tensor:
        """``[size, goal_dim]``, states of the data as points in goal space."""
        return self.achieved_goals[self._random_index(len(self), size, generator)]

    def _random_index(self, high: int, size: int, generator: th.Generator | None) -> th.Tensor:
        return th.randint(high, (size,), generator=generator, device=self.device)

    def _nearest_of_random(self, states: th.Tensor, candidates: int, generator: th.Generator | None) -> th.Tensor:
        pool = self.random_goals(candidates, generator)
        return pool[th.cdist(states / self.goal_scale, pool / self.goal_scale).argmin(dim=1)]

    def _near_in_time(self, rows: th.Tensor, generator: th.Generator | None) -> th.Tensor:
        offsets = self._random_index(TIME_WINDOW, len(rows), generator) + 1
        after = th.minimum(rows + offsets, self._end_of_row[rows])
        before = (rows - offsets).clamp_min(0)
        same = (rows >= offsets) & (self._end_of_row[before] == self._end_of_row[rows])
        backwards = self._random_index(2, len(rows), generator).bool()
        return th.where(backwards & same, before, after)

    @classmethod
    def from_npz(cls, path: str | Path, **kwargs: Any) -> GoalDataset:
        """
        Read an ``.npz`` with ``observations, actions, terminals`` and, optionally, ``achieved_goals``.

        :param path: OGBench's own files are of this form
        :param kwargs: ``action_space`` and ``device``
        :raises ValueError: if the file is damaged or of another kind
        """
        path = Path(path).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"there is no dataset file {path}")
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
        except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is not a whole .npz file ({error}); delete it and fetch it again") from error
        missing = [key for key in ("observations", "actions", "terminals") if key not in arrays]
        if missing:
            raise ValueError(
                f"{path} has no array {', '.join(missing)}; it holds {', '.join(sorted(arrays)) or 'none'}"
            )
        return cls(
            arrays["observations"],
            arrays["actions"],
            arrays["terminals"],
            arrays.get("achieved_goals"),
            **kwargs,
        )

    @classmethod
    def from_minari(cls, dataset: Any, **kwargs: Any) -> GoalDataset:
        """
        Read a Minari dataset, with flat observations or with ``observation`` and ``achieved_goal`` in a dict.

        :param dataset: a dataset id, or what ``minari.load_dataset`` returns
        :param kwargs: ``device``; actions are checked against the dataset's own space
        """
        if isinstance(dataset, str):
            dataset = load_minari(dataset)
        kwargs.setdefault("action_space", dataset.action_space)
        return cls.from_episodes(((e.observations, e.actions) for e in dataset.iterate_episodes()), **kwargs)

    @classmethod
    def from_episodes(cls, episodes: Iterable[tuple[Any, Any]], **kwargs: Any) -> GoalDataset:
        """
        Build from ``(observations, actions)`` pairs, with one more observation than actions in each.

        :param episodes: observations are arrays, or dicts with ``observation`` and ``achieved_goal``
        :param kwargs: ``action_space`` and ``device``
        """
        observations, actions, terminals, goals = [], [], [], []
        for number, (states, acts) in enumerate(episodes):
            as_dict = isinstance(states, dict)
            if as_dict and not {"observation", "achieved_goal"} <= set(states):
                raise ValueError(f"episode {number}: need the keys observation and achieved_goal, got {sorted(states)}")
            seen = np.asarray(states["observation"] if as_dict else states)
            acts = np.asarray(acts)
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
        return cls(rows[0], rows[1], rows[2], rows[3], **kwargs)


def _as_matrix(name: str, array: Any) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} has dtype {array.dtype}; give real numbers (float32)")
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{name} has shape {array.shape}; expected [rows, features]: flatten or add an axis")
    bad = ~np.isfinite(array).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{name} row {bad.argmax()} is not finite ({bad.sum()} such rows); drop or repair these trajectories"
        )
    return np.ascontiguousarray(array, dtype=np.float32)


def _trajectory_ends(terminals: Any, rows: int) -> np.ndarray:
    terminals = np.asarray(terminals)
    if terminals.shape != (rows,):
        raise ValueError(f"terminals has shape {terminals.shape}; expected ({rows},), one flag for each observation")
    if terminals.dtype.kind not in "biuf" or not np.isin(terminals, (0, 1)).all():
        raise ValueError(f"terminals (dtype {terminals.dtype}) must hold booleans or 0 and 1 alone")
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
    if actions.shape[1:] != tuple(space.shape):
        raise ValueError(f"actions has {actions.shape[1]} features but the action space is {space}")
    tolerance = 1e-5 * np.maximum(1.0, np.abs(space.high))
    outside = ((actions < space.low - tolerance) | (actions > space.high + tolerance)).any(axis=1)
    outside[ends] = False
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"actions row {row} = {actions[row]} lies outside {space} ({outside.sum()} such rows); "
            "clip the actions or give the space they were taken in"
        )


def load_minari(dataset_id: str) -> Any:
    """
    Open a Minari dataset of this machine.

    :raises ImportError: without the package
    :raises ValueError: if the dataset is not there
    """
    try:
        import minari
    except ImportError as error:
        raise ImportError("Minari datasets need the package: pip install minari h5py") from error
    try:
        return minari.load_dataset(dataset_id)
    except FileNotFoundError as error:
        raise ValueError(f"there is no Minari dataset {dataset_id} here: minari download {dataset_id}") from error
