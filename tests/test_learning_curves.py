"""Records of runs that were cut short, edited or tied in a knot are left out by name, or refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from zoo.plots import main
from zoo.runs.learning_curves import read_curve, read_trainings


def run(folder: Path, resumed_from: Any = None, first: int = 0, **config: Any) -> Path:
    """A run folder with three evaluations and a log."""
    (folder / "Env-v0").mkdir(parents=True)
    text = yaml.safe_dump({"env": "Env-v0", "resumed_from": resumed_from} | config)
    (folder / "Env-v0" / "config.yml").write_text(text)
    steps = first + np.array([10, 20, 30])
    np.savez(folder / "evaluations.npz", timesteps=steps, successes=np.eye(3), successes_deterministic=np.eye(3))
    lines = ["time/total_timesteps,train/loss", *(f"{step},{step / 10}" for step in steps)]
    (folder / "progress.csv").write_text("\n".join(lines))
    return folder


def damage(path: Path, how: str) -> None:
    if how == "truncated":
        path.write_bytes(path.read_bytes()[:100])
    elif how == "no keys":
        np.savez(path, x=np.zeros(3))
    elif how == "shapes":
        np.savez(path, timesteps=np.arange(4), successes=np.eye(3))
    elif how == "scalars":
        np.savez(path, timesteps=3, successes=4)
    elif how == "words":
        np.savez(path, timesteps=np.array(["a"]), successes=np.array([["b"]]))
    elif how == "objects":
        np.savez(path, timesteps=np.array([None]), successes=np.array([[None]]), allow_pickle=True)
    elif how == "nothing":
        np.savez(path, timesteps=np.zeros(0), successes=np.zeros((0, 3)))
    elif how == "no episodes":
        np.savez(path, timesteps=np.arange(3), successes=np.zeros((3, 0)))
    elif how == "not finite":
        np.savez(path, timesteps=np.arange(3), successes=np.full((3, 3), np.nan))
    elif how == "dates":
        np.savez(path, timesteps=np.arange(3).astype("M8[s]"), successes=np.eye(3))
    elif how == "complex":
        np.savez(path, timesteps=np.arange(3), successes=np.eye(3, dtype=complex))
    elif how == "backwards":
        np.savez(path, timesteps=np.array([3, 2, 1]), successes=np.eye(3))
    else:
        path.write_text(how)


@pytest.mark.parametrize(
    "how",
    ["truncated", "no keys", "shapes", "scalars", "words", "objects", "nothing", "no episodes", "not finite", "dates",
     "complex", "backwards", "", "PK\x03\x04"],
)  # fmt: skip
def test_damaged_evaluations(tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = run(tmp_path / "Env-v0_1"), run(tmp_path / "Env-v0_2")
    damage(bad / "evaluations.npz", how)
    with pytest.raises(ValueError, match=r"Env-v0_2/evaluations\.npz") as caught:
        read_curve(bad)
    assert "\n" not in str(caught.value)
    assert len(read_trainings([good, bad])) == 1
    assert "left out a run" in capsys.readouterr().err
    assert main(["curves", str(bad), "--out", str(tmp_path / "x.png")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    ["", "train/loss\n1\n", "time/total_timesteps,train/loss\nx,1\n", "time/total_timesteps,train/loss\n1,x\n",
     "time/total_timesteps,train/loss\n", "time/total_timesteps,train/loss\n,\n", "\0",
     "time/total_timesteps,train/loss\n1\n", "time/total_timesteps,train/loss\ninf,1\n"],
)  # fmt: skip
def test_damaged_logs(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "Env-v0_1")
    (folder / "progress.csv").write_text(text)
    assert main(["curves", str(folder), "--metric", "train/loss", "--out", str(tmp_path / "x.png")]) == 1
    error = capsys.readouterr().err
    assert "progress.csv" in error and error.count("\n") == 1


def test_runs_that_were_resumed_from_each_other_are_no_endless_loop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "Env-v0_1", tmp_path / "Env-v0_2"
    run(one, str(two / "x.zip"))
    run(two, str(one / "x.zip"), first=30)
    assert read_trainings([two])[0].updates.tolist() == [10, 20, 30, 40, 50, 60]
    for folders in ([one, two], [run(tmp_path / "Env-v0_3", str(tmp_path / "Env-v0_3" / "x.zip"))]):
        with pytest.raises(ValueError, match="was resumed from itself"):
            read_trainings(folders)


@pytest.mark.parametrize(
    "config",
    ["resumed_from: 3", "resumed_from: [a]", "env: {a: b}", "dataset: []", "[" * 10_000, "a", "- a", '!!bool "x"', "ÿ"],
)
def test_a_damaged_record_of_a_run_is_named(tmp_path: Path, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path / "Env-v0_1")
    (folder / "Env-v0" / "config.yml").write_bytes(config.encode("latin-1"))
    assert main(["curves", str(folder), "--out", str(tmp_path / "x.png")]) == 1
    error = capsys.readouterr().err
    assert "config.yml is damaged" in error and "move it away" in error and error.count("\n") == 1
