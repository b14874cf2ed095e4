"""Gymnasium-Robotics' PointMaze from end to end: a 4-d observation with momentum, a map of the 2-d goal space."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from tiny_goal import TINY_PARAMS

import zoo.data.generation
from proq_agent import GoalDataset, ProQ
from wrappers import make_goal_env
from zoo import train
from zoo.data.catalogue import ROBOTICS_IDS, WORLDS, Provenance
from zoo.data.generation import generate, save
from zoo.data.load import load
from zoo.data.tasks import make_task_env
from zoo.generate import main
from zoo.runs.experiment import environment_id
from zoo.runs.folder import find_run

robotics = pytest.importorskip("gymnasium_robotics")
from zoo.data.robotics import get_maze, rollout  # noqa: E402

SMALL_ID = "PointMaze_UMaze-v3"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Datasets of a few short episodes by default."""
    monkeypatch.setitem(WORLDS, SMALL_ID, replace(WORLDS[SMALL_ID], episodes=4, rows=51))


@pytest.mark.parametrize("env_id", ROBOTICS_IDS)
def test_replaying_the_actions_in_the_real_environment_gives_the_same_observations(env_id: str) -> None:
    gymnasium.register_envs(robotics)
    env: Any = gymnasium.make(env_id).unwrapped
    contacts = 0
    for number in range(6):
        # Much noise: walls are hit, and the limit of the speed as well.
        episode = rollout(get_maze(env_id), 201, 3.0, np.random.default_rng(number))
        observations, actions = episode["observations"], episode["actions"]
        env.reset(seed=0)
        env.point_env.set_state(observations[0, :2].astype(np.float64), np.zeros(2))
        for t in range(200):
            observation = env.step(actions[t])[0]["observation"]
            np.testing.assert_array_equal(observation.astype(np.float32), observations[t + 1])
        contacts += int((np.abs(np.diff(observations[:, 2:], axis=0)).max(axis=1) > 0.3).sum())
    assert contacts > 0, "no wall was touched: the test would not notice wrong physics"


@pytest.mark.parametrize("env_id", ROBOTICS_IDS)
def test_the_data_fill_the_maze_and_hold_what_their_keys_say(env_id: str) -> None:
    maze = get_maze(env_id)
    arrays = generate(env_id, episodes=30)["train"]
    assert {key: array.shape[1:] for key, array in arrays.items() if key != "generated_by"} == {
        "observations": (4,),
        "achieved_goals": (2,),
        "actions": (2,),
        "terminals": (),
    }
    np.testing.assert_array_equal(arrays["achieved_goals"], arrays["observations"][:, :2])
    assert 0.9 < np.abs(arrays["actions"]).max() <= 1.0
    cells = {maze.cell(*position) for position in arrays["achieved_goals"].tolist()}
    assert cells == set(range(len(maze.centres)))
    positions = arrays["achieved_goals"].reshape(30, -1, 2)
    moved = np.linalg.norm(np.diff(positions, axis=1), axis=-1)
    assert moved.max() < 0.08  # five units a second on each axis
    assert moved.sum(axis=1).min() > 5.0, "an episode stands still"


def test_the_controller_takes_shortest_paths() -> None:
    maze = get_maze("PointMaze_Large-v3")
    centres = np.array(maze.centres)
    for goal in range(len(centres)):
        cells, steps = np.arange(len(centres)), 0
        while (cells != goal).any():
            following = maze.next_cell[goal, cells]
            np.testing.assert_allclose(
                np.abs(centres[following] - centres[cells]).sum(axis=1), (cells != goal).astype(float)
            )
            cells, steps = following, steps + 1
            assert steps < len(centres)


def test_the_result_depends_on_the_seed_but_not_on_the_number_of_episodes(few: None) -> None:
    one, same, other = (generate(SMALL_ID, seed=seed, episodes=n) for seed, n in ((3, 4), (3, 2), (4, 4)))
    np.testing.assert_array_equal(same["train"]["actions"], one["train"]["actions"][: 2 * 51])
    for different in (other["train"], one["val"]):
        assert not np.array_equal(different["actions"][:51], one["train"]["actions"][:51])


def test_the_command_writes_a_file_that_is_found_by_name(tmp_path: Path, few: None) -> None:
    out = tmp_path / f"{SMALL_ID}.npz"
    assert main(["--env", SMALL_ID, "--seed", "5", "--workers", "1", "--out", str(out)]) == 0
    with np.load(out, allow_pickle=False) as file:
        assert Provenance.from_array(file["generated_by"]) == Provenance(SMALL_ID, "train", 5, 4, 0.5)
        goals = file["achieved_goals"]
    dataset, info = load(SMALL_ID, dataset_dir=tmp_path)
    assert (info.source, info.seed, info.path, info.transitions) == ("generated", 5, str(out), 200)
    assert "official" not in info.describe()
    assert dataset.observations.shape == (204, 4)
    np.testing.assert_array_equal(dataset.achieved_goals.numpy(), goals)


