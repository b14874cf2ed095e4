"""An agent as a repository of the Hugging Face Hub and back, as files: nothing here is sent anywhere."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from agent_files import Exploit
from tiny_goal import ENV, NAME, TINY_PARAMS, tiny_arrays, tiny_model

from proq_agent import ProQ
from proq_agent.common.archive import CheckpointError
from zoo import enjoy, train
from zoo.runs.folder import run_of
from zoo.sharing.repository import read_repository, write_repository

huggingface_hub = pytest.importorskip("huggingface_hub")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run that was evaluated."""
    folder = tmp_path_factory.mktemp("work")
    np.savez(folder / "data.npz", **tiny_arrays())  # type: ignore[arg-type]
    options = ["--dataset-path", str(folder / "data.npz"), "-f", str(folder / "logs"), "--device", "cpu", "-n", "6"]
    assert train.main(["--env", ENV, *options, "--eval-episodes", "2", "--verbose", "0", "-params", *TINY_PARAMS]) == 0
    return folder / "logs" / "proq" / f"{NAME}_1" / f"{NAME}.zip"


@pytest.fixture
def repository(agent: Path, tmp_path: Path) -> Path:
    write_repository(agent, tmp_path / "repository", "me/proq-tiny", "proq")
    return tmp_path / "repository"


def test_the_card_has_results_that_the_hub_can_read(agent, repository):
    run = run_of(agent)
    assert run is not None
    results = run.read_config()["results"]
    card = huggingface_hub.ModelCard.load(repository / "README.md")
    found = {each.metric_name: each.metric_value for each in card.data.eval_results}
    assert found == {f"success rate, {way} actions": results[way]["all"] for way in ("sampled", "deterministic")}
    assert all(each.task_type == "reinforcement-learning" for each in card.data.eval_results)
    assert card.data.library_name == "proq-agent" and {"reinforcement-learning", "proq", ENV} <= set(card.data.tags)
    assert f"| all | {results['sampled']['all']:.1%} | {results['deterministic']['all']:.1%} |" in card.text
    assert "![map](map.png)" in card.text and "zoo.load_from_hub --repo-id me/proq-tiny" in card.text
    assert (run.config.with_name("command.txt")).read_text().strip() in card.text


def test_a_repository_tells_nothing_of_the_machine(agent, repository):
    assert {path.name for path in repository.iterdir()} == {f"proq-{NAME}.zip", "README.md", "config.yml", "map.png"}
    config = yaml.safe_load((repository / "config.yml").read_text())
    assert "machine" not in config and "resumed_from" not in config and "path" not in config["dataset"]
    assert config["hyperparams"]["batch_size"] == 16


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_a_video_is_shown(agent, tmp_path, suffix):
    video = tmp_path / f"film{suffix}"
    video.write_bytes(b"moving")
    write_repository(agent, tmp_path / "given", "me/tiny", "proq", video=video)
    run = Path(shutil.copytree(agent.parent, tmp_path / "run"))
    shutil.copyfile(video, run / video.name)
    write_repository(run / agent.name, tmp_path / "in its run", "me/tiny", "proq")
    for folder in (tmp_path / "given", tmp_path / "in its run"):
        assert (folder / f"replay{suffix}").read_bytes() == b"moving"
        assert ("![replay](replay.gif)" in (folder / "README.md").read_text()) == (suffix == ".gif")


def test_an_agent_from_anywhere_needs_a_name_and_gets_a_map(tmp_path):
    tiny_model().save(tmp_path / "agent.zip")
    with pytest.raises(ValueError, match="--env"):
        write_repository(tmp_path / "agent.zip", tmp_path / "out", "me/tiny", "proq")
    write_repository(tmp_path / "agent.zip", tmp_path / "out", "me/tiny", "proq", ENV)
    card = huggingface_hub.ModelCard.load(tmp_path / "out" / "README.md")
    assert (tmp_path / "out" / "map.png").stat().st_size > 1000 and card.data.eval_results is None


def test_what_is_loaded_is_a_run_that_the_commands_find(agent, repository, tmp_path, capsys):
    for number in (1, 2):
        path = read_repository(repository, tmp_path / "logs")
        assert path == tmp_path / "logs" / "proq" / f"{NAME}_{number}" / f"{NAME}.zip"
    point = {key: np.full(2, 0.3, np.float32) for key in ("observation", "achieved_goal", "desired_goal")}
    actions = [ProQ.load(file).predict(point, deterministic=True)[0] for file in (path, agent)]
    np.testing.assert_array_equal(*actions)
    assert enjoy.main(["--env", ENV, "-f", str(tmp_path / "logs"), "--n-episodes", "1"]) == 0
    again = tmp_path / "again"
    write_repository(path, again, "me/proq-tiny", "proq")
    assert (again / "config.yml").read_text() == (repository / "config.yml").read_text()
    assert (again / "map.png").read_bytes() == (repository / "map.png").read_bytes()


def test_a_pickle_is_neither_shared_nor_loaded(agent, repository, tmp_path):
    (name,) = (path.name for path in repository.glob("*.zip"))
    (repository / name).write_bytes(pickle.dumps(Exploit(tmp_path / "trace")))
    with pytest.raises(CheckpointError):
        read_repository(repository, tmp_path / "logs")
    with pytest.raises(CheckpointError):
        write_repository(repository / name, tmp_path / "out", "me/tiny", "proq", ENV)
    assert not (tmp_path / "trace").exists() and not (tmp_path / "logs").exists() and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (None, "no repository of ours"),
        ("- a", "no repository of ours"),
        ("{algo: os, env: a}", "no repository of ours"),
        ("{algo: proq, env: 3}", "no repository of ours"),
        ("{algo: proq, env: ..}", "no environment"),
        ("a: &a [1]\nb: !!python/object/apply:os.mkdir [trace]", "not valid YAML"),
    ],
)
def test_a_foreign_repository_is_refused(repository, tmp_path, config, words):
    (repository / "config.yml").unlink()
    if config is not None:
        (repository / "config.yml").write_text(config)
    with pytest.raises(ValueError, match=words):
        read_repository(repository, tmp_path / "logs")
    assert not (tmp_path / "logs").exists()


def test_a_stranger_cannot_name_files_of_ours(repository, tmp_path):
    with (repository / "config.yml").open("a") as file:
        file.write("resumed_from: /home/somebody/agent.zip\n")
    run = run_of(read_repository(repository, tmp_path / "logs"))
    assert run is not None and "resumed_from" not in run.read_config()


def test_which_agent_is_meant_must_be_clear(repository, tmp_path):
    shutil.copyfile(repository / f"proq-{NAME}.zip", repository / "other.zip")
    with pytest.raises(ValueError, match="2 agent files"):
        read_repository(repository, tmp_path / "logs")
