from __future__ import annotations

import numpy as np
from tiny_goal import ENV, tiny_arrays, tiny_model

from zoo.data.load import load
from zoo.diagnose import main


def test_an_untrained_agent_is_found_out_and_drawn(workplace, capsys):
    tiny_model().save(workplace / "agent.zip")
    command = ["--agent", "agent.zip", "--env", ENV, "--dataset-path", "data.npz"]
    assert main([*command, "--plot", "found.png", "--n-episodes", "2"]) == 1
    out, error = capsys.readouterr()
    assert "WRONG support" in out
    assert "of 2 goals are reached with a plan" in out and (workplace / "found.png").is_file()
    assert "error: faults were found: " in error


def test_says_what_is_missing(workplace, capsys):
    tiny_model().save(workplace / "agent.zip")
    assert main(["--agent", "agent.zip"]) == 1
    assert "give --env ID or --dataset-path FILE" in capsys.readouterr().err


def test_the_validation_file_is_what_is_held_out(workplace):
    assert load("mine", dataset_path="data.npz")[0].held_out is None
    np.savez(workplace / "data-val.npz", **tiny_arrays(2, seed=1))  # type: ignore[arg-type]
    dataset, _ = load("mine", dataset_path="data.npz")
    assert dataset.n_trajectories == 10 and dataset.held_out is not None and dataset.held_out.n_trajectories == 2
    assert dataset.split() is dataset
