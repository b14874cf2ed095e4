"""The generator: real physics, the official behaviour, and a result that depends on the seed alone."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import ogbench
import pytest

from proq_agent.common.files import atomic_file
from zoo.data.catalogue import DATASET_IDS, WORLDS, Provenance
from zoo.data.generation import generate, save
from zoo.data.pointmaze import Cell, get_maze, rollout
from zoo.generate import main

MAZES = ("medium", "large", "giant", "teleport")
SMALL_ID = "pointmaze-medium-stitch-v0"


def real_env(name: str) -> Any:
    env: Any = gymnasium.make(f"pointmaze-{name}-v0").unwrapped
    env.reset()
    return env


def cell_of(name: str, xy: np.ndarray) -> Cell:
    return get_maze(name).cell(float(xy[0]), float(xy[1]))


@pytest.mark.parametrize("kind", ["navigate", "stitch"])
@pytest.mark.parametrize("name", MAZES)
def test_replaying_the_actions_in_the_real_environment_gives_the_same_observations(name: str, kind: str) -> None:
    env, maze = real_env(name), get_maze(name)
    contacts = jumps = 0
    for number in range(10):
        episode = rollout(maze, kind, 201, 0.5, np.random.default_rng(number))
        observations, positions, actions = episode["observations"], episode["qpos"], episode["actions"]
        env.reset()
        env.set_xy(positions[0].astype(np.float64))
        for t in range(200):
            observation, *_ = env.step(actions[t])
            np.testing.assert_array_equal(observation.astype(np.float32), observations[t + 1])
            contacts += bool(np.abs(observations[t + 1] - positions[t] - 0.2 * actions[t]).max() > 1e-4)
            # The environment draws its own exit: a jump is in the same steps, and ours goes to one of the exits.
            jumped = bool(np.abs(env.get_xy() - observation).max() > 1.0)
            assert jumped == bool(np.abs(positions[t + 1] - observations[t + 1]).max() > 1.0)
            if jumped:
                jumps += 1
                assert tuple(positions[t + 1]) in maze.exits
                env.set_xy(positions[t + 1].astype(np.float64))
    assert contacts > 0, "no wall was touched: the test would not notice wrong physics"
    assert (jumps > 0) == (name == "teleport")


def test_exits_of_the_portals_are_equally_likely() -> None:
    maze, taken = get_maze("teleport"), []
    for number in range(500):
        episode = rollout(maze, "stitch", 60, 0.5, np.random.default_rng(number))
        jumped = np.abs(episode["qpos"] - episode["observations"]).max(axis=1) > 1.0
        taken += [maze.exits.index(tuple(xy)) for xy in episode["qpos"][jumped]]
    counts = np.bincount(taken, minlength=3)
    assert np.abs(counts - len(taken) / 3).max() < 4 * np.sqrt(len(taken) * 2 / 9)


@pytest.mark.parametrize("name", MAZES)
def test_the_next_cell_is_the_one_that_the_environment_plans(name: str) -> None:
    env, maze = real_env(name), get_maze(name)
    rng = np.random.default_rng(0)
    for _ in range(200):
        start, goal = (maze.free_cells[i] for i in rng.integers(len(maze.free_cells), size=2))
        planned, _ = env.get_oracle_subgoal(maze.centre(start), maze.centre(goal))
        assert maze.next_centre(start, goal) == tuple(planned)


def test_starts_are_uniform_over_free_cells_and_within_one_of_their_centres() -> None:
    maze, counts, offsets = get_maze("medium"), {}, []
    for number in range(2600):
        xy = rollout(maze, "navigate", 1, 0.5, np.random.default_rng(number))["observations"][0]
        cell = cell_of("medium", xy)
        counts[cell] = counts.get(cell, 0) + 1
        offsets.append(xy - maze.centre(cell))
    expected = 2600 / len(maze.free_cells)
    assert set(counts) == set(maze.free_cells)
    assert max(abs(n - expected) for n in counts.values()) < 5 * np.sqrt(expected)
    assert np.abs(offsets).max() <= 1.0
    np.testing.assert_allclose(np.std(offsets, axis=0), 1 / np.sqrt(3), rtol=0.05)


def test_actions_are_unit_vectors_with_gaussian_noise_clipped_to_the_box() -> None:
    deviations, actions = [], []
    for number in range(1500):  # the noise is drawn after start and goal, so that both runs face the same way
        mean, noisy = (
            rollout(get_maze("large"), "stitch", 1, noise, np.random.default_rng(number))["actions"][0]
            for noise in (0.0, 0.5)
        )
        assert np.linalg.norm(mean) == pytest.approx(1.0, abs=1e-4)
        deviations += list((noisy - mean)[np.abs(mean) < 0.3])  # so far from the box's edge that half are unclipped
        actions.append(noisy)
    assert np.median(deviations) == pytest.approx(0.0, abs=0.05)
    assert np.median(np.abs(deviations)) == pytest.approx(0.6745 * 0.5, rel=0.08)
    assert np.abs(actions).max() == 1.0


@pytest.mark.parametrize("name", MAZES[:3])
def test_a_stitch_episode_ends_hovering_four_cells_from_its_start(name: str) -> None:
    maze = get_maze(name)
    for number in range(40):
        path = rollout(maze, "stitch", 201, 0.0, np.random.default_rng(number))["observations"]
        cells = [cell_of(name, xy) for xy in path]
        changes = sum(a != b for a, b in pairwise(cells))
        assert changes == 4
        assert np.linalg.norm(path[-20:] - maze.centre(cells[-1]), axis=1).max() < 0.3


def test_a_sealed_cell_is_its_own_stitch_goal() -> None:
    assert get_maze("teleport").stitch_goals((1, 7)) == [(1, 7)]


def test_a_navigate_episode_keeps_walking_to_cells_that_are_not_corridors() -> None:
    maze = get_maze("medium")
    visited: list[set[Cell]] = []
    for number in range(20):
        path = rollout(maze, "navigate", 1001, 0.5, np.random.default_rng(number))["observations"]
        visited.append({cell_of("medium", xy) for xy in path})
    assert min(map(len, visited)) > 10  # one goal alone is at most ten cells away
    assert set(maze.goal_cells) <= set.union(*visited)
    for i, j in maze.free_cells:
        open_sides = [(di, dj) for di, dj in ((-1, 0), (1, 0), (0, -1), (0, 1)) if maze.free[i + di, j + dj]]
        straight = open_sides in ([(-1, 0), (1, 0)], [(0, -1), (0, 1)])
        assert ((i, j) in maze.goal_cells) == (not straight)


def test_the_result_depends_on_the_seed_but_not_on_the_workers() -> None:
    one, two = (generate(SMALL_ID, seed=3, episodes=60, val_episodes=30, workers=w) for w in (1, 2))
    for split, rows in (("train", 60 * 201), ("val", 30 * 201)):
        assert set(one[split]) == {"observations", "actions", "terminals", "qpos", "qvel", "generated_by"}
        assert len(one[split]["terminals"]) == rows
        for key in one[split]:
            np.testing.assert_array_equal(one[split][key], two[split][key])
    assert not np.array_equal(one["train"]["actions"][:201], one["val"]["actions"][:201])
    fewer, other = (generate(SMALL_ID, seed=seed, episodes=30)["train"]["actions"] for seed in (3, 4))
    np.testing.assert_array_equal(fewer, one["train"]["actions"][: len(fewer)])
    assert not np.array_equal(fewer, other)


def test_official_counts_are_a_million_transitions_and_a_tenth_of_it() -> None:
    for world in (WORLDS[dataset_id] for dataset_id in DATASET_IDS):
        assert world.official and world.episodes * (world.rows - 1) == 1_000_000 and world.noise == 0.5


@pytest.mark.parametrize("dataset_id", DATASET_IDS)
def test_ogbench_reads_the_files_that_the_command_writes(dataset_id: str, tmp_path: Path) -> None:
    out = tmp_path / f"{dataset_id}.npz"
    assert (
        main(["--env", dataset_id, "--episodes", "2", "--val-episodes", "1", "--workers", "1", "--out", str(out)]) == 0
    )
    rows = WORLDS[dataset_id].rows
    with np.load(out, allow_pickle=False) as file:
        assert {key: file[key].dtype.name for key in file.files if key != "generated_by"} == {
            "observations": "float32",
            "actions": "float32",
            "terminals": "bool",
            "qpos": "float32",
            "qvel": "float32",
        }
        assert Provenance.from_array(file["generated_by"]) == Provenance(dataset_id, "train", 0, 2, 0.5)
        np.testing.assert_array_equal(np.flatnonzero(file["terminals"]), [rows - 1, 2 * rows - 1])
    train, val = ogbench.make_env_and_datasets(dataset_id, dataset_path=str(out), dataset_only=True)
    assert train["next_observations"].shape == (2 * (rows - 1), 2)
    assert val["next_observations"].shape == (rows - 1, 2)
    assert ogbench.utils.load_dataset(str(out), add_info=True)["qpos"].shape == (2 * (rows - 1), 2)


@pytest.mark.slow
def test_as_a_process_with_workers(tmp_path: Path) -> None:
    out = tmp_path / "set.npz"
    options = ["--env", SMALL_ID, "--episodes", "30", "--val-episodes", "2", "--workers", "2", "--seed", "5"]
    command = [sys.executable, "-m", "zoo.generate", *options, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{out}: 6000 transitions",
        f"{tmp_path / 'set-val.npz'}: 400 transitions",
    ]
    for split, arrays in generate(SMALL_ID, seed=5, episodes=30, val_episodes=2).items():
        with np.load(out if split == "train" else tmp_path / "set-val.npz", allow_pickle=False) as file:
            for key, array in arrays.items():
                np.testing.assert_array_equal(file[key], array)


def test_the_same_arrays_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(tmp_path / f"{name}.npz", generate(SMALL_ID, episodes=1)["train"])
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_existing_files_are_replaced_only_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "set.npz"
    out.write_bytes(b"official")
    command = ["--env", SMALL_ID, "--episodes", "1", "--workers", "1", "--out", str(out)]
    assert main(command) == 1
    assert out.read_bytes() == b"official"
    assert f"error: {out} exist" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0
    assert out.read_bytes() != b"official"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "pointmaze-gaint-stitch-v0"], "did you mean pointmaze-giant-stitch-v0"),
        (["--env", SMALL_ID, "--episodes", "0"], "episodes must be at least 1"),
        (["--env", SMALL_ID, "--seed", "-1"], "seed must be at least 0"),
        (["--env", SMALL_ID, "--noise", "nan"], "noise must be a non-negative number"),
        (["--env", SMALL_ID, "--workers", "0"], "workers must be at least 1"),
        (["--env", SMALL_ID, "--out", "set.npy"], "--out must end in .npz"),
    ],
)
def test_bad_arguments_are_one_line_and_an_exit_code(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--out", "set.npz", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("python -m zoo.generate: error: ") and error.count("\n") == 1 and message in error
    assert not list(tmp_path.iterdir())


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), atomic_file(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
