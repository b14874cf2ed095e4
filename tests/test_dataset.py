"""Behaviour of the dataset: what it accepts and what it refuses."""

from __future__ import annotations

import re
from contextlib import nullcontext

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from numbered import numbered

from proq_agent.common.dataset import GoalDataset
from proq_agent.common.goal_sampling import GoalSampling


def test_cut_transitions_are_neither_drawn_nor_crossed():
    whole = numbered([10])
    dataset = whole.cut(np.array([4]))
    batch = GoalSampling().sample(dataset, 2000, th.Generator().manual_seed(0))
    start, goal = batch.achieved_goals[:, 1], batch.actor_goals[:, 1]
    assert not (start == 4).any()
    assert ((start < 4) == (goal <= 4)).all()
    assert dataset.n_transitions == 8 and whole.n_transitions == 9
    assert dataset.cut(np.array([], dtype=int)).n_transitions == dataset.n_transitions  # earlier cuts stay


@pytest.mark.parametrize("rows", [[-1], [10]])
def test_cut_refuses_rows_that_do_not_exist(rows):
    with pytest.raises(ValueError, match=r"0\.\.9"):
        numbered([10]).cut(np.array(rows))


def test_cut_refuses_to_leave_nothing():
    with pytest.raises(ValueError, match="no transition"):
        numbered([3]).cut(np.array([0, 1]))


@given(
    lengths=st.lists(st.integers(2, 6), min_size=2, max_size=12),
    share=st.floats(0.01, 0.5),
    seed=st.integers(0, 9),
    cut=st.booleans(),
)
def test_a_split_keeps_every_trajectory_whole_and_on_one_side(lengths, share, seed, cut):
    whole = numbered(lengths).cut(np.array([0]) if cut else np.array([], dtype=int))
    train = whole.split(share, seed)
    held_out = train.held_out
    assert held_out is not None and whole.held_out is None
    assert 1 <= held_out.n_trajectories <= len(lengths) // 2
    assert len(held_out) <= share * len(whole) or held_out.n_trajectories == 1
    assert train.n_transitions + held_out.n_transitions == whole.n_transitions
    rows = th.cat([train.achieved_goals, held_out.achieved_goals])
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, whole.achieved_goals.tolist()))
    assert sorted(
        np.diff(train.trajectory_ends, prepend=-1).tolist() + np.diff(held_out.trajectory_ends, prepend=-1).tolist()
    ) == sorted(lengths)
    assert train.split(share, seed) is train and th.equal(train.observations, whole.split(share, seed).observations)


def test_a_split_leaves_a_single_trajectory_alone_and_refuses_more_than_half():
    assert numbered([5]).split().held_out is None and numbered([5, 5]).split(0.0).held_out is None
    with pytest.raises(ValueError, match="one half"):
        numbered([5, 5]).split(0.6)


