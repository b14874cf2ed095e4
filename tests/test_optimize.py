"""python -m zoo.optimize: the search, what it shares, and the entry that it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import optuna
import pytest
from stable_baselines3.common.utils import LinearSchedule
from tiny_goal import ENV, TINY_PARAMS

from zoo.config import load_hyperparams, to_plain
from zoo.optimize import main


def command(*more: Any) -> list[str]:
    options = ["--env", ENV, "--dataset-path", "data.npz", "-n", 4, "--n-evaluations", 2, "--eval-episodes", 2]
    options += ["--device", "cpu", "--study-name", "s", *more, "-params", *TINY_PARAMS]
    return [str(option) for option in options]


def study() -> optuna.Study:
    backend = optuna.storages.journal.JournalFileBackend("logs/proq/optuna/s.journal")
    return optuna.load_study(study_name="s", storage=optuna.storages.JournalStorage(backend))


def test_a_study_goes_on_and_its_best_entry_can_be_used(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command("--n-trials", 2, "--seed", 0)) == 0
    assert main(command("--n-trials", 1, "--sampler", "random", "--pruner", "none")) == 0
    trials = study().trials
    assert [trial.user_attrs["seed"] for trial in trials] == [1, 2, 3]
    # The actor begins to learn at 2: before, there would be nothing to compare.
    assert all(set(trial.intermediate_values) <= {3, 4} for trial in trials)
    assert set(study().best_trial.intermediate_values) == {3, 4}
    best = study().best_trial
    assert best.value == best.intermediate_values[4]

    text = Path("logs/proq/optuna/s.yml").read_text()
    assert text in capsys.readouterr().out and "zoo.optimize --env" in text
    hyperparams, n_timesteps = load_hyperparams(ENV, conf_file="logs/proq/optuna/s.yml")
    assert n_timesteps == 4
    assert isinstance(hyperparams["learning_rate"], LinearSchedule)
    assert to_plain(hyperparams) | {"n_timesteps": 4} == best.user_attrs["entry"]
    assert hyperparams["batch_size"] == 16 and hyperparams["policy_kwargs"]["hidden_sizes"] == [16]
    assert float(f"{best.params['planning.max_hop']:.3g}") == hyperparams["planning"]["max_hop"]


def test_a_trial_that_lags_behind_is_pruned(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(command("--n-trials", 1, "--verbose", 0)) == 0
    # One finished trial is enough to compare with; nothing is better than a rate of one everywhere.
    perfect = optuna.trial.create_trial(
        value=1.0,
        params=study().trials[0].params,
        distributions=study().trials[0].distributions,
        intermediate_values={3: 1.1, 4: 1.1},
        user_attrs=study().trials[0].user_attrs,
    )
    for _ in range(2):
        study().add_trial(perfect)
    assert main(command("--n-trials", 1, "--n-startup-trials", 1, "--verbose", 0)) == 0
    last = study().trials[-1]
    assert last.state == optuna.trial.TrialState.PRUNED
    assert list(last.intermediate_values) == [3]


def test_what_a_lost_machine_had_begun_has_failed(workplace: Path) -> None:
    assert main(command("--n-trials", 1, "--verbose", 0)) == 0
    for job in ("mine", "another"):
        trial = study().ask()
        trial.set_user_attr("job", job)
    assert main(command("--n-trials", 1, "--verbose", 0, "--job", "mine")) == 0
    assert [trial.state.name for trial in study().trials] == ["COMPLETE", "FAIL", "RUNNING", "COMPLETE"]


@pytest.mark.slow
def test_processes_share_a_study(workplace: Path) -> None:
    options = [sys.executable, "-m", "zoo.optimize", *command("--n-trials", 2)]
    processes = [subprocess.Popen(options, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    trials = study().trials
    assert [trial.number for trial in trials] == [0, 1, 2, 3]
    assert sorted(trial.user_attrs["seed"] for trial in trials) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--env", "pointmaze-gaint-stitch-v0"], "pointmaze-giant-stitch-v0"),
        (["--n-trials", "0"], "--n-trials must be at least 1"),
        (["--dataset-path", "none.npz"], "no dataset file none.npz"),
        (["-params", "bach_size:3"], "did you mean batch_size?"),
    ],
)
def test_bad_input_is_one_clear_line(
    workplace: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["--env", ENV, "--dataset-path", "data.npz", *options]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("python -m zoo.optimize: error:") and error.count("\n") == 1
    assert [path.name for path in workplace.iterdir()] == ["data.npz"]


def test_without_optuna_the_remedy_is_named(
    workplace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert main(command()) == 1
    assert "pip install optuna" in capsys.readouterr().err
