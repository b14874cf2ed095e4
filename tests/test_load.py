"""Datasets by name: the three sources, told apart for good, and no damaged or foreign file used."""

from __future__ import annotations

import functools
import hashlib
import http.server
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import ogbench.utils
import pytest

import zoo.data.generation
from proq_agent.common.files import locked
from zoo.data.catalogue import WORLDS, Arrays, val_path
from zoo.data.fingerprint import forget_sha256
from zoo.data.generation import generate, save
from zoo.data.load import load
from zoo.data.tasks import make_task_env

ID = "pointmaze-medium-stitch-v0"
OFFLINE = "http://127.0.0.1:9"  # the discard port: refuses at once


@pytest.fixture(scope="module")
def splits() -> dict[str, Arrays]:
    return generate(ID, seed=7, episodes=4, val_episodes=2)


@pytest.fixture
def official(splits: dict[str, Arrays]) -> dict[str, Arrays]:
    """The same arrays without the generator's mark, as in a file that somebody else made."""
    return {split: {k: v for k, v in a.items() if k != "generated_by"} for split, a in splits.items()}


def write(folder: Path, arrays: dict[str, Arrays], name: str = ID) -> Path:
    path = folder / f"{name}.npz"
    save(path, arrays["train"])
    save(val_path(path), arrays["val"])
    return path


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is served in the place of OGBench's server."""
    folder = tmp_path_factory.mktemp("server")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        monkeypatch.setattr(ogbench.utils, "DATASET_URL", f"http://127.0.0.1:{httpd.server_address[1]}")
        yield folder
        httpd.shutdown()


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ogbench.utils, "DATASET_URL", OFFLINE)


@pytest.mark.parametrize("source", ["auto", "file"])
def test_a_file_in_the_folder_is_used(source: str, tmp_path: Path, official: dict[str, Arrays], offline: None) -> None:
    path = write(tmp_path, official)
    dataset, info = load(ID, dataset_dir=tmp_path, source=source)
    np.testing.assert_array_equal(dataset.observations.numpy(), official["train"]["observations"])
    assert (info.source, info.path, info.seed, info.transitions) == ("file", str(path), None, 800)
    assert len(info.sha256 or "") == 64 and (info.sha256 or "")[:12] in info.describe()
    validation, info = load(ID, dataset_dir=tmp_path, source=source, split="val")
    assert (validation.n_transitions, info.path) == (400, str(val_path(path)))


def test_the_default_folder_is_that_of_ogbench(
    tmp_path: Path, official: dict[str, Arrays], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / ".ogbench" / "data", official)
    _, info = load(ID)
    assert info.path == str(tmp_path / ".ogbench" / "data" / f"{ID}.npz")


def test_a_generated_file_stays_known_as_generated(tmp_path: Path, splits: dict[str, Arrays], offline: None) -> None:
    path = write(tmp_path, splits)
    for kwargs in ({"dataset_dir": tmp_path}, {"dataset_path": path}):
        _, info = load(ID, **kwargs)  # type: ignore[arg-type]
        assert (info.source, info.seed) == ("generated", 7)
        assert "seed 7" in info.describe() and "not the official file" in info.describe()
        assert "\n" not in info.describe()


