"""Agents that learn from files on disk: the same, number by number, as those that learn from memory."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from chance_worlds import SIDE, Square, landing_at
from shard_files import logs, parts, write
from tiny_goal import ENV, TINY_PARAMS, tiny_arrays

from proq_agent import GoalDataset, ProQ
from proq_agent.chance import separation
from proq_agent.chance.separation import separate_chance
from proq_agent.common.offline import OfflineAlgorithm
from proq_agent.common.prefetch import Prefetch
from proq_agent.common.row_file import RowFile
from proq_agent.proq import proq as proq_module
from zoo import diagnose, train
from zoo.benchmarking.identity import agent_digest
from zoo.data.load import load
from zoo.registry import ALGOS, algorithm

SMALL: dict[str, Any] = {"batch_size": 32, "seed": 0, "device": "cpu", "policy_kwargs": {"hidden_sizes": [16, 16]}}
OF: dict[str, dict[str, Any]] = {
    "proq": {
        "goals": {"value": {"near": 0.2, "on_map": 0.2}, "actor": {"on_map": 0.3}},
        "keypoints": {"n": 8, "start": 1, "freq": 2},
        "map_fraction": 0.6,
        "policy_kwargs": {"hidden_sizes": [16, 16], "latent_dim": 4, "n_components": 4, "dropout": 0.1},
    },
    "qrl": {"policy_kwargs": {"hidden_sizes": [16, 16], "latent_dim": 16}},
    "crl": {"policy_kwargs": {"hidden_sizes": [16, 16], "latent_dim": 16}},
}


def arrays(dataset: GoalDataset) -> dict[str, np.ndarray]:
    ends = np.zeros(len(dataset), dtype=bool)
    ends[dataset.trajectory_ends] = True
    return {
        "observations": dataset.observations.numpy(),  # type: ignore[union-attr]
        "actions": dataset.actions.numpy(),  # type: ignore[union-attr]
        "terminals": ends,
    }


@pytest.fixture
def on_disk(walks: GoalDataset, tmp_path: Path) -> GoalDataset:
    """The random walks of the test maze, in four files."""
    for number, part in enumerate(parts(arrays(walks), 4)):
        write(tmp_path / "walks" / f"{number}", part, "npz")
    return GoalDataset.from_files(tmp_path / "walks")


def build(algo: str, dataset: GoalDataset) -> OfflineAlgorithm:
    return algorithm(algo)(**SMALL | OF.get(algo, {}), dataset=dataset)


def assert_same(one: OfflineAlgorithm, two: OfflineAlgorithm) -> None:
    for (name, a), b in zip(one.policy.state_dict().items(), two.policy.state_dict().values(), strict=True):
        assert th.equal(a, b), name
    assert th.equal(one.generator.get_state(), two.generator.get_state())


@pytest.mark.parametrize("algo", ALGOS)
def test_an_agent_is_the_same_as_from_memory_and_resumes_exactly(algo, walks, on_disk, tmp_path, monkeypatch) -> None:
    ahead: list[bool] = []
    own = Prefetch.take

    def take(self: Prefetch, generator: th.Generator) -> Any:
        pending = self._pending
        ahead.append(pending is not None and th.equal(pending.before, generator.get_state()))
        return own(self, generator)

    monkeypatch.setattr(Prefetch, "take", take)
    memory, disk = build(algo, walks).learn(10, log_interval=5), build(algo, on_disk).learn(10, log_interval=5)
    assert isinstance(disk.dataset.observations, RowFile) and memory._prefetch is None
    assert ahead == [False] + 9 * [True]
    assert_same(memory, disk)

    half = build(algo, on_disk)
    half._setup_learn(10)
    for _ in range(4):  # with a batch on its way when it is saved
        half._update_current_progress_remaining(half.num_timesteps, 10)
        half.train()
        half.num_timesteps += 1
    half.save(tmp_path / "half")
    resumed = type(half).load(tmp_path / "half", device="cpu", dataset=on_disk)
    assert_same(memory, resumed.learn(6, reset_num_timesteps=False, log_interval=None))


def test_an_agent_with_files_can_be_copied(on_disk) -> None:
    model = build("gcbc", on_disk).learn(3, log_interval=None)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model._prefetch))._draw.__self__]
    model.learn(3, reset_num_timesteps=False, log_interval=None)
    for other in copies:
        assert_same(model, other.learn(3, reset_num_timesteps=False, log_interval=None))


def test_diagnosis_and_guidance_read_a_bounded_part(walks, on_disk, monkeypatch) -> None:
    read: list[int | None] = []
    own = GoalDataset.in_memory

    def in_memory(self: GoalDataset, max_rows: int | None = None, seed: int = 0) -> GoalDataset:
        if isinstance(self.observations, RowFile):
            read.append(max_rows)
        return own(self, max_rows, seed)

    found = {}
    for name, dataset in (("memory", walks), ("disk", on_disk)):
        model = ProQ(**SMALL | OF["proq"], dataset=dataset, held_out=0.2).learn(6, log_interval=None)
        monkeypatch.setattr(GoalDataset, "in_memory", in_memory)
        found[name] = model.diagnose().summary()
        monkeypatch.setattr(GoalDataset, "in_memory", own)
    assert found["memory"] == found["disk"]
    assert read == [proq_module.MAX_LOGGED]
    model.diagnose(on_disk, on_disk)  # what lies on disk may be judged by, too


# ---- prefetching ---------------------------------------------------------------------------------------


def drawn(generator: th.Generator | None) -> float:
    return th.rand((), generator=generator).item()


def test_a_batch_that_was_drawn_ahead_is_the_next_one_and_nobody_knows_before() -> None:
    plain, ahead = (th.Generator().manual_seed(5) for _ in range(2))
    prefetch = Prefetch(drawn)
    for _ in range(4):
        assert prefetch.take(ahead) == drawn(plain)
        assert th.equal(ahead.get_state(), plain.get_state())
        prefetch.begin(ahead)
        prefetch.begin(ahead)
        assert th.equal(ahead.get_state(), plain.get_state())


def test_a_batch_is_drawn_anew_if_the_generator_was_used_meanwhile() -> None:
    plain, ahead = (th.Generator().manual_seed(5) for _ in range(2))
    prefetch = Prefetch(drawn)
    assert prefetch.take(ahead) == drawn(plain)
    prefetch.begin(ahead)
    for generator in (plain, ahead):
        th.rand(2, generator=generator)
    assert prefetch.take(ahead) == drawn(plain)
    assert th.equal(ahead.get_state(), plain.get_state())


def test_what_goes_wrong_in_the_background_is_told() -> None:
    calls: list[int] = []

    def fails(generator: th.Generator | None) -> None:
        calls.append(1)
        if len(calls) > 1:
            raise OSError("the disk is gone")

    prefetch, generator = Prefetch(fails), th.Generator()
    prefetch.take(generator)
    prefetch.begin(generator)
    with pytest.raises(OSError, match="the disk is gone"):
        prefetch.take(generator)


# ---- chance --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def resets(tmp_path_factory) -> tuple[GoalDataset, GoalDataset]:
    """Walks that are taken back now and then, in memory and on disk."""
    world = Square(lambda at: np.where(at[:, 0] > SIDE / 2, 0.005, 0.0), landing_at((2.0, 10.0)))
    memory = world.walks(40_000)
    path = write(tmp_path_factory.mktemp("resets") / "log", arrays(memory), "npz")
    return memory, GoalDataset.from_files(path)


def test_chance_is_found_as_in_memory(resets) -> None:
    memory, disk = (separate_chance(dataset, seed=0) for dataset in resets)
    np.testing.assert_array_equal(memory.rows, disk.rows)
    assert memory.summary == disk.summary and len(memory.rows) > 50


def test_of_more_than_fits_some_trajectories_tell_what_chance_does(resets, monkeypatch) -> None:
    memory = separate_chance(resets[0], seed=0)
    monkeypatch.setattr(separation, "MAX_NUMBERS", 20_000 * 4)
    disk = separate_chance(resets[1], seed=0)
    np.testing.assert_array_equal(memory.rows, disk.rows)
    (one,), (other,) = memory.edges, disk.edges
    np.testing.assert_allclose(one.rate, other.rate, rtol=0.5)
    assert f"{len(memory.rows)} of 40000 transitions" in disk.summary


def test_nothing_is_found_in_more_than_fits_where_nothing_jumps(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(separation, "MAX_NUMBERS", 1000)
    disk = GoalDataset.from_files(write(tmp_path / "log", logs([50] * 20), "npz"))
    assert not len(separate_chance(disk, seed=0).rows)


# ---- commands ------------------------------------------------------------------------------------------


def test_commands_take_a_folder_a_pattern_or_a_parquet_file(tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    for number, part in enumerate(parts(tiny_arrays(), 2)):
        write(tmp_path / "logs" / f"{number}", part, "parquet")
    np.savez(tmp_path / "data.npz", **tiny_arrays())  # type: ignore[arg-type]
    digests = []
    for path in ("logs", "logs/*.parquet", "data.npz"):
        options = ["--env", ENV, "--dataset-path", path, "-n", "6", "--eval-episodes", "1", "--device", "cpu"]
        assert train.main([*options, "--seed", "3", "-f", f"runs-{len(digests)}", "-params", *TINY_PARAMS]) == 0
        digests.append(agent_digest(ProQ.load(next((tmp_path / f"runs-{len(digests)}").rglob("*.zip")), device="cpu")))
    assert digests[0] == digests[1] == digests[2]
    assert diagnose.main(["--env", ENV, "-f", "runs-0", "--dataset-path", "logs"]) in (0, 1)
    out = capsys.readouterr()
    assert f"dataset {ENV}: disk, 290 transitions, logs (sha256" in out.out + out.err
    dataset, info = load(ENV, dataset_path="logs/0.parquet", dataset_dir=tmp_path / "elsewhere", progress=False)
    assert info.source == "disk" and dataset.n_trajectories == 5 and (tmp_path / "elsewhere").is_dir()
    (tmp_path / "logs" / "1.parquet").write_bytes(b"damaged")
    assert train.main([*options[:3], "logs", "-n", "2"]) == 1
    assert "1.parquet is damaged or no dataset" in capsys.readouterr().err
