"""AntMaze data: real physics and the official behaviour."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import ogbench
import pytest

from zoo.data import catalogue
from zoo.data.antmaze import AntMaze, get_maze, rollout
from zoo.data.catalogue import ANTMAZE_IDS, Provenance
from zoo.data.generation import generate
from zoo.data.load import load
from zoo.generate import main

SMALL_ID = "antmaze-medium-stitch-v0"


def real_env(name: str) -> Any:
    return gymnasium.make(f"antmaze-{name}-v0").unwrapped


def put(env: Any, qpos: np.ndarray, qvel: np.ndarray) -> None:
    """Start the real environment in a state of a file, without what earlier contacts left in the solver."""
    mujoco.mj_resetData(env.model, env.data)
    env.set_state(qpos.astype(np.float64), qvel.astype(np.float64))


@pytest.mark.parametrize(("name", "kind"), [("medium", "navigate"), ("giant", "stitch"), ("large", "explore")])
def test_replaying_the_actions_in_the_real_environment_gives_the_same_observations(name: str, kind: str) -> None:
    env, rows = real_env(name), 151
    env.reset()
    for number in range(2):
        episode = rollout(get_maze(name), kind, rows, 0.2, np.random.default_rng(number))
        put(env, episode["qpos"][0], episode["qvel"][0])
        replayed = [env.get_ob(), *(env.step(action)[0] for action in episode["actions"][:-1])]
        np.testing.assert_array_equal(np.array(replayed, dtype=np.float32), episode["observations"])
        np.testing.assert_array_equal(np.hstack((episode["qpos"], episode["qvel"])), episode["observations"])


class NearPortals(AntMaze):
    """Starts in the cells beside the entrances, so that a short episode reaches one."""

    def __init__(self) -> None:
        super().__init__("teleport")
        self.free_cells = [cell for entrance in self.entrances for cell in self.neighbours(self.cell(*entrance))]


def test_portals_take_the_ant_as_it_is_to_an_exit_and_the_observation_is_from_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    env, maze, taken = real_env("teleport"), NearPortals(), []
    env.reset()
    for number in range(8):
        episode = rollout(maze, "navigate", 61, 0.2, np.random.default_rng(number))
        observations, qpos, qvel = episode["observations"], episode["qpos"], episode["qvel"]
        put(env, qpos[0], qvel[0])
        for t in range(60):
            place = tuple(qpos[t + 1, :2])
            if jumped := bool(np.abs(qpos[t + 1, :2] - observations[t + 1, :2]).max() > 1.0):
                taken.append(maze.exits.index(place))
                monkeypatch.setattr(np.random, "randint", lambda n, choice=taken[-1]: choice)  # the environment's draw
            observation = env.step(episode["actions"][t])[0]
            np.testing.assert_array_equal(observation.astype(np.float32), observations[t + 1])
            np.testing.assert_array_equal(env.get_xy().astype(np.float32), place)
            assert jumped == bool(np.abs(env.get_xy() - observation[:2]).max() > 1.0)
            np.testing.assert_array_equal(np.hstack((qpos[t + 1, 2:], qvel[t + 1])), observations[t + 1, 2:])
    assert len(set(taken)) > 1


def test_the_ant_walks_towards_the_centre_of_the_next_cell() -> None:
    maze, numbers = get_maze("medium"), []
    for number in range(4):
        qpos = rollout(maze, "stitch", 101, 0.2, np.random.default_rng(number))["qpos"]
        cells = {maze.cell(float(x), float(y)) for x, y in qpos[:, :2]}
        assert cells <= set(maze.free_cells)
        numbers.append(len(cells))
    assert np.mean(numbers) >= 3


def test_an_exploring_ant_keeps_its_direction_for_ten_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    maze, told = get_maze("medium"), []
    act = maze.walker.act

    def spy(qpos: np.ndarray, qvel: np.ndarray, direction: np.ndarray) -> np.ndarray:
        told.append(tuple(direction))
        return act(qpos, qvel, direction)

    monkeypatch.setattr(maze.walker, "act", spy)
    rollout(maze, "explore", 40, 1.0, np.random.default_rng(0))
    assert [len(set(told[t : t + 10])) for t in (0, 10, 20, 30)] == [1, 1, 1, 1]
    assert len(set(told)) == 4
    np.testing.assert_allclose(np.linalg.norm(told, axis=1), 1.0, atol=1e-5)


def test_actions_carry_noise_of_the_given_size_and_stay_in_the_box() -> None:
    deviations, largest = [], 0.0
    for number in range(200):
        plain, noisy = (
            rollout(get_maze("medium"), "stitch", 1, noise, np.random.default_rng(number))["actions"][0]
            for noise in (0.0, 0.2)
        )
        deviations += list((noisy - plain)[np.abs(plain) < 0.3])  # so far from the edge that none is clipped
        largest = max(largest, float(np.abs(noisy).max()))
    assert np.std(deviations) == pytest.approx(0.2, rel=0.1)
    assert largest <= 1.0


@pytest.mark.slow  # starts processes
def test_the_result_does_not_depend_on_the_workers() -> None:
    one, two = (generate(SMALL_ID, seed=3, episodes=1, val_episodes=1, workers=w) for w in (1, 2))
    for split in one:
        for key in one[split]:
            np.testing.assert_array_equal(one[split][key], two[split][key])


@pytest.mark.parametrize("dataset_id", ANTMAZE_IDS)
def test_ogbench_and_zoo_read_the_files_that_the_command_writes(
    dataset_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(catalogue.WORLDS, dataset_id, replace(catalogue.WORLDS[dataset_id], episodes=2, rows=21))
    out = tmp_path / f"{dataset_id}.npz"
    assert main(["--env", dataset_id, "--workers", "1", "--out", str(out)]) == 0
    with np.load(out, allow_pickle=False) as file:
        assert {key: (file[key].dtype.name, file[key].shape) for key in file.files if key != "generated_by"} == {
            "observations": ("float32", (42, 29)),
            "actions": ("float32", (42, 8)),
            "terminals": ("bool", (42,)),
            "qpos": ("float32", (42, 15)),
            "qvel": ("float32", (42, 14)),
        }
        noise = 1.0 if "explore" in dataset_id else 0.2
        assert Provenance.from_array(file["generated_by"]) == Provenance(dataset_id, "train", 0, 2, noise)
    train, val = ogbench.make_env_and_datasets(dataset_id, dataset_path=str(out), dataset_only=True)
    assert (train["next_observations"].shape, val["next_observations"].shape) == ((40, 29), (20, 29))
    dataset, info = load(dataset_id, dataset_dir=tmp_path)
    assert (dataset.n_transitions, dataset.n_trajectories, info.source) == (40, 2, "generated")
