"""The six other algorithms through the commands of the zoo, alone and on ProQ's keypoints."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_goal import ENV, NAME, TinyGoalEnv, tiny_model

from proq_agent.common.archive import CheckpointError
from proq_agent.planning.navigator import Navigator
from zoo import benchmark, enjoy, optimize, plots, train
from zoo.benchmarking.grid import Grid
from zoo.benchmarking.identity import agent_digest
from zoo.benchmarking.results import read_results
from zoo.config import load_hyperparams
from zoo.registry import ALGOS, algorithm
from zoo.runs.agents import load_map

RIVALS = [name for name in ALGOS if name != "proq"]
DATA = ("--dataset-path", "data.npz", "--device", "cpu", "--verbose", "0")
SMALL = ("-params", "batch_size:16", "policy_kwargs.hidden_sizes:[16]", "policy_kwargs.n_fourier_features:4")


@pytest.fixture
def map_file(workplace: Path) -> str:
    tiny_model(action_space=TinyGoalEnv.action_space).save("map.zip")
    return "map.zip"


def trained(algo: str, *more: str) -> str:
    command = ["--algo", algo, "--env", ENV, *DATA, "-n", "6", "--eval-episodes", "2", *more, *SMALL]
    assert train.main(command) == 0
    return f"logs/{algo}/{NAME}_1/{NAME}.zip"


@pytest.mark.parametrize("algo", RIVALS)
def test_a_rival_trains_and_acts_alone_and_on_keypoints(algo, map_file, capsys, monkeypatch):
    agent = algorithm(algo).load(trained(algo))
    assert agent.num_timesteps == 6 and agent.policy.standardise and agent.acting_std == 0.3
    decisions: list[int] = []
    decide = Navigator.decide
    monkeypatch.setattr(Navigator, "decide", lambda *args: decisions.append(1) or decide(*args))
    outputs, planned = [], []
    for more in ([], ["--keypoints", map_file], ["--keypoints", map_file]):
        assert enjoy.main(["--algo", algo, "--env", ENV, "--n-episodes", "4", *more]) == 0
        outputs.append(capsys.readouterr().out)
        planned.append(len(decisions))
        assert outputs[-1].count("episode") == 4
    assert outputs[1] == outputs[2] and planned[0] == 0 and planned[2] == 2 * planned[1] >= 4


def test_a_rival_resumes_is_searched_and_is_drawn_but_for_a_map(workplace, capsys):
    common = ["--algo", "gcbc", "--env", ENV]
    whole = trained("gcbc", "--save-freq", "3")
    assert (
        train.main([*common, *DATA, "--eval-episodes", "2", "-i", str(Path(whole).parent / "rl_model_3_steps.zip")])
        == 0
    )
    resumed = f"logs/gcbc/{NAME}_2/{NAME}.zip"
    assert agent_digest(algorithm("gcbc").load(resumed)) == agent_digest(algorithm("gcbc").load(whole))

    options = [*common, *DATA, "-n", "4", "--n-evaluations", "2", "--eval-episodes", "1", "--n-trials", "2"]
    assert optimize.main([*options, "--study-name", "s", *SMALL]) == 0
    found, n_timesteps = load_hyperparams(ENV, conf_file="logs/gcbc/optuna/s.yml", algo="gcbc")
    assert n_timesteps == 4 and found["batch_size"] == 16 and found["policy_kwargs"]["fourier_scale"] > 0

    assert plots.main(["curves", *common, "--metric", "train/actor/mse", "--out", "curves.png"]) == 0
    assert Path("curves.png").stat().st_size > 1000
    capsys.readouterr()
    ends = ["--start", "0", "0", "--goal", "1", "1"]
    for figure in (["map"], ["compare"], ["distance", *ends[3:]], ["plan", *ends]):
        assert plots.main([*figure, *common, "--out", "none.png"]) == 1 and not Path("none.png").exists()
        assert capsys.readouterr().err == "python -m zoo.plots: error: GCBC learns no map: there is nothing to draw\n"


def test_what_is_drawn_is_the_map_that_is_followed(map_file, capsys):
    trained("gcbc")
    command = ["--algo", "gcbc", "--env", ENV, "--n-episodes", "1", "--keypoints", map_file]
    assert enjoy.main([*command, "--video", "film.gif"]) == 0  # without a map there would be nothing to film
    assert Path("film.gif").stat().st_size > 1000


def test_a_row_of_the_table_for_each_alone_and_on_keypoints(map_file):
    options = ["--algo", "gcbc", "gcivl", "--env", ENV, "-n", "6", "--episodes", "2", "--seeds", "1", "--out", "out"]
    command = [*options, *DATA, "--jobs", "2", *SMALL]
    assert benchmark.main(command) == 0
    assert benchmark.main([*command, "--keypoints", map_file]) == 0
    table = Path("out/table.md").read_text()
    for algo in ("gcbc", "gcivl"):
        alone, followed = (
            read_results(Path(f"out/{algo}/runs/{NAME}_{variant}_1.csv"))[0] for variant in ("default", "keypoints")
        )
        assert alone.settings != followed.settings and f"--keypoints {map_file}" in followed.command
        assert f"| {ENV} | {algo} | keypoints |" in table
        assert len(list(Path("logs/benchmark").glob(f"*/{algo}/*"))) == 1  # they share a training


def test_results_on_another_map_are_others(map_file):
    grids = []
    options = ["--algo", "gcbc", "--env", ENV, "--seeds", "1", *DATA, "--keypoints", map_file, *SMALL]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Grid, "execute", lambda grid, *_, **__: grids.append(grid))
        assert benchmark.main([*options, "--no-report"]) == 0
    (before,) = grids[0].runs()
    assert before.variant == "keypoints" and before.settings == grids[0].runs()[0].settings
    tiny_model(seed=1, action_space=TinyGoalEnv.action_space).save(map_file)
    (after,) = grids[0].runs()
    assert after.settings != before.settings and after.training == before.training


def test_a_digest_is_of_how_an_agent_acts():
    one, same, other = (tiny_model(seed=seed) for seed in (0, 0, 1))
    assert agent_digest(one) == agent_digest(same) != agent_digest(other)
    one.set_planning(max_hop=7.0)
    assert agent_digest(one) != agent_digest(same)


def test_the_shipped_map_is_followed_where_no_file_is_given():
    assert load_map("pointmaze-medium-navigate-v0", "", "cpu").num_timesteps > 0


def test_what_cannot_be_followed_is_said_in_a_line(map_file, capsys):
    trained("gcbc")
    for keypoints, message in (("", "comes with the package; give --keypoints FILE"), ("none.zip", "none.zip")):
        assert enjoy.main(["--algo", "gcbc", "--env", ENV, "--keypoints", keypoints]) == 1
        error = capsys.readouterr().err
        assert message in error and len(error.splitlines()) == 1
    with pytest.raises(CheckpointError, match="holds a 'GCBC' agent, not ProQ"):
        load_map(ENV, f"logs/gcbc/{NAME}_1/{NAME}.zip")


def test_an_agent_of_another_algorithm_and_an_unknown_one_are_refused_in_a_line(map_file, capsys):
    assert enjoy.main(["--algo", "qrl", "--env", ENV, "--agent", map_file]) == 1
    error = capsys.readouterr().err
    assert "holds a 'ProQ' agent, not QRL" in error and len(error.splitlines()) == 1
    with pytest.raises(SystemExit):
        train.main(["--algo", "sac", "--env", ENV])
    assert "invalid choice: 'sac'" in capsys.readouterr().err
