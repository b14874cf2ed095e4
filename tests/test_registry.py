"""An algorithm that only the registry and its own file know goes through every command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch as th
import yaml
from tiny_algorithm import HYPERPARAMS, TinyCloning
from tiny_goal import ENV, NAME

from zoo import benchmark, enjoy, optimize, plots, train
from zoo.benchmarking.results import read_results
from zoo.config import load_hyperparams
from zoo.registry import ALGOS, algorithm
from zoo.runs.folder import RunFolder, find_run

COMMON = ("--algo", "cloning", "--env", ENV)
DATA = ("--dataset-path", "data.npz", "--device", "cpu")


@pytest.fixture(autouse=True)
def _registered(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workplace / "cloning.yml").write_text(HYPERPARAMS)
    monkeypatch.setitem(ALGOS, "cloning", "tiny_algorithm:TinyCloning")
    monkeypatch.setattr("zoo.config.FOLDER", workplace)


def trained(*more: Any) -> RunFolder:
    options = [*COMMON, *DATA, "--eval-episodes", "2", "--verbose", "0", *map(str, more)]
    assert train.main(options) == 0
    return find_run(Path("logs"), "cloning", ENV)


def test_every_algorithm_is_a_class_with_hyperparameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for name in ALGOS:
        for preset in ("tuned", "paper"):
            hyperparams, n_timesteps = load_hyperparams("default", preset, algo=name)
            assert hyperparams and (n_timesteps is None) == (preset == "tuned")
    with pytest.raises(ValueError, match="unknown algorithm 'prok'; choose one of proq"):
        algorithm("prok")


def test_it_trains_and_leaves_no_map() -> None:
    folder = trained("-n", 8, "-params", "policy_kwargs.width:4", "acting.noise:0.5")
    assert {path.name for path in folder.path.iterdir()} >= {f"{NAME}.zip", "best_model.zip", "evaluations.npz"}
    assert not folder.map.exists()
    config = folder.read_config()
    assert config["algo"] == "cloning" and config["training"]["updates"] == 8
    assert config["hyperparams"]["policy_kwargs"] == {"width": 4, "activations": ["tanh"]}
    assert config["hyperparams"]["acting"] == {"noise": 0.5}
    assert config["hyperparams"]["goals"]["actor"]["future_uniform"] == 1.0


def test_it_resumes_exactly() -> None:
    first = trained("-n", 8, "--save-freq", 4, "--eval-freq", -1)
    second = trained("-i", first.checkpoint(4), "--eval-freq", -1)
    assert second.path != first.path and second.read_config()["training"]["updates"] == 4
    before, after = (TinyCloning.load(folder.agent).policy.state_dict() for folder in (first, second))
    assert all(th.equal(before[name], after[name]) for name in before)


def test_it_is_watched_and_drawn_without_a_map(capsys: pytest.CaptureFixture[str]) -> None:
    folder = trained("-n", 8, "--eval-freq", 2)
    assert enjoy.main([*COMMON, "--n-episodes", "3", "--plot", "plot.png"]) == 0
    assert "success" in capsys.readouterr().out and Path("plot.png").stat().st_size > 1000
    assert plots.main(["curves", *COMMON, "--out", "curves.png"]) == 0 and Path("curves.png").is_file()
    assert plots.main(["curves", str(folder.path), "--metric", "train/actor_loss", "--out", "loss.png"]) == 0
    for figure in (["map"], ["plan", "--start", "0", "0", "--goal", "1", "1"], ["distance", "--goal", "1", "1"]):
        assert plots.main([*figure, *COMMON, "--out", "none.png"]) == 1
        assert "TinyCloning learns no map" in capsys.readouterr().err
    assert not Path("none.png").exists()
    assert enjoy.main([*COMMON, "--video", "film.gif"]) == 1
    assert "no maze, and the agent has no map" in capsys.readouterr().err


def test_it_is_filmed_in_a_maze(tmp_path: Path) -> None:
    from wrappers import make_goal_env

    env = make_goal_env("pointmaze-medium-v0", max_episode_steps=10)
    model = TinyCloning(observation_space=env.observation_space, action_space=env.action_space, seed=0)
    model.save("agent.zip")
    options = ["--algo", "cloning", "--env", "pointmaze-medium-v0", "--agent", "agent.zip", "--n-episodes", "1"]
    assert enjoy.main([*options, "--video", "film.gif", "--frame-every", "500"]) == 0
    assert Path("film.gif").stat().st_size > 1000


def test_it_is_benchmarked_and_variants_of_its_acting_share_a_training(capsys: pytest.CaptureFixture[str]) -> None:
    variants = ["--variant", "default", "--variant", "noisy", "acting.noise:0.9"]
    options = [*COMMON, *DATA, "-n", "8", "--episodes", "3", "--seeds", "1", "--out", "out", *variants]
    assert benchmark.main([*options, "--export-agents", "agents"]) == 0
    paths = sorted(Path("out/cloning/runs").iterdir())
    assert [path.name for path in paths] == [f"{NAME}_default_1.csv", f"{NAME}_noisy_1.csv"]
    rows = [row for path in paths for row in read_results(path)]
    assert {row.algo for row in rows} == {"cloning"} and len({row.settings for row in rows}) == 2
    assert len(list(Path("logs/benchmark").glob("*/cloning/*"))) == 1
    assert f"| {ENV} | cloning | noisy |" in Path("out/table.md").read_text()
    assert TinyCloning.load(f"agents/cloning/{NAME}.zip").num_timesteps == 8


def test_it_has_ablations(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[str] = []
    monkeypatch.setattr("zoo.benchmarking.grid.run_side_by_side", lambda some, *_: jobs.extend(map(str, some)))
    options = [*COMMON, *DATA, "--seeds", "1", "--out", "out", "--no-report", "--ablation"]
    assert benchmark.main(options) == 0
    assert len(jobs) == 2 and "'--variant', 'narrow', 'policy_kwargs.width:2'" in jobs[1]


def test_it_is_searched() -> None:
    options = [*COMMON, *DATA, "-n", "4", "--n-evaluations", "2", "--eval-episodes", "2", "--n-trials", "2"]
    assert optimize.main([*options, "--study-name", "s", "--verbose", "0"]) == 0
    entry = yaml.safe_load(Path("logs/cloning/optuna/s.yml").read_text())[ENV]
    assert entry["n_timesteps"] == 4 and entry["policy_kwargs"]["width"] in (4, 8)
    assert 0.5 <= entry["goals"]["discount"] <= 0.95 and entry["goals"]["actor"] == {"future_uniform": 1.0}
    assert entry["learning_rate"].startswith("lin_0.00")
    load_hyperparams(ENV, conf_file="logs/cloning/optuna/s.yml", algo="cloning")
