"""A stranger's Minari dataset is data: its metadata build nothing that is not registered on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_files import within_bounds
from gymnasium import spaces
from tiny_goal import TINY_PARAMS, TinyGoalEnv, tiny_arrays

from proq_agent import GoalDataset
from proq_agent.common.minari_files import load_minari, named_environment, read_minari
from zoo import train
from zoo.data.load import load
from zoo.data.tasks import UntrustedEnvironment, make_task_env, task_envs
from zoo.runs.folder import find_run

minari = pytest.importorskip("minari")
NAME = "stranger/gift-v0"
ENV = f"minari:{NAME}"
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # Minari asks for metadata


@pytest.fixture
def metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a dataset; returns a function that changes its metadata."""
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    arrays, env = tiny_arrays(3, 10), TinyGoalEnv()
    buffers = [
        EpisodeBuffer(
            observations=dict.fromkeys(env.observation_space, states),
            actions=actions[:-1],
            rewards=[0.0] * 9,
            terminations=[False] * 9,
            truncations=[False] * 8 + [True],
        )
        for states, actions in zip(
            *(arrays[name].reshape(3, 10, 2) for name in ("observations", "actions")), strict=True
        )
    ]
    minari.create_dataset_from_buffers(
        NAME, buffers, observation_space=env.observation_space, action_space=env.action_space
    )
    path = tmp_path / "minari" / NAME / "data" / "metadata.json"

    def change(*without: str, **changes: Any) -> None:
        content = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({key: value for key, value in content.items() if key not in without}))

    return change


def spec(**changes: Any) -> str:
    """As Gymnasium writes it."""
    return json.dumps(
        {
            "id": "TinyGoal-v0",
            "entry_point": "tiny_goal:TinyGoalEnv",
            "kwargs": {},
            "max_episode_steps": None,
            "additional_wrappers": [],
            "vector_entry_point": None,
        }
        | changes
    )


def box(**changes: Any) -> str:
    """As Minari writes it."""
    plain = {"type": "Box", "dtype": "float32", "shape": [2], "low": [-1, -1], "high": [1, 1]}
    return json.dumps(plain | changes)


def exploit(trace: Path) -> dict[str, Any]:
    return {"id": "Gift-v0", "entry_point": "subprocess:call", "kwargs": {"args": ["touch", str(trace)]}}


def test_the_environment_that_a_dataset_describes_is_not_built(
    metadata: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace"
    monkeypatch.chdir(tmp_path)
    metadata(env_spec=spec(**exploit(trace)))
    for build in (make_task_env, task_envs):
        with pytest.raises(UntrustedEnvironment, match=r"'Gift-v0'.*--trust-dataset"):
            build(ENV)
    command = ["--env", ENV, "-n", "3", "--device", "cpu", "--verbose", "0", "-params", *TINY_PARAMS]
    assert train.main(command) == 0
    assert "Training without an environment" in capsys.readouterr().err
    folder = find_run(Path("logs"), "proq", ENV)
    assert folder.agent.is_file() and folder.map.is_file() and not trace.exists()
    with pytest.raises(Exception, match=r"."):
        make_task_env(ENV, trust_dataset=True)
    assert trace.exists(), "the exploit itself must work, or this test shows nothing"


def test_spaces_are_not_found_out_by_building(metadata: Any, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    metadata("observation_space", "action_space", env_spec=spec(**exploit(trace)))
    for read in (read_minari, GoalDataset.from_minari, lambda name: load(f"minari:{name}")):
        with pytest.raises(ValueError, match=r"does not tell its action space.*--trust-dataset"):
            read(NAME)
    assert not trace.exists()
    for trusting in (load_minari, lambda name: load(f"minari:{name}", trust_dataset=True)):
        with pytest.raises(ValueError, match="cannot be opened"):
            trusting(NAME)
        assert trace.exists(), "the exploit itself must work, or this test shows nothing"
        trace.unlink()


def test_a_registered_environment_is_made_whatever_its_entry_point_is_said_to_be(metadata: Any, tmp_path: Path) -> None:
    metadata(env_spec=spec(entry_point="subprocess:call", kwargs={"limit": 2}, max_episode_steps=7))
    env = make_task_env(ENV)
    assert isinstance(env.unwrapped, TinyGoalEnv)
    assert env.unwrapped.limit == 2 and env.spec is not None and env.spec.max_episode_steps == 7
    assert task_envs(ENV)[1] == (0,)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "os:TinyGoal-v0"},
        {"id": "antigravity:TinyGoal-v0"},
        {"id": "GymV26Environment-v0", "kwargs": {"env_id": "x"}},
        {"kwargs": {"xml_file": "/etc/passwd"}},
        {"kwargs": {"module": "os:system"}},
        {"kwargs": {"nested": [[{"a": "../../x"}]]}},
        {"additional_wrappers": [{"name": "Evil", "entry_point": "os:system", "kwargs": {}}]},
        {"id": "NotHere-v3"},
    ],
)
def test_what_is_more_than_a_name_and_numbers_is_not_built(metadata: Any, changes: dict[str, Any]) -> None:
    metadata(env_spec=spec(**changes))
    with pytest.raises(UntrustedEnvironment):
        make_task_env(ENV)