@pytest.mark.parametrize("source", ["auto", "download"])
def test_a_missing_file_is_downloaded_once(
    source: str, tmp_path: Path, server: Path, official: dict[str, Arrays], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(server, official)
    dataset, info = load(ID, dataset_dir=tmp_path, source=source)
    assert (info.source, dataset.n_transitions) == ("download", 800)
    assert (tmp_path / f"{ID}.npz").read_bytes() == (server / f"{ID}.npz").read_bytes()
    monkeypatch.setattr(ogbench.utils, "DATASET_URL", OFFLINE)
    assert load(ID, dataset_dir=tmp_path, source=source)[1].source == "file"
    assert load(ID, dataset_dir=tmp_path, source=source, split="val")[1].source == "file"
    with (tmp_path / f"{ID}.npz").open("ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match=f"{ID}.npz has changed since it was downloaded"):
        load(ID, dataset_dir=tmp_path, source=source)


def test_a_file_that_has_changed_since_it_was_made_is_named(tmp_path: Path, splits: dict[str, Arrays]) -> None:
    path = write(tmp_path, splits)
    beside = path.with_name(f"{path.name}.sha256")
    assert beside.read_text() == f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
    with np.load(path) as file:
        arrays = dict(file)
    arrays["observations"][3] += 1.0
    np.savez(path, **arrays)
    for kwargs in ({"dataset_dir": tmp_path}, {"dataset_path": path}):
        with pytest.raises(ValueError, match=rf"{ID}\.npz has changed .*delete both .*{beside.name} alone"):
            load(ID, **kwargs)  # type: ignore[arg-type]
    beside.unlink()
    load(ID, dataset_dir=tmp_path)
    save(path, splits["train"])  # made anew, and its hash with it
    load(ID, dataset_dir=tmp_path)
    assert beside.exists()
    held_out = val_path(path)
    held_out.write_bytes(held_out.read_bytes() + b"more")
    with pytest.raises(ValueError, match=rf"{ID}-val\.npz has changed"):
        load(ID, dataset_dir=tmp_path)


def test_a_page_that_is_no_dataset_is_not_kept(tmp_path: Path, server: Path) -> None:
    (server / f"{ID}.npz").write_text("<html>please log in</html>")
    with pytest.raises(ValueError, match=f"cannot download {ID} .*did not send a whole .npz"):
        load(ID, dataset_dir=tmp_path, source="download")
    assert not list(tmp_path.glob("*.npz")) and not list(tmp_path.glob(".*.tmp"))


def test_what_can_neither_be_downloaded_nor_generated_says_where_to_put_it(tmp_path: Path, offline: None) -> None:
    name = "humanoidmaze-large-navigate-v0"
    with pytest.raises(ValueError, match=f"cannot download {name} .* put the file at {tmp_path}"):
        load(name, dataset_dir=tmp_path)
    with pytest.raises(ValueError, match=f"cannot generate {name}, only pointmaze"):
        load(name, dataset_dir=tmp_path, source="generate")


def test_a_source_is_insisted_on(
    tmp_path: Path, splits: dict[str, Arrays], official: dict[str, Arrays], offline: None
) -> None:
    with pytest.raises(ValueError, match="there is no dataset file"):
        load(ID, dataset_dir=tmp_path, source="file")
    write(tmp_path, splits)
    assert load(ID, dataset_dir=tmp_path, source="generate", seed=7)[1].seed == 7
    with pytest.raises(ValueError, match="generated with seed 7, not 0"):
        load(ID, dataset_dir=tmp_path, source="generate", seed=0)
    with pytest.raises(ValueError, match="was generated; move it away"):
        load(ID, dataset_dir=tmp_path, source="download")
    write(tmp_path, official)
    with pytest.raises(ValueError, match="was not generated; move it away"):
        load(ID, dataset_dir=tmp_path, source="generate")
    with pytest.raises(ValueError, match="unknown dataset source 'web'"):
        load(ID, dataset_dir=tmp_path, source="web")


@pytest.mark.parametrize("name", ["pointmaze-medium-stich-v0", "pointmaze-medium-v0"])
def test_an_unknown_id_names_the_closest(name: str, tmp_path: Path, offline: None) -> None:
    with pytest.raises(ValueError, match=f"unknown dataset '{name}'; did you mean .*{ID}"):
        load(name, dataset_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_truncated_or_flipped_file_is_named_at_every_length(tmp_path: Path, official: dict[str, Arrays]) -> None:
    path = write(tmp_path, official)
    forget_sha256(path)  # as of a file that somebody else has put there
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for damaged in (b"", whole[:10], whole[: len(whole) // 2], whole[:-1], bytes(flipped)):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"cannot use the dataset file {path}"):
            load(ID, dataset_dir=tmp_path)


def test_foreign_files_are_named(tmp_path: Path, splits: dict[str, Arrays]) -> None:
    path = tmp_path / f"{ID}.npz"
    rows = np.zeros((4, 2), dtype=np.float32)
    ends = np.array([False, False, False, True])
    for arrays, message in (
        ({"x": rows}, "observations"),
        ({"observations": rows, "actions": rows[:2], "terminals": ends}, "actions has 2 rows"),
        ({"observations": rows, "actions": rows, "terminals": ~ends}, "terminals row 3"),
        ({"observations": rows.astype(object), "actions": rows, "terminals": ends}, "allow_pickle"),
        ({"observations": np.zeros((4, 29)), "actions": rows, "terminals": ends}, "29 observation and 2 action"),
        ({"observations": rows, "actions": rows, "terminals": ends, "generated_by": rows}, "generated_by"),
        (splits["val"], "split val"),
    ):
        np.savez(path, **arrays)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=message) as caught:
            load(ID, dataset_dir=tmp_path)
        assert str(path) in str(caught.value)
    np.save(path.with_suffix(".npy"), rows)
    path.with_suffix(".npy").rename(path)
    with pytest.raises(ValueError, match="not a whole"):
        load(ID, dataset_dir=tmp_path)


def test_any_environment_with_a_file_of_its_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "logs.npz"
    goals = rng.normal(size=(6, 3))
    np.savez(
        path,
        observations=rng.normal(size=(6, 5)),
        achieved_goals=goals,
        actions=rng.normal(size=(6, 2)),
        terminals=[0, 0, 1, 0, 0, 1],
    )
    dataset, info = load("MyRobot-v0", dataset_path=path)
    assert (info.id, info.source, info.transitions) == ("MyRobot-v0", "file", 4)
    np.testing.assert_allclose(dataset.achieved_goals.numpy(), goals.astype(np.float32))
    with pytest.raises(ValueError, match="there is no dataset file"):
        load("MyRobot-v0", dataset_path=path, split="val")


@pytest.mark.filterwarnings("ignore::UserWarning")  # Minari asks for metadata
def test_a_minari_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    from gymnasium.spaces import Box
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    episodes = [
        EpisodeBuffer(
            observations=np.full((6, 3), 0.1 * number, dtype=np.float32),
            actions=np.zeros((5, 1), dtype=np.float32),
            rewards=[0.0] * 5,
            terminations=[False] * 5,
            truncations=[False] * 4 + [True],
        )
        for number in range(2)
    ]
    minari.create_dataset_from_buffers(
        "test/pendulum-v0",
        episodes,
        observation_space=Box(-1.0, 1.0, (3,)),
        action_space=Box(-1.0, 1.0, (1,)),
    )
    dataset, info = load("minari:test/pendulum-v0")
    assert (info.source, info.path, info.transitions, dataset.n_trajectories) == ("minari", None, 10, 2)
    with pytest.raises(ValueError, match="no split 'val'"):
        load("minari:test/pendulum-v0", split="val")
    for find in (load, make_task_env):
        with pytest.raises(ValueError, match="minari download test/missing-v0"):
            find("minari:test/missing-v0")


def test_only_the_generator_imports_behaviours_and_only_to_generate() -> None:
    """They know the layouts of mazes, and ways through them."""
    root = Path(zoo.data.generation.__file__).parents[2]
    behaviours = "|".join(sorted({world.behaviour for world in WORLDS.values()}))
    importing = re.compile(rf"from zoo.data import .*\b({behaviours})\b|zoo\.data\.({behaviours})\b")
    for package in ("proq_agent", "wrappers", "zoo"):
        for path in (root / package).rglob("*.py"):
            assert not importing.search(path.read_text()), f"{path} imports a behaviour"
    knows_mazes = [p.stem for p in (root / "zoo").rglob("*.py") if "zoo.data.maze import" in p.read_text()]
    assert sorted(knows_mazes) == ["antmaze", "pointmaze"]
    code = "import sys, zoo.runs.training, zoo.runs.episodes, zoo.benchmarking.grid, zoo.data.load; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "zoo.data.generation" in loaded and not [name for name in loaded if re.fullmatch(importing.pattern, name)]
    assert not [name for name in loaded if name.startswith("zoo.worlds.")]


@pytest.mark.slow
def test_two_offline_processes_at_once_generate_one_whole_set(tmp_path: Path) -> None:
    code = (
        "import sys, ogbench.utils; from dataclasses import replace; from zoo.data import load; "
        f"from zoo.data.catalogue import WORLDS; WORLDS[{ID!r}] = replace(WORLDS[{ID!r}], episodes=50); "
        f"ogbench.utils.DATASET_URL = {OFFLINE!r}; print('ready', flush=True); "
        f"info = load.load({ID!r}, dataset_dir=sys.argv[1])[1]; print(info.source, info.transitions, info.sha256)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with locked(tmp_path / f".{ID}.npz.lock"):  # held until both are about to find no file
        processes = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
        ]
        assert [process.stdout.readline() for process in processes if process.stdout] == ["ready\n"] * 2
        time.sleep(0.5)
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0] and outputs[0][0].startswith("generated 10000 ")
    assert sum("generating it instead" in stderr for _, stderr in outputs) == 1
    files = {f"{ID}.npz", f"{ID}-val.npz"}
    assert {path.name for path in tmp_path.iterdir()} == {*files, *(f"{name}.sha256" for name in files)}
    assert load(ID, dataset_dir=tmp_path, split="val")[1].transitions == 1000