def good() -> dict[str, np.ndarray]:
    return {
        "observations": np.zeros((6, 3), np.float32),
        "actions": np.zeros((6, 2), np.float32),
        "terminals": np.array([0, 0, 1, 0, 0, 1], bool),
        "achieved_goals": np.zeros((6, 2), np.float32),
    }


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("observations", np.full((6, 3), np.nan), "observations row 0 is not finite"),
        ("actions", np.where(np.arange(6)[:, None] == 3, np.inf, np.zeros((6, 2))), "actions row 3 is not finite"),
        ("actions", np.zeros((5, 2)), "actions has 5 rows but observations has 6"),
        ("achieved_goals", np.zeros((7, 2)), "achieved_goals has 7 rows"),
        ("observations", np.zeros(6), r"observations has shape (6,)"),
        ("observations", np.array([["a"] * 3] * 6), "observations has dtype"),
        ("actions", np.zeros((6, 2), complex), "actions has dtype complex128"),
        ("terminals", np.array([0, 0, 1, 0, 0, 0], bool), "terminals row 5, the last, is not set"),
        ("terminals", np.array([0, 0, 1, 1, 0, 1], bool), "ends at row 3 has a single row"),
        ("terminals", np.zeros(4, bool), "terminals has shape (4,)"),
        ("terminals", np.array([0, 0, 2, 0, 0, 1]), "booleans or 0 and 1"),
    ],
)
def test_bad_arrays_are_refused_by_name_and_row(name, value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        GoalDataset(**(good() | {name: value}))


def test_an_empty_dataset_is_refused():
    with pytest.raises(ValueError, match="empty"):
        GoalDataset(np.zeros((0, 2)), np.zeros((0, 1)), np.zeros(0, bool))


def test_actions_outside_the_space_are_refused_except_on_last_rows():
    arrays = good()
    arrays["actions"][2] = 5.0
    space = spaces.Box(-1.0, 1.0, (2,))
    GoalDataset(**arrays, action_space=space)
    arrays["actions"][4] = -1.5
    with pytest.raises(ValueError, match="actions row 4"):
        GoalDataset(**arrays, action_space=space)
    with pytest.raises(ValueError, match="2 features"):
        GoalDataset(**arrays, action_space=spaces.Box(-1.0, 1.0, (3,)))


@pytest.mark.parametrize("bound", [1.0, 100.0])
def test_actions_may_lie_beyond_the_space_by_what_another_precision_makes_of_them(bound):
    arrays = good()
    for low, high in ((-bound, bound), (-bound, np.inf), (-np.inf, bound)):
        space = spaces.Box(low, high, (2,))
        for side in (-1.0, 1.0):
            beyond = not (low < side * bound < high)
            for excess, refused in ((5e-6, False), (2e-5, beyond)):
                arrays["actions"][1] = side * bound * (1.0 + excess)
                with pytest.raises(ValueError, match="actions row 1") if refused else nullcontext():
                    GoalDataset(**arrays, action_space=space)


def test_npz_round_trip(tmp_path):
    np.savez(tmp_path / "data.npz", **good())
    dataset = GoalDataset.from_npz(tmp_path / "data.npz")
    assert dataset.observations.shape == (6, 3) and dataset.achieved_goals.shape == (6, 2)
    assert "2 trajectories, 4 transitions" in repr(dataset)


def test_damaged_or_foreign_npz_files_are_named(tmp_path):
    np.savez(tmp_path / "whole.npz", **good())
    (tmp_path / "half.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:200])
    np.savez(tmp_path / "foreign.npz", images=np.zeros(3))
    np.savez(tmp_path / "pickled.npz", observations=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"half\.npz is not a whole"):
        GoalDataset.from_npz(tmp_path / "half.npz")
    with pytest.raises(ValueError, match="no array observations, actions, terminals; it holds images"):
        GoalDataset.from_npz(tmp_path / "foreign.npz")
    with pytest.raises(ValueError, match="pickled"):
        GoalDataset.from_npz(tmp_path / "pickled.npz")
    with pytest.raises(FileNotFoundError, match=r"missing\.npz"):
        GoalDataset.from_npz(tmp_path / "missing.npz")


def test_episodes_with_dict_and_flat_observations():
    flat = GoalDataset.from_episodes([(np.zeros((4, 2)), np.zeros((3, 1))), (np.ones((2, 2)), np.ones((1, 1)))])
    assert flat.n_trajectories == 2 and flat.n_transitions == 4
    states = {"observation": np.zeros((4, 5)), "achieved_goal": np.zeros((4, 2)), "desired_goal": np.zeros((4, 2))}
    nested = GoalDataset.from_episodes([(states, np.zeros((3, 1)))])
    assert nested.observations.shape == (4, 5) and nested.achieved_goals.shape == (4, 2)
    with pytest.raises(ValueError, match="one observation more"):
        GoalDataset.from_episodes([(np.zeros((3, 2)), np.zeros((3, 1)))])
    with pytest.raises(ValueError, match="achieved_goal"):
        GoalDataset.from_episodes([({"observation": np.zeros((3, 2))}, np.zeros((2, 1)))])
    with pytest.raises(ValueError, match="no episode"):
        GoalDataset.from_episodes([])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_minari_dataset_is_read_back(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    rng = np.random.default_rng(0)

    def states(n: int) -> dict[str, np.ndarray]:
        return {
            "observation": rng.normal(size=(n, 4)),
            "achieved_goal": rng.normal(size=(n, 2)),
            "desired_goal": rng.normal(size=(n, 2)),
        }

    lengths = [3, 5]
    buffers = [
        EpisodeBuffer(
            observations={k: list(v) for k, v in states(n + 1).items()},
            actions=[rng.uniform(-1, 1, 2).astype(np.float32) for _ in range(n)],
            rewards=[0.0] * n,
            terminations=[False] * n,
            truncations=[False] * (n - 1) + [True],
        )
        for n in lengths
    ]
    box = {
        k: spaces.Box(-np.inf, np.inf, (d,)) for k, d in (("observation", 4), ("achieved_goal", 2), ("desired_goal", 2))
    }
    written = minari.create_dataset_from_buffers(
        "proq/tiny-v0", buffers, observation_space=spaces.Dict(box), action_space=spaces.Box(-1, 1, (2,))
    )
    for source in ("proq/tiny-v0", written):
        dataset = GoalDataset.from_minari(source)
        assert dataset.n_trajectories == 2 and dataset.n_transitions == sum(lengths)
        assert dataset.observations.shape[1] == 4 and dataset.achieved_goals.shape[1] == 2


def test_a_dataset_stays_where_it_is_when_a_model_takes_it_elsewhere(tmp_path):
    memory = numbered([4, 5, 6])
    ends = np.isin(np.arange(15), memory.trajectory_ends)
    np.savez(tmp_path / "log.npz", observations=memory.observations, actions=memory.actions, terminals=ends)
    for dataset in (memory, GoalDataset.from_files(tmp_path / "log.npz")):
        dataset = dataset.split(0.3)
        moved = dataset.to("meta")
        assert dataset.to("cpu") is dataset and moved.to("meta") is moved
        for own, device in ((dataset, "cpu"), (moved, "meta")):
            of = own.device, own.observations.device, own.actions.device, own.goal_scale.device
            assert {str(each) for each in of} == {device}
            assert own.random_rows(2).device.type == own.random_transitions(2).device.type == device
        assert moved.achieved_goals is moved.observations
        assert dataset.held_out is not None and dataset.held_out.device.type == "cpu"
        assert GoalSampling().sample(dataset, 8).observations.device.type == "cpu"