@pytest.mark.parametrize("text", ["", "[]", "3", "{}", '{"id": 3}', "[" * 100_000, 3, ["a"], spec(kwargs=3)])
def test_a_malformed_description_is_one_clear_error(metadata: Any, text: Any) -> None:
    metadata(env_spec=text)
    with pytest.raises(ValueError, match="names no proper environment") as caught:
        named_environment(NAME)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "[]", "[" * 10**5, "\x00", "{" + " " * 2**23 + "}"])
def test_damaged_metadata_are_one_clear_error(metadata: Any, tmp_path: Path, content: str) -> None:
    (tmp_path / "minari" / NAME / "data" / "metadata.json").write_text(content)
    for read in (load_minari, named_environment, read_minari):
        with pytest.raises(ValueError, match=r"metadata\.json is damaged"):
            read(NAME)
    for name in ("no/such-v0", "not a name"):
        with pytest.raises(ValueError, match=r"there is no Minari dataset|is no name of a Minari dataset"):
            load_minari(name)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"data_format": "pickle"}, "another format than hdf5.*--trust-dataset"),
        ({"action_space": "[]"}, "action space .* cannot be used"),
        ({"action_space": 3}, "action space .* cannot be used"),
        ({"action_space": box(dtype="S1000000000")}, "action space .* cannot be used"),
        ({"action_space": box(shape=[10**9], low=0, high=1)}, "actions has 2 features"),
        ({"action_space": json.dumps({"type": "Discrete", "n": 3, "start": 0})}, "action space .* cannot be used"),
        ({"total_episodes": 10**9}, r"main_data\.hdf5 cannot be read: it holds 3 episodes.*; fetch the dataset again"),
        ({"total_episodes": "3"}, "it holds 3 episodes"),
        ({"total_episodes": 0}, "there is no episode"),
        ({"total_episodes": -1}, "there is no episode"),
    ],
)
def test_metadata_that_do_not_fit_are_one_clear_error(metadata: Any, changes: dict[str, Any], says: str) -> None:
    metadata(**changes)
    with within_bounds(0), pytest.raises(ValueError, match=says) as caught:
        GoalDataset.from_minari(NAME)
    assert "\n" not in str(caught.value)


def test_damaged_data_are_one_clear_error(metadata: Any, tmp_path: Path) -> None:
    data = tmp_path / "minari" / NAME / "data" / "main_data.hdf5"
    for content in (data.read_bytes()[:2000], b"", bytes(4000)):
        data.write_bytes(content)
        with pytest.raises(ValueError, match=r"main_data\.hdf5 cannot be read: .*; fetch the dataset again"):
            GoalDataset.from_minari(NAME)


def test_a_pipe_is_not_waited_for(metadata: Any, tmp_path: Path) -> None:
    data = tmp_path / "minari" / NAME / "data" / "main_data.hdf5"
    data.unlink()
    os.mkfifo(data)
    other_end = os.open(data, os.O_RDWR)  # else this test would wait where it should fail
    with pytest.raises(ValueError, match=r"main_data\.hdf5 cannot be read: it is no file"):
        GoalDataset.from_minari(NAME)
    os.close(other_end)


def test_nothing_outside_the_dataset_s_folder_is_read(metadata: Any, tmp_path: Path) -> None:
    data = tmp_path / "minari" / NAME / "data" / "main_data.hdf5"
    outside = data.rename(tmp_path / "private.hdf5")
    for link in (lambda: data.symlink_to(outside), lambda: linked(data, outside)):
        link()
        with pytest.raises(ValueError, match=r"main_data\.hdf5 cannot be read: .* link (out of|to elsewhere)"):
            GoalDataset.from_minari(NAME)
        assert len(GoalDataset.from_minari(minari.load_dataset(NAME))) == 30, "the links themselves must work"
        data.unlink()


def linked(path: Path, outside: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for k in range(3):
            file[f"episode_{k}"] = h5py.ExternalLink(str(outside), f"episode_{k}")


def test_what_is_sound_is_read(metadata: Any) -> None:
    for dataset in (NAME, minari.load_dataset(NAME)):
        read = GoalDataset.from_minari(dataset)
        np.testing.assert_array_equal(read.achieved_goals.numpy(), tiny_arrays(3, 10)["observations"])
    assert named_environment(NAME) is None


def test_flat_observations_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from minari.data_collector import EpisodeBuffer

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    states, actions = np.arange(12, dtype=np.float32).reshape(4, 3), np.zeros((3, 2), np.float32)
    ends = {"rewards": [0.0] * 3, "terminations": [False] * 3, "truncations": [False, False, True]}
    space = spaces.Box(-100, 100, (3,), np.float32)
    buffer = EpisodeBuffer(observations=states, actions=actions, **ends)  # type: ignore[arg-type]
    minari.create_dataset_from_buffers(NAME, [buffer], observation_space=space, action_space=TinyGoalEnv.action_space)
    np.testing.assert_array_equal(GoalDataset.from_minari(NAME).observations.numpy(), states)
