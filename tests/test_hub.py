"""The commands and functions around the Hugging Face Hub, as far as they go without it."""

from __future__ import annotations

import sys

import pytest
from tiny_goal import ENV, NAME, tiny_model

pytest.importorskip("huggingface_hub")

from zoo import load_from_hub, push_to_hub
from zoo.sharing import hub


@pytest.fixture
def agent_file(workplace):
    tiny_model().save("agent.zip")
    return "agent.zip"


def test_files_are_written_to_a_folder_and_loaded_from_it(agent_file, workplace, capsys):
    command = ["--agent", agent_file, "--env", ENV, "-orga", "me", "--out", "repository"]
    assert push_to_hub.main(command) == 0
    assert capsys.readouterr().out == f"wrote README.md, config.yml, map.png, proq-{NAME}.zip to repository\n"
    assert f"--repo-id me/proq-{NAME}" in (workplace / "repository" / "README.md").read_text()
    assert load_from_hub.main(["--repo-id", "repository"]) == 0
    assert capsys.readouterr().out == f"agent: logs/proq/{NAME}_1/{NAME}.zip\n"
    assert push_to_hub.main(["--env", ENV, "--out", "again"]) == 0  # the run that it became


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        (push_to_hub, ["--agent", "agent.zip", "--env", ENV], "--organization"),
        (push_to_hub, ["--env", ENV, "-orga", "me"], "there is no run"),
        (push_to_hub, ["--agent", "agent.zip", "--env", ENV, "--out", "x", "--video", "data.npz"], ".mp4 or .gif"),
        (load_from_hub, ["--env", ENV], "which repository"),
        (load_from_hub, ["--repo-id", "."], "no repository of ours"),
    ],
)
def test_bad_input_is_one_clear_line(agent_file, capsys, command, options, words):
    assert command.main(options) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and words in error


def test_what_the_hub_refuses_is_said_in_one_line(agent_file, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for call in (
        lambda: hub.push_to_hub(agent_file, "me/tiny", env=ENV),
        lambda: hub.load_from_hub("me/no-such-agent"),
        lambda: hub.load_from_hub("no name/at/all"),
    ):
        with pytest.raises(ValueError, match=r"^cannot (up|down)load .*hf auth login") as error:
            call()
        assert "\n" not in str(error.value)


def test_a_missing_package_is_named(agent_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for call in (lambda: hub.push_to_hub(agent_file, "me/tiny", env=ENV), lambda: hub.load_from_hub("me/tiny")):
        with pytest.raises(ImportError, match="pip install huggingface_hub"):
            call()
