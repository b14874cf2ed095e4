"""A dataset of many files on disk: the same as in memory, but for the memory."""

from __future__ import annotations

import copy
import ctypes
import json
import os
import pickle
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from shard_files import logs, parts, write

from proq_agent import GoalDataset, GoalSpec
from proq_agent.common import row_cache, row_file, shards
from proq_agent.common.goal_sampling import GoalSampling
from proq_agent.common.row_file import RowFile, whole
from proq_agent.common.row_statistics import std_mean
from proq_agent.common.trajectory_table import summarise, trajectory_table
from proq_agent.proq.places import crossing_times

LENGTHS = [5, 9, 2, 7, 12, 3, 8]
KINDS = ("npz", "compressed", "npy", "parquet", "minari")
pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning:minari")  # it asks for metadata


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that even small files are read in many."""
    monkeypatch.setattr(shards, "BLOCK_NUMBERS", 40)


def sampled(dataset: GoalDataset, seed: int = 0) -> list[th.Tensor]:
    goals = GoalSampling(value={"near": 0.2, "near_in_time": 0.2, "current": 0.1}, actor={"future_uniform": 0.5})  # type: ignore[arg-type]
    generator = th.Generator().manual_seed(seed)
    return [tensor for _ in range(3) for tensor in goals.sample(dataset, 64, generator)]


def assert_same(disk: GoalDataset, memory: GoalDataset) -> None:
    assert isinstance(disk.observations, RowFile) and len(disk) == len(memory)
    for name in ("observations", "actions", "achieved_goals"):
        assert th.equal(whole(getattr(disk, name)), getattr(memory, name)), name
        for a, b in zip(std_mean(getattr(disk, name)), std_mean(getattr(memory, name)), strict=True):
            if name != "actions":  # whose statistics leave out the last rows
                th.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(disk.trajectory_ends, memory.trajectory_ends)
    np.testing.assert_array_equal(disk.transition_rows, memory.transition_rows)
    assert th.equal(disk.longest_step, memory.longest_step)
    th.testing.assert_close(disk.goal_scale, memory.goal_scale, rtol=1e-6, atol=0.0)
    for pair in zip(
        [*disk.action_bounds, *disk.achieved_goals.aminmax(dim=0)],
        [*memory.action_bounds, *memory.achieved_goals.aminmax(dim=0)],
        strict=True,
    ):
        assert th.equal(*pair)
    for a, b in zip(sampled(disk), sampled(memory), strict=True):
        assert th.equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_any_kind_are_sampled_as_in_memory(kind: str, tmp_path: Path, small_blocks: None) -> None:
    arrays = logs(LENGTHS)
    for number, part in enumerate(parts(arrays, 3)):
        write(tmp_path / "logs" / f"part{number}", part, kind)
    memory = GoalDataset(**arrays)
    if kind == "minari":  # which has no action in the last state
        last = memory.trajectory_ends
        memory.actions[last] = memory.actions[last - 1]
    disk = GoalDataset.from_files(tmp_path / "logs")
    assert_same(disk, memory)
    assert disk.fingerprint == GoalDataset.from_files(tmp_path / "logs").fingerprint
    assert "on disk" in repr(disk) and "on disk" not in repr(memory)


@pytest.mark.parametrize("kind", ["npy", "npz"])
@pytest.mark.parametrize("goal", [None, [1, 0], lambda states: states[:, :1] ** 2, "own"])
def test_goals_are_those_of_memory(kind: str, goal: object, tmp_path: Path, small_blocks: None) -> None:
    arrays = logs(LENGTHS)
    if goal == "own":
        arrays["achieved_goals"] = np.cumsum(arrays["observations"], axis=0)
    spec = None if goal == "own" else goal
    path = write(tmp_path / "log", arrays, kind)
    disk, memory = GoalDataset.from_files(path, goal=spec), GoalDataset(**arrays, goal=spec)
    assert_same(disk, memory)
    assert (disk.achieved_goals is disk.observations) == (goal is None)
    assert_same(disk.on_observations(), memory.on_observations())
    some = [dataset.on_observations().on_coordinates([2, 0]) for dataset in (disk, memory)]
    assert_same(*some)
    assert_same(*(dataset.split(0.3, 0) for dataset in some))
    assert crossing_times(disk).tolist() == crossing_times(memory).tolist()


def test_transitions_and_compact_files_of_ogbench_keep_every_state(tmp_path: Path, small_blocks: None) -> None:
    compact = logs(LENGTHS)
    last = compact["terminals"]
    valids = ~last
    rows = np.flatnonzero(valids)
    regular = {
        "observations": compact["observations"][rows],
        "next_observations": compact["observations"][rows + 1],
        "actions": compact["actions"][rows],
        "terminals": last[rows + 1],
    }
    compact |= {"valids": valids, "terminals": last | np.r_[last[1:], False]}
    for name, arrays in (("regular", regular), ("compact", compact)):
        for kind in ("npz", "npy"):
            path = write(tmp_path / f"{name}-{kind}", arrays, kind)
            assert_same(GoalDataset.from_files(path), GoalDataset.from_ogbench(arrays))


@given(
    lengths=st.lists(st.integers(2, 9), min_size=2, max_size=12),
    share=st.floats(0.01, 0.5),
    cuts=st.lists(st.integers(0, 200), max_size=3),
    n=st.integers(1, 4),
)
def test_splits_and_cuts_are_those_of_memory(tmp_path_factory, lengths, share, cuts, n) -> None:
    arrays = logs(lengths)
    folder = tmp_path_factory.mktemp("logs")
    for number, part in enumerate(parts(arrays, min(n, len(lengths)))):
        write(folder / f"{number}", part, "npz")
    rows = np.array([row % sum(lengths) for row in cuts], dtype=np.int64)
    try:
        memory = GoalDataset(**arrays).cut(rows)
    except ValueError:
        return
    disk = GoalDataset.from_files(folder).cut(rows)
    assert_same(disk, memory)
    disk, memory = disk.split(share, 1), memory.split(share, 1)
    assert th.equal(whole(disk.held_out.observations), memory.held_out.observations)
    assert isinstance(disk.held_out.observations, th.Tensor)
    if memory.n_transitions:
        assert_same(disk, memory)
    for number in range(disk.n_trajectories):
        starts, here, there = disk._transitions_of(number)
        assert th.equal(here, memory.achieved_goals[starts]) and th.equal(there, memory.achieved_goals[starts + 1])


def test_only_a_few_trajectories_are_read_where_a_few_will_do(tmp_path: Path) -> None:
    arrays = logs([10] * 30)
    disk = GoalDataset.from_files(write(tmp_path / "log", arrays, "npz"))
    few = disk.in_memory(50, seed=3)
    assert len(few) == 50 and isinstance(few.observations, th.Tensor)
    assert (np.diff(few.trajectory_ends, prepend=-1) == 10).all()
    assert th.isin(few.observations, th.as_tensor(arrays["observations"])).all()
    assert len(disk.some_goals(20)) == 20 and len(disk.in_memory()) == 300
    assert few.in_memory(10) is few
    steps = disk.achieved_goals.longest_steps().max(axis=1)
    limit = np.full(3, np.sort(steps)[-3])
    assert sum(len(rows) for rows, *_ in disk.farther_than(limit)) == 2 * 9


def test_a_file_that_is_mapped_as_it_is_takes_no_place(tmp_path: Path) -> None:
    path = write(tmp_path / "log", logs(LENGTHS), "npy")
    GoalDataset.from_files(path)
    (rows,) = (tmp_path / row_cache.FOLDER).glob("*/rows.f32")
    assert rows.stat().st_size == 0
    np.save(path / "actions.npy", np.load(path / "actions.npy").astype(np.float64))  # has to be converted
    assert_same(GoalDataset.from_files(path), GoalDataset(**logs(LENGTHS)))
    assert rows.stat().st_size == 4 * sum(LENGTHS) * 5


# ---- the cache -----------------------------------------------------------------------------------------


def test_files_are_read_once_and_again_when_they_have_changed(tmp_path: Path, monkeypatch) -> None:
    write(tmp_path / "logs" / "a", logs(LENGTHS), "npz")
    b = write(tmp_path / "logs" / "b", logs(LENGTHS, seed=1), "npz")
    read: list[str] = []
    monkeypatch.setattr(
        shards.Shard,
        "read",
        lambda self, goal, own=shards.Shard.read: (read.append(self.path.name), own(self, goal))[1],
    )
    for _ in range(2):
        GoalDataset.from_files(tmp_path / "logs")
    assert read == ["a.npz", "b.npz"]
    GoalDataset.from_files(tmp_path / "logs", goal=[0])
    assert len(read) == 4
    write(b.with_suffix(""), logs([4, 4], seed=2), "npz")
    changed = GoalDataset.from_files(tmp_path / "logs")
    assert len(read) == 6 and len(changed) == sum(LENGTHS) + 8
    (folder,) = [
        p.parent
        for p in (tmp_path / "logs" / row_cache.FOLDER).glob("*/rows.f32")
        if p.stat().st_size == 4 * 5 * len(changed)
    ]
    (folder / "ends.i64").write_bytes(b"")  # a cache that is damaged is no cache
    assert len(GoalDataset.from_files(tmp_path / "logs")) == len(changed) and len(read) == 8


def test_a_goal_that_a_helper_computes_in_another_way_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "log", logs(LENGTHS), "npz")
    factor = [1.0]

    def scaled(states: np.ndarray) -> np.ndarray:
        return states[:, :1] * factor[0]

    first = GoalDataset.from_files(path, goal=scaled)
    factor[0] = 2.0
    second = GoalDataset.from_files(path, goal=scaled)
    assert th.equal(whole(second.achieved_goals), 2.0 * first.in_memory().achieved_goals)


def test_what_was_interrupted_goes_on_where_it_stopped(tmp_path: Path, small_blocks, monkeypatch) -> None:
    arrays = logs([6] * 40)
    for number, part in enumerate(parts(arrays, 3)):
        write(tmp_path / "logs" / f"part{number}", part, "compressed")
    checked: list[int] = []
    own = row_cache._checked

    def interrupted(block, *others):
        if len(checked) == 25:
            raise KeyboardInterrupt
        checked.append(len(block["terminals"]))
        return own(block, *others)

    monkeypatch.setattr(row_cache, "_checked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        GoalDataset.from_files(tmp_path / "logs")
    (part,) = (tmp_path / "logs" / row_cache.FOLDER).glob("*.part")
    with (part / "rows.f32").open("ab") as file:
        file.write(b"half a block")
    done = sum(checked)
    assert 0 < done < 240
    checked.append(-done)  # so that it is not interrupted again
    assert_same(GoalDataset.from_files(tmp_path / "logs"), GoalDataset(**arrays))
    assert sum(checked) + done == 240  # nothing was read twice
    assert not part.exists()


def test_an_attempt_on_files_that_have_changed_begins_anew(tmp_path: Path, small_blocks) -> None:
    for number, part in enumerate(parts(logs([6] * 20), 2)):
        write(tmp_path / "logs" / f"{number}", part, "npz")
    bad = logs([6] * 5)
    bad["observations"][3] = np.nan
    write(tmp_path / "logs" / "2", bad, "npz")
    with pytest.raises(ValueError, match=r"2\.npz cannot be used: observations row 3 is not finite"):
        GoalDataset.from_files(tmp_path / "logs")
    other = logs([6] * 20, seed=5)
    for number, part in enumerate(parts(other, 2)):
        write(tmp_path / "logs" / f"{number}", part, "npz")
    (tmp_path / "logs" / "2.npz").unlink()
    write(tmp_path / "logs" / "2", logs([3], seed=6), "npz")
    assert_same(
        GoalDataset.from_files(tmp_path / "logs"),
        GoalDataset(**{name: np.concatenate([a, logs([3], seed=6)[name]]) for name, a in other.items()}),
    )


def test_another_folder_for_the_cache(tmp_path: Path) -> None:
    path = write(tmp_path / "data" / "log", logs(LENGTHS), "npz")
    GoalDataset.from_files(path, cache=tmp_path / "elsewhere")
    assert list((tmp_path / "data").iterdir()) == [path] and any((tmp_path / "elsewhere").iterdir())


@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else True, reason="nothing is forbidden to root")
def test_a_folder_that_is_not_to_be_written_to_has_a_remedy(tmp_path: Path) -> None:
    path = write(tmp_path / "data" / "log", logs(LENGTHS), "npz")
    path.parent.chmod(0o500)
    with pytest.raises(ValueError, match="give another folder with cache"):
        GoalDataset.from_files(path)


def test_a_full_disk_is_told_before_it_is_full(tmp_path: Path, monkeypatch) -> None:
    path = write(tmp_path / "log", logs(LENGTHS), "npz")
    free = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(row_cache.shutil, "disk_usage", lambda _: free)
    with pytest.raises(ValueError, match="is full; give another folder with cache"):
        GoalDataset.from_files(path)


# ---- what is refused -----------------------------------------------------------------------------------


def damage_half(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 - 30 : len(data) // 2 + 30] = bytes(60)
    path.write_bytes(data)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


@pytest.mark.parametrize("harm", [damage_half, cut_short, lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("kind", ["compressed", "npz", "parquet"])
def test_a_damaged_shard_is_named(kind: str, harm, tmp_path: Path) -> None:
    for number, part in enumerate(parts(logs([20] * 9), 3)):
        write(tmp_path / "logs" / f"part{number}", part, kind)
    (bad,) = (tmp_path / "logs").glob("part1.*")
    harm(bad)
    with pytest.raises(ValueError, match=rf"{re.escape(str(bad))}.*; repair it or leave it out"):
        GoalDataset.from_files(tmp_path / "logs")


@pytest.mark.parametrize("harm", [damage_half, cut_short])
@pytest.mark.parametrize("kind", ["compressed", "npz", "parquet"])
def test_of_damaged_files_only_what_saves_work_is_kept(kind: str, harm, tmp_path: Path, small_blocks) -> None:
    folder = tmp_path / "logs"
    write(folder / "part0", parts(logs([20] * 9), 3)[0], kind)
    (first,) = folder.iterdir()
    whole = first.read_bytes()
    harm(first)
    with pytest.raises(ValueError, match="repair it or leave it out"):
        GoalDataset.from_files(folder)
    assert list(folder.iterdir()) == [first]  # blocks before the damage are of no use to anybody
    first.write_bytes(whole)
    last = folder / f"part1{first.suffix}"
    last.write_bytes(b"")
    with pytest.raises(ValueError, match=re.escape(str(last))):
        GoalDataset.from_files(folder)
    (cache,) = set(folder.iterdir()) - {first, last}
    assert [path.suffix for path in cache.iterdir()] == [".part"]
    last.write_bytes(whole)
    assert len(GoalDataset.from_files(folder)) == 120
    assert [path.suffix for path in cache.iterdir()] == [""]


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_files_without_rows_are_no_dataset_but_may_be_among_others(kind: str, tmp_path: Path) -> None:
    none = {name: array[:0] for name, array in logs(LENGTHS).items()}
    if kind == "parquet":  # a list of lists needs one to tell how long they are
        import pyarrow as pa
        import pyarrow.parquet as pq

        lists = pa.list_(pa.float32())
        empty = tmp_path / "logs" / "a.parquet"
        empty.parent.mkdir()
        pq.write_table(
            pa.schema({"observations": lists, "actions": lists, "terminals": pa.bool_()}).empty_table(), empty
        )
    else:
        empty = write(tmp_path / "logs" / "a", none, kind)
    with pytest.raises(ValueError, match=f"there is no row in {re.escape(str(empty))}$"):
        GoalDataset.from_files(empty.parent)
    assert list(empty.parent.iterdir()) == [empty]
    write(empty.parent / "b", logs(LENGTHS), kind)
    assert len(GoalDataset.from_files(empty.parent)) == sum(LENGTHS)


def test_damaged_arrays_and_minari_datasets_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "log", logs(LENGTHS), "npy")
    cut_short(path / "observations.npy")
    with pytest.raises(ValueError, match=r"log is damaged or no dataset: observations ends before row 46"):
        GoalDataset.from_files(path)
    write(tmp_path / "minari", logs(LENGTHS), "minari")
    folder = tmp_path / "minari-v0"
    cut_short(next((folder / "data").glob("*.hdf5")))
    with pytest.raises(ValueError, match=r"minari-v0 is damaged"):
        GoalDataset.from_files(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"terminals": np.zeros(46)}, r"bad\.npz cannot be used: terminals row 45, the last, is not set"),
        ({"terminals": np.full(46, 7)}, r"bad\.npz is damaged or no dataset: terminals .* must hold booleans"),
        ({"observations": np.zeros((46, 4), np.float32)}, r"bad\.npz cannot be used: its .* have \[4, 2, 0\] features"),
        ({"actions": np.zeros((45, 2))}, r"bad\.npz is damaged or no dataset: actions has shape \(45, 2\)"),
        ({"observations": np.zeros((46, 3), object)}, r"bad\.npz is damaged or no dataset: .*(dtype|[Oo]bject)"),
        ({"observations": np.zeros((46, 3), order="F")}, r"bad\.npz .*Fortran"),
    ],
)
def test_a_shard_that_does_not_fit_is_named(change, message, tmp_path: Path) -> None:
    write(tmp_path / "a", logs(LENGTHS), "npz")
    np.savez(tmp_path / "bad.npz", **logs(LENGTHS) | change)
    with pytest.raises(ValueError, match=message):
        GoalDataset.from_files([tmp_path / "a.npz", tmp_path / "bad.npz"])


def test_rows_of_a_bad_block_are_counted_from_where_it_begins(tmp_path: Path, small_blocks) -> None:
    arrays = logs([6] * 20)
    arrays["actions"][100] = np.inf
    path = write(tmp_path / "log", arrays, "npz")
    with pytest.raises(ValueError, match=r"rows are counted from \d+\): actions row \d+") as error:
        GoalDataset.from_files(path)
    first, row = map(int, re.findall(r"from (\d+)\): actions row (\d+)", str(error.value))[0])
    assert first + row == 100


def test_declared_sizes_are_not_believed(tmp_path: Path) -> None:
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 3), }".ljust(117) + "\n"
    member = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w") as file:
        for name in ("observations", "actions", "terminals"):
            file.writestr(f"{name}.npy", member)
    with pytest.raises(ValueError, match=r"bomb\.npz is damaged.*more numbers than a file of this size can hold"):
        GoalDataset.from_files(tmp_path / "bomb.npz")


def test_lists_of_different_lengths_and_empty_cells_are_refused(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for observations, message in (([[1.0], [1.0, 2.0]], "different lengths"), ([[1.0], None], "empty cells")):
        table = pa.table({"observations": observations, "actions": [[0.0], [0.0]], "terminals": [False, True]})
        pq.write_table(table, tmp_path / "log.parquet")
        with pytest.raises(ValueError, match=rf"log\.parquet is damaged or no dataset: observations has .*{message}"):
            GoalDataset.from_files(tmp_path / "log.parquet")


def test_what_is_not_there_or_no_dataset_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    for files, message in (
        (tmp_path / "gone.npz", "there is no dataset file .*gone"),
        (tmp_path / "notes.txt", "is no dataset file; give .npz, .parquet"),
        (tmp_path / "*.parquet", "there is no dataset file in .*parquet"),
        ([], "no files are given"),
        (tmp_path / "other.npz", "other.npz has no array observations, actions, terminals"),
    ):
        with pytest.raises(ValueError, match=message):
            GoalDataset.from_files(files)


def test_actions_are_checked_against_their_space_also_from_the_cache(tmp_path: Path) -> None:
    path = write(tmp_path / "log", logs(LENGTHS), "npz")
    small = spaces.Box(-0.5, 0.5, (2,), np.float32)
    with pytest.raises(ValueError, match=r"log\.npz cannot be used: actions row \d+ .* lies outside"):
        GoalDataset.from_files(path, action_space=small)
    GoalDataset.from_files(path)
    with pytest.raises(ValueError, match="lies outside"):
        GoalDataset.from_files(path, action_space=small)
    GoalDataset.from_files(path, action_space=spaces.Box(-1.0, 1.0, (2,), np.float32))


def test_the_last_action_of_a_trajectory_may_be_anything(tmp_path: Path) -> None:
    arrays = logs(LENGTHS)
    arrays["actions"][np.flatnonzero(arrays["terminals"])] = 99.0
    disk = GoalDataset.from_files(
        write(tmp_path / "log", arrays, "npz"), action_space=spaces.Box(-1.0, 1.0, (2,), np.float32)
    )
    assert_same(disk, GoalDataset(**arrays))


# ---- rows ----------------------------------------------------------------------------------------------


def test_rows_are_indexed_as_a_tensor_is(tmp_path: Path) -> None:
    arrays = logs(LENGTHS)
    rows = GoalDataset.from_files(write(tmp_path / "log", arrays, "npz")).observations
    tensor = th.as_tensor(arrays["observations"])
    assert rows.shape == tensor.shape and len(rows) == len(tensor)
    pairs = th.tensor([[3, 4], [45, 0]])
    for index in (pairs, slice(3, 9, 2), np.array([7, 7, 1]), th.empty(0, dtype=th.long)):
        assert th.equal(rows[index], tensor[index])
    some = rows.only(np.arange(len(LENGTHS)) < 2)
    assert len(some) == 14 and th.equal(some[th.tensor([13])], tensor[13:14])
    for beyond, of in ((46, rows), (14, some)):
        with pytest.raises(IndexError):
            of[th.tensor([beyond])]


def test_copies_read_the_same_rows(tmp_path: Path) -> None:
    dataset = GoalDataset.from_files(write(tmp_path / "log", logs(LENGTHS), "npz"))
    for other in (copy.deepcopy(dataset), pickle.loads(pickle.dumps(dataset))):
        assert_same(other, GoalDataset(**logs(LENGTHS)))


def test_rows_that_come_from_a_disk_are_asked_for_all_at_once(tmp_path: Path, monkeypatch) -> None:
    arrays = logs([50] * 10)
    dataset = GoalDataset.from_files(write(tmp_path / "log", arrays, "npz"))
    memory = GoalDataset(**arrays)
    faults = iter(range(0, 10**9, 1000))
    monkeypatch.setattr(row_file, "_blocks_read", lambda: next(faults))
    assert_same(dataset, memory)
    assert dataset.observations._file._is_cold and dataset.observations._file._pool is not None
    monkeypatch.setattr(row_file, "_blocks_read", lambda: 0)
    assert_same(dataset, memory)
    assert not dataset.observations._file._is_cold


def test_what_is_read_of_a_file_is_all_that_it_takes_in_memory(tmp_path: Path) -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("nothing tells how much memory this process has taken at most")
    (np.arange(1 << 24) % (1 << 23)).astype("<f4").tofile(tmp_path / "rows")
    file = row_file.FloatFile(tmp_path / "rows", (1 << 20, 16))

    def growth(action) -> int:
        ctypes.CDLL(None).malloc_trim(0)  # else it may be taken from what was freed before, and is no growth
        Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is held now
        before, _ = memory()
        action()
        return memory()[1] - before

    def memory() -> list[int]:
        text = Path("/proc/self/status").read_text()
        return [1024 * int(re.search(rf"{name}:\s+(\d+)", text)[1]) for name in ("VmRSS", "VmHWM")]  # type: ignore[index]

    rows = th.randint(1 << 19, (20_000,), generator=th.Generator().manual_seed(0))
    assert growth(lambda: file.take(rows, slice(0, 16))) < 1 << 24
    assert growth(lambda: file.read(0, 1 << 20)) > 1 << 24  # else the measure is wrong
    assert th.equal(file.take(rows, slice(3, 5)), (16 * rows[:, None] + th.tensor([3, 4])).float())


def test_a_file_that_became_shorter_is_named(tmp_path: Path) -> None:
    np.arange(64, dtype="<f4").tofile(tmp_path / "rows")
    file = row_file.FloatFile(tmp_path / "rows", (16, 4))
    os.truncate(tmp_path / "rows", 100)
    with pytest.raises(ValueError, match="rows has become shorter while it was read"):
        file.take(th.tensor([2, 15]), slice(0, 4))


@given(
    lengths=st.lists(st.integers(2, 7), min_size=1, max_size=9),
    shift=st.floats(-1e4, 1e4, width=32),
    data=st.data(),
)
def test_statistics_of_any_trajectories_follow_from_those_of_each(lengths, shift, data) -> None:
    rows = logs(lengths)["observations"] + np.float32(shift)
    ends = np.cumsum(lengths) - 1
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(lengths), max_size=len(lengths)))) | (
        np.arange(len(lengths)) == 0
    )
    found = summarise(trajectory_table(rows, ends), np.array(lengths), chosen)
    kept = np.repeat(chosen, lengths)
    own = rows[kept].astype(np.float64)
    np.testing.assert_allclose(found.mean, own.mean(axis=0), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(found.std, own.std(axis=0), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(found.low, own.min(axis=0))
    np.testing.assert_array_equal(found.high, own.max(axis=0))
    steps = np.abs(np.diff(rows, axis=0))
    steps[ends[:-1]] = 0.0
    np.testing.assert_array_equal(found.longest_step, steps[kept[:-1] & kept[1:]].max(axis=0))


def test_metadata_of_the_cache_are_plain(tmp_path: Path) -> None:
    GoalDataset.from_files(write(tmp_path / "log", logs(LENGTHS), "npz"), goal=GoalSpec([0], tolerance=0.1))
    (path,) = (tmp_path / row_cache.FOLDER).glob("*/dataset.json")
    found = json.loads(path.read_text())
    assert found["rows"] == sum(LENGTHS) and found["files"][0][0] == os.path.join("..", "log.npz")
