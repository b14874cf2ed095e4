"""OGBench's own dicts, compact or not, are the trajectories of its file: no state and no transition is lost."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
import torch as th
from hypothesis import given
from hypothesis import strategies as st
from numbered import numbered
from ogbench.utils import load_dataset

from proq_agent import GoalDataset


def ogbench_file(lengths: list[int]) -> io.BytesIO:
    """A file as OGBench has it, with the states of trajectories of so many rows."""
    dataset = numbered(lengths)
    ends = np.isin(np.arange(len(dataset)), dataset.trajectory_ends)
    file = io.BytesIO()
    np.savez(file, observations=dataset.observations, actions=dataset.actions, terminals=ends)
    file.seek(0)
    return file


def transitions(dataset: GoalDataset) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
    rows = dataset.transition_rows
    return dataset.observations[rows], dataset.actions[rows], dataset.observations[rows + 1]


@given(lengths=st.lists(st.integers(2, 6), min_size=1, max_size=5), compact=st.booleans())
def test_what_ogbench_returns_has_every_state_and_transition(lengths: list[int], compact: bool) -> None:
    arrays = load_dataset(ogbench_file(lengths), compact_dataset=compact)
    expected = numbered(lengths)
    for dataset in (GoalDataset.from_ogbench(arrays), GoalDataset(**arrays)):
        assert th.equal(dataset.observations, expected.observations)
        assert dataset.trajectory_ends.tolist() == expected.trajectory_ends.tolist()
        assert all(map(th.equal, transitions(dataset), transitions(expected)))
        assert dataset.n_transitions == sum(lengths) - len(lengths)


@pytest.mark.parametrize("compact", [False, True])
def test_files_in_these_forms_are_read_alike(tmp_path, compact: bool) -> None:
    np.savez(tmp_path / "data.npz", **load_dataset(ogbench_file([3, 5]), compact_dataset=compact))
    assert GoalDataset.from_npz(tmp_path / "data.npz").n_transitions == 6


def test_other_arrays_are_left_out_and_oracle_representations_are_goals() -> None:
    arrays = load_dataset(ogbench_file([3, 5]), compact_dataset=True)
    arrays |= {"qpos": np.zeros((8, 9)), "rewards": np.zeros(8), "oracle_reps": arrays["observations"][:, :1]}
    assert GoalDataset.from_ogbench(arrays).achieved_goals.shape == (8, 1)
    assert GoalDataset.from_ogbench(arrays, goal=[1, 0]).achieved_goals.shape == (8, 2)


def good() -> dict[str, np.ndarray]:
    return load_dataset(ogbench_file([3, 5]))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("next_observations", np.zeros((6, 2)), "next_observations row 0 is not"),
        ("next_observations", np.zeros((5, 2)), "next_observations has shape (5, 2)"),
        ("terminals", np.zeros(6), "terminals row 5, the last"),
        ("terminals", np.array([0, 1, 0, 0, 0, 2]), "0 and 1 alone"),
        ("terminals", np.zeros((6, 1)), "terminals has shape (6, 1)"),
        ("actions", np.zeros((5, 1)), "actions has shape (5, 1)"),
        ("achieved_goals", np.zeros((6, 1)), "lacks the last state"),
        ("valids", np.array([1, 0, 1, 1, 1, 1]), "row 5, the last"),
        ("valids", np.array([0, 1, 1, 1, 1, 0]), "valids row 0 is not valid, but no trajectory ends there"),
        ("valids", np.zeros(5), "valids has shape (5,)"),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(name: str, value: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        GoalDataset.from_ogbench(good() | {name: value})


def test_missing_arrays_are_named() -> None:
    with pytest.raises(ValueError, match="no actions, terminals among the arrays, only observations"):
        GoalDataset.from_ogbench({"observations": np.zeros((3, 2))})