def test_a_missing_file_is_generated_without_asking_a_server(tmp_path: Path, few: None) -> None:
    with pytest.raises(ValueError, match="cannot be downloaded"):
        load(SMALL_ID, dataset_dir=tmp_path, source="download")
    dataset, info = load(SMALL_ID, dataset_dir=tmp_path, progress=False)
    assert (info.source, dataset.n_transitions) == ("generated", 200)
    assert load(SMALL_ID, dataset_dir=tmp_path, split="val")[1].transitions == 50


def test_a_file_of_another_shape_is_refused(tmp_path: Path, few: None) -> None:
    arrays = generate(SMALL_ID)["train"]
    save(tmp_path / f"{SMALL_ID}.npz", arrays | {"observations": arrays["achieved_goals"]})
    with pytest.raises(ValueError, match="2 observation and 2 action features, not 4 and 2"):
        load(SMALL_ID, dataset_dir=tmp_path)


def test_a_misspelt_name_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did you mean PointMaze_Large-v3"):
        load("PointMaze_Lareg-v3", dataset_dir=tmp_path)


@pytest.fixture
def minari_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Minari keeps its datasets in this test."""
    pytest.importorskip("minari")
    folder = tmp_path / "minari"
    folder.mkdir()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder


@pytest.mark.filterwarnings("ignore::UserWarning")  # Minari asks for metadata
def test_a_minari_dataset_of_the_same_episodes_is_the_same(
    minari_folder: Path, few: None, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = generate(SMALL_ID)["train"]
    env, name = make_goal_env(SMALL_ID), "proq/umaze-v0"
    assert main(["--env", SMALL_ID, "--workers", "1", "--minari", name]) == 0
    assert f"minari:{name}: 200 transitions" in capsys.readouterr().out
    assert environment_id(f"minari:{name}") == SMALL_ID

    del arrays["generated_by"]
    expected = GoalDataset(**arrays)
    through_zoo, info = load(f"minari:{name}")
    assert (info.source, info.transitions) == ("minari", 200)
    for dataset in (through_zoo, GoalDataset.from_minari(name)):
        for key in ("observations", "achieved_goals", "trajectory_ends"):
            np.testing.assert_array_equal(getattr(dataset, key), getattr(expected, key))
        used = ~arrays["terminals"]  # no action is taken in the last state of a trajectory
        np.testing.assert_array_equal(dataset.actions[used], expected.actions[used])
    recovered = make_task_env(f"minari:{name}")
    assert recovered.observation_space == env.observation_space and recovered.action_space == env.action_space
    observation, _ = recovered.reset(seed=1)
    np.testing.assert_array_equal(observation["desired_goal"], env.reset(seed=1)[0]["desired_goal"])


@pytest.mark.filterwarnings("ignore::UserWarning")  # Minari asks for metadata
def test_minari_datasets_are_replaced_on_demand_and_not_begun_under_a_bad_name(
    minari_folder: Path, monkeypatch: pytest.MonkeyPatch, few: None, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--env", SMALL_ID, "--workers", "1", "--minari"]
    assert main([*command, "no version"]) == 1
    assert "Malformed dataset ID: no version" in capsys.readouterr().err
    assert not list(minari_folder.iterdir())
    assert main([*command, "proq/umaze-v0"]) == 0
    with monkeypatch.context() as patched:  # found out at once
        patched.setattr(
            zoo.data.generation, "generate", lambda *_, **__: pytest.fail("made before the name is checked")
        )
        assert main([*command, "proq/umaze-v0", "--seed", "1"]) == 1
    assert "give --overwrite" in capsys.readouterr().err
    assert main([*command, "proq/umaze-v0", "--seed", "1", "--overwrite"]) == 0
    expected = generate(SMALL_ID, seed=1)["train"]["observations"]
    np.testing.assert_array_equal(GoalDataset.from_minari("proq/umaze-v0").observations, expected)


@pytest.mark.filterwarnings("ignore::UserWarning")  # Minari asks for metadata
def test_the_same_agent_is_trained_from_a_file_and_through_minari(
    tmp_path: Path, minari_folder: Path, few: None
) -> None:
    assert main(["--env", SMALL_ID, "--workers", "1", "--minari", "proq/umaze-v0"]) == 0
    assert main(["--env", SMALL_ID, "--workers", "1", "--out", str(tmp_path / f"{SMALL_ID}.npz")]) == 0
    options = ["-n", "6", "--eval-freq", "-1", "--eval-episodes", "1", "--device", "cpu", "-f", str(tmp_path / "logs")]
    options += ["--dataset-dir", str(tmp_path), "-params", *TINY_PARAMS, "held_out:0"]
    runs = []
    for env_id in (SMALL_ID, "minari:proq/umaze-v0"):
        assert train.main(["--env", env_id, *options]) == 0
        runs.append(find_run(tmp_path / "logs", "proq", env_id))
    file, through_minari = (ProQ.load(run.agent) for run in runs)
    assert (
        (file.planning.max_hop, file.goals.discount)
        == (through_minari.planning.max_hop, through_minari.goals.discount)
        == (60.0, 0.98)
    )
    for one, other in zip(file.policy.parameters(), through_minari.policy.parameters(), strict=True):
        np.testing.assert_array_equal(one.detach(), other.detach())
