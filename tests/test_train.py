"""python -m zoo.train: what it leaves behind, exact resumption, interruption, and what bad input says."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
import yaml
from tiny_goal import ENV, NAME, TINY_PARAMS, TinyGoalEnv, tiny_model

import zoo
from proq_agent import ProQ
from proq_agent.common.evaluation import evaluate_both, evaluate_tasks
from zoo.runs.folder import create_run, describe_machine, find_run, git_commit
from zoo.train import build_parser, main, resume_command

SHIPPED = Path(zoo.__file__).parent / "agents" / "proq" / "pointmaze-giant-navigate-v0.zip"


# Nine lists of nine of the list before, a billion in all.
LAUGHS = "[" + ", ".join(f"&a{n} [{', '.join(['x' if not n else f'*a{n - 1}'] * 9)}]" for n in range(9)) + "]"


def command(*more: Any, resume: Any = None) -> list[str]:
    how = ["-i", resume] if resume else ["-params", *TINY_PARAMS]
    options = ["--env", ENV, "--dataset-path", "data.npz", "--eval-episodes", 2, "--device", "cpu", *more, *how]
    return [str(option) for option in options]


def run_folders() -> list[Path]:
    return sorted(Path("logs/proq").iterdir()) if Path("logs/proq").is_dir() else []


def test_a_run_leaves_agent_logs_and_record(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command("-n", 12, "--eval-freq", 3, "--save-freq", 5, "--log-interval", 3, "--seed", 7)) == 0
    folder = find_run(Path("logs"), "proq", ENV)
    assert folder.path == Path(f"logs/proq/{NAME}_1")
    files = {str(path.relative_to(folder.path)) for path in folder.path.rglob("*") if path.is_file()}
    assert {file for file in files if not file.startswith("tensorboard/")} == {
        f"{NAME}.zip", "best_model.zip", "rl_model_5_steps.zip", "rl_model_10_steps.zip", "evaluations.npz",
        "0.monitor.csv", "progress.csv", "map.png", "diagnosis.png",
        f"{NAME}/config.yml", f"{NAME}/args.yml", f"{NAME}/command.txt",
    }  # fmt: skip
    assert any(file.startswith("tensorboard/events") for file in files)

    config = folder.read_config()
    assert (config["env"], config["seed"]) == (ENV, 7)
    assert config["hyperparams"]["n_timesteps"] == 12
    assert config["hyperparams"]["learning_rate"] == "lin_0.001_5e-05"
    assert config["hyperparams"]["policy_kwargs"]["hidden_sizes"] == [16]
    assert config["hyperparams"]["distance"]["close_margin"] == 0.25  # a default of the constructor
    assert config["dataset"]["source"] == "file" and len(config["dataset"]["sha256"]) == 64
    assert config["versions"]["torch"] == th.__version__
    assert {"git_commit", "machine"} <= set(config)
    assert config["training"]["updates"] == 12
    assert "--eval-freq 3" in folder.config.with_name("command.txt").read_text()
    assert yaml.safe_load(folder.config.with_name("args.yml").read_text())["save_freq"] == 5

    model = ProQ.load(folder.agent)
    assert (model.num_timesteps, model.seed) == (12, 7)
    for name, deterministic in (("sampled", False), ("deterministic", True)):
        results = evaluate_tasks(model, TinyGoalEnv, [0], 2, deterministic=deterministic, seed=7)
        assert config["results"][name]["all"] == results.success_rate

    with open(folder.progress) as file:
        rows = list(csv.DictReader(file))
    assert [row["time/total_timesteps"] for row in rows if row["train/n_updates"]] == ["3", "6", "9", "12"]
    assert [row["time/total_timesteps"] for row in rows if row["eval/success_rate"]] == ["3", "6", "9", "12"]
    shown = capsys.readouterr().out
    logged = [line for line in shown.splitlines() if re.match(r"\d+ updates \(", line)]
    assert [line.split()[0] for line in logged] == ["3", "6", "9", "12"] and "train/" not in shown  # a line an entry
    for text in ("keypoints.n", "deterministic", "sampled", str(folder.agent), str(folder.map)):
        assert text in shown
    for chosen in (
        "were decided by chance",
        "from the data: half the world is crossed",
        "from the data: hops of up to",
    ):
        assert shown.count(chosen) == 1, chosen


def test_evaluations_begin_with_the_actor_unless_their_frequency_is_given(workplace: Path) -> None:
    assert main(command("-n", 20, "--verbose", 0)) == 0
    with np.load(find_run(Path("logs"), "proq", ENV).evaluations) as file:
        assert file["timesteps"].tolist() == [14, 16, 18, 20]  # it learns from update 12 on


@pytest.mark.parametrize(("given", "expected"), [((), (5, 50)), (("--eval-episodes", "7"), (7, 7))])
def test_the_number_of_episodes_holds_while_training_and_at_the_end(
    workplace: Path, given: tuple[str, ...], expected: tuple[int, int]
) -> None:
    options = ["--env", ENV, "--dataset-path", "data.npz", "-n", "2", "--verbose", "0", *given]
    assert main([*options, "-params", *TINY_PARAMS]) == 0
    folder = find_run(Path("logs"), "proq", ENV)
    with np.load(folder.evaluations) as file:
        assert (file["successes"].shape[1], folder.read_config()["results"]["episodes"]) == expected


def test_evaluation_and_checkpoints_can_be_left_out(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command("-n", 2, "--eval-freq", -1, "--save-freq", -1, "--verbose", 0, "-uuid", "-tb", "board")) == 0
    (folder,) = run_folders()
    assert folder.name.startswith(f"{NAME}_1_") and len(folder.name) > len(NAME) + 30
    assert {path.name for path in folder.iterdir()} == {f"{NAME}.zip", "progress.csv", "map.png", "diagnosis.png", NAME}
    assert (Path("board") / folder.name).is_dir()
    shown = capsys.readouterr()
    assert "decided by chance" in shown.out and (shown.out.count("\n"), shown.err) == (1, "")  # that is always told


def assert_same_agent(a: Path, b: Path) -> None:
    first, second = ProQ.load(a), ProQ.load(b)
    for name, tensor in first.policy.state_dict().items():
        assert th.equal(tensor, second.policy.state_dict()[name]), name
    assert th.equal(first.generator.get_state(), second.generator.get_state())  # type: ignore[union-attr]


def test_a_resumed_run_equals_an_uninterrupted_one(workplace: Path) -> None:
    assert main(command("-n", 10, "--save-freq", 4, "--eval-freq", -1, "--verbose", 0)) == 0
    first = find_run(Path("logs"), "proq", ENV, 1)
    resume = command("--eval-freq", -1, "--save-freq", -1, "--verbose", 0, resume=first.checkpoint(4))
    assert main(resume) == 0
    second = find_run(Path("logs"), "proq", ENV, 2)
    assert_same_agent(first.agent, second.agent)
    assert second.read_config()["training"]["updates"] == 6
    assert second.read_config()["resumed_from"] == str(first.checkpoint(4))
    assert second.read_config()["hyperparams"] == first.read_config()["hyperparams"]


def test_a_resumed_run_keeps_the_seed_and_says_what_it_changes(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = ("--eval-freq", -1, "--save-freq", -1, "--verbose", 0)
    assert main(command("-n", 3, "--seed", 7, *quiet)) == 0
    assert main(command("-n", 4, *quiet, resume=run_folders()[0] / NAME)) == 0
    assert "begun for 3 updates; the schedules are stretched to 4" in capsys.readouterr().err
    config = find_run(Path("logs"), "proq", ENV, 2).read_config()
    assert config["seed"] == config["results"]["seed"] == 7


def test_an_agent_to_act_with_is_not_resumed(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny_model(action_space=TinyGoalEnv.action_space).learn(2, log_interval=None)
    model.save("whole.zip")
    model.save("small.zip", exclude=["training"])
    assert not model.training_restored and ProQ.load("whole.zip").training_restored
    assert main(command("-n", 4, resume="small.zip")) == 1
    assert "small.zip is only good to act with" in capsys.readouterr().err
    assert run_folders() == []
    assert main(command("-n", 4, "--eval-freq", -1, "--verbose", 0, resume="whole.zip")) == 0


def test_a_finished_agent_is_evaluated_or_goes_on_with_more_updates(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = ("--eval-freq", -1, "--save-freq", -1, "--verbose", 0)
    assert main(command("-n", 3, *quiet)) == 0
    agent = run_folders()[0] / NAME  # .zip may be left out
    assert main(command(*quiet, "-n", 2, resume=agent)) == 1
    assert "has had 3 of 2 updates; give a larger -n" in capsys.readouterr().err
    assert main(command(*quiet, resume=agent)) == 0
    first, second = (find_run(Path("logs"), "proq", ENV, k) for k in (1, 2))
    assert second.read_config()["results"] == first.read_config()["results"] and second.map.is_file()
    assert_same_agent(first.agent, second.agent)
    assert main(command(*quiet, "-n", 5, resume=agent)) == 0
    assert ProQ.load(run_folders()[2] / NAME).num_timesteps == 5


def test_a_signal_in_the_last_evaluation_ends_the_run_and_the_report_is_made_later(
    workplace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return evaluate_both(*args, **kwargs)

    monkeypatch.setattr("proq_agent.common.callbacks.evaluate_both", interrupted)
    assert main(command("-n", 4, "--eval-freq", 4)) == 130
    *_, said, resume = capsys.readouterr().out.splitlines()
    assert said == "saved after 4 of 4 updates; to resume:"
    assert not find_run(Path("logs"), "proq", ENV).map.exists()
    assert main(resume.split()[3:]) == 0
    assert f"Success on {ENV}\n" in capsys.readouterr().out
    assert find_run(Path("logs"), "proq", ENV, 2).map.is_file()


def test_the_command_that_resumes_has_all_options() -> None:
    given = ["-n", 9, "--seed", 3, "--eval-freq", -1, "-tb", "a board", "-uuid", "--no-progress", "--verbose", 0]
    given += ["--track", "--wandb-project-name", "p", "--wandb-entity", "e", "-tags", "a", "b"]
    before = build_parser().parse_args(command(*given))
    program = resume_command(before, Path("logs/proq/x_1/x.zip"))
    after = build_parser().parse_args(program[3:])
    assert after.trained_agent == Path("logs/proq/x_1/x.zip")
    assert vars(after) == vars(before) | {"trained_agent": after.trained_agent, "hyperparams": [], "n_timesteps": None}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_process_saves_and_says_how_to_resume(workplace: Path, number: int) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    options = command("-n", 100_000, "--eval-freq", -1, "--save-freq", -1, "--log-interval", 5)
    process = subprocess.Popen(
        [sys.executable, "-m", "zoo.train", *options],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    progress = Path(f"logs/proq/{NAME}_1/progress.csv")
    for _ in range(1200):
        if process.poll() is not None or (progress.is_file() and progress.stat().st_size):
            break
        time.sleep(0.1)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    resume = out.splitlines()[-1].split()
    assert resume[:3] == ["python", "-m", "zoo.train"]
    agent = ProQ.load(find_run(Path("logs"), "proq", ENV).agent)
    assert agent.num_timesteps == agent._n_updates > 0
    parsed = build_parser().parse_args(resume[3:])
    assert (parsed.env, parsed.eval_freq, parsed.dataset_path) == (ENV, -1, Path("data.npz"))
    assert main([*resume[3:], "-n", str(agent.num_timesteps + 2), "--verbose", "0"]) == 0


def test_a_training_that_fails_before_it_has_an_agent_leaves_no_folder(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = command("-n", 20, "--eval-freq", -1, "--save-freq", 2)
    assert main([*options, "learning_rate:1.0e+30"]) == 1
    error = capsys.readouterr().err
    assert "in update" in error and "diverged" in error and "learning_rate" in error and "Traceback" not in error
    assert not list(Path("logs").rglob("*.*"))


def test_what_a_killed_training_left_is_cleaned_up_by_the_next(workplace: Path) -> None:
    quiet = ("-n", 2, "--eval-freq", -1, "--eval-episodes", 1, "--verbose", 0)
    assert main(command(*quiet)) == 0
    first = find_run(Path("logs"), "proq", ENV)
    for folder in (first.path, first.config.parent):
        (folder / ".agent.zip.123-abcd.tmp").touch()
    assert main(command(*quiet)) == 0
    assert not list(Path("logs").rglob("*.tmp"))


def test_an_agent_that_is_not_there_is_named_as_it_was_given(
    workplace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("missing.zip", "missing"):
        assert main(command(resume=Path(name))) == 1
        assert capsys.readouterr().err.endswith(f"there is no agent {name}\n")


@pytest.mark.slow
def test_the_command_line_as_a_process(workplace: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    options = command("-n", 4, "-P")
    done = subprocess.run(
        [sys.executable, "-m", "zoo.train", *options], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "4/4" in done.stderr and "Success on" in done.stdout


@pytest.mark.slow
def test_tracking_offline(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    options = command("-n", 4, "--eval-freq", 2, "--track", "--wandb-project-name", "tests", "-tags", "a", "b")
    assert main(options) == 0
    (run,) = run_folders()[0].glob("wandb/offline-run-*")
    (record,) = run.glob("*.wandb")
    for key in (b"eval/success_rate_deterministic", b"train/loss", b"keypoints"):
        assert _appears(key, record), key
    (picture,) = run.glob("files/media/images/map_*.png")
    assert picture.read_bytes() == (run_folders()[0] / "map.png").read_bytes()
    (table,) = run.glob("files/media/table/results_*.table.json")
    assert json.loads(table.read_text())["columns"] == ["task", "sampled", "deterministic"]


def test_without_wandb_the_remedy_is_named(
    workplace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(command("-n", 2, "--track")) == 1
    assert "pip install wandb" in capsys.readouterr().err
    assert run_folders() == []


@pytest.mark.slow
def test_without_a_login_there_is_no_run(workplace: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    done = subprocess.run(
        [sys.executable, "-m", "zoo.train", *command("-n", 2, "--track")],
        env=environment | {"HOME": str(workplace)}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    assert "WANDB_MODE=offline" in done.stderr and "Traceback" not in done.stderr
    assert run_folders() == []


@pytest.mark.slow
@pytest.mark.parametrize(("size", "file"), [(0, "command.txt"), (1000, "config.yml")])
def test_a_full_disk_is_one_line_and_leaves_no_run(workplace: Path, size: int, file: str) -> None:
    """A limit on the size of files stands for the disk."""
    full = f"import resource, runpy; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}));"
    full += "runpy.run_module('zoo.train', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", full, *command("-n", 2)], capture_output=True, text=True, timeout=300
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and f"{NAME}_1/{NAME}/{file}" in done.stderr
    assert run_folders() == []


def _appears(key: bytes, file: Path, seconds: float = 60.0) -> bool:
    """wandb writes in a process of its own, which may be a little behind."""
    end = time.monotonic() + seconds
    while key not in file.read_bytes():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--env", "pointmaze-gaint-stitch-v0"], "pointmaze-giant-stitch-v0"),
        (["--dataset-path", "none.npz"], "no dataset file none.npz"),
        (["-n", "0"], "--n-timesteps must be at least 1, got 0"),
        (["--eval-freq", "0"], "--eval-freq must be at least 1, or -1"),
        (["--eval-episodes", "0"], "--eval-episodes must be at least 1"),
        (["--num-threads", "0"], "--num-threads must be at least 1"),
        (["--device", "cuda:77"], "--device cuda:77 is not available here"),
        (["-f", "data.npz", "--dataset-path", "none.npz"], "cannot write to data.npz"),  # before the data are read
        (["-tb", "data.npz/board"], "cannot write to data.npz/board"),
        (["-conf", "none.yml"], "no hyperparameter file none.yml"),
        (["-i", "none.zip"], "there is no agent none.zip"),
        (["-i", "."], "there is no agent ."),
        (["-i", "data.npz"], "data.npz"),
        (["-i", "x.zip", "-params", "batch_size:3"], "leave out -params"),
        (["-params", "bach_size:3"], "did you mean batch_size?"),
        (
            ["-params", "planning.max_hop:-1", "--dataset-path", "none.npz"],
            "max_hop must be positive, or None",
        ),
        (["-params", "batch_size:1"], "at least 2, got 1"),
        (["-params", "batch_size:1000000000000"], "batch_size must be a whole number, at most"),
        (["-params", "policy_kwargs.hidden_sizes:[-3]"], "hidden layers must be at least 1 wide, got [-3]"),
        # Less than a machine has, and more than is left when it is used.
        (["-params", "policy_kwargs.hidden_sizes:[100000000]"], "numbers, more than 268435456: choose smaller sizes"),
        (["-params", "policy_kwargs.n_fourier_features:100000000"], "numbers, more than 268435456"),
        (["-params", "policy_kwargs.hidden_sizes:[1000000000000]"], "numbers, more than 268435456"),
        (["-params", "keypoints.n:1000000000"], "n must be 1 to 1048576, or None, got 1000000000"),
        (["-params", "policy_kwargs.latent_dim:1000000000000000000000"], "Overflow when unpacking long long\n"),
        (["-params", "policy_kwargs.fourier_scale:.nan", "policy_kwargs.n_fourier_features:4"], "Fourier"),
        (["-params", "learning_rate:.inf"], "learning_rate must be positive and finite"),
        (["-params", 'keypoints.barrier:!!bool "x"'], "keypoints.barrier"),
        (["-params", "batch_size:" + "[" * 3000], "is not valid YAML"),
        (["-params", "batch_size:!!python/object/apply:os.system [touch x]"], "is not valid YAML"),
        (["-params", "policy_kwargs.hidden_sizes:" + LAUGHS], "more than 20000 values"),
        (["-n", "9" * 40], "--n-timesteps must be at most"),
        (["-params", "n_timesteps:" + "9" * 40], "--n-timesteps must be at most"),
        (["--seed", "9" * 40], "seed must be a whole number"),
        (["--eval-episodes", "1000000000"], "--eval-episodes must be at most"),
        (["--num-threads", "1000000"], "--num-threads must be at most"),
        (["--device", "meta"], "--device meta is not available here (it holds no numbers)"),
        (["--device", "nonsense"], "--device nonsense is not available here"),
    ],
)
def test_bad_input_is_one_clear_line_and_leaves_nothing(
    workplace: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["--env", ENV, "--dataset-path", "data.npz", *options]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("python -m zoo.train: error:") and error.count("\n") == 1
    assert [path.name for path in workplace.iterdir()] == ["data.npz"]


@pytest.mark.parametrize("text", ["", "- 1\n", "a: [\n"])
def test_a_damaged_record_beside_an_agent_is_named(
    workplace: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    agent = Path("agent.zip")
    tiny_model(action_space=TinyGoalEnv.action_space).save(agent)
    Path("x").mkdir()
    Path("x/config.yml").write_text(text)
    assert main(command("-n", 2, resume=agent)) == 1
    error = capsys.readouterr().err
    assert "x/config.yml is damaged" in error and error.count("\n") == 1


@pytest.mark.slow
def test_an_unknown_environment_is_one_line_of_a_process(workplace: Path) -> None:
    options = ["--env", "pointmaze-gaint-stitch-v0"]
    done = subprocess.run([sys.executable, "-m", "zoo.train", *options], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "did you mean pointmaze-giant-stitch-v0" in done.stderr
    assert "pip install" not in done.stderr and "[" not in done.stderr  # it is installed; no list of Python's


def test_verbose_2_shows_the_traceback(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command("-n", 0, "--verbose", 2)) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_agent_from_another_environment_is_refused(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command("-n", 1, "--eval-freq", -1, "--save-freq", -1, "--verbose", 0)) == 0
    agent = run_folders()[0] / f"{NAME}.zip"
    options = ["--env", "pointmaze-medium-v0", "--dataset-path", "data.npz", "-i"]
    assert main([*options, str(agent)]) == 1
    assert f"was trained on {ENV}, not on pointmaze-medium-v0" in capsys.readouterr().err
    assert main([*options, str(SHIPPED)]) == 1
    assert "was trained on pointmaze-giant-navigate-v0, not on pointmaze-medium-v0" in capsys.readouterr().err
    stray = workplace / "stray.zip"  # away from its folder only the spaces can tell
    stray.write_bytes(agent.read_bytes())
    assert main(["--env", "antmaze-medium-v0", *options[2:], str(stray)]) == 1
    assert "observation_space differs" in capsys.readouterr().err
    assert len(run_folders()) == 1


def test_runs_are_numbered_and_found(tmp_path: Path) -> None:
    first, second = (create_run(tmp_path, "proq", "a-v0") for _ in range(2))
    other = create_run(tmp_path, "proq", "a-v0_2")
    assert [run.path.name for run in (first, second, other)] == ["a-v0_1", "a-v0_2", "a-v0_2_1"]
    assert find_run(tmp_path, "proq", "a-v0").path == second.path
    assert find_run(tmp_path, "proq", "a-v0", 1).path == first.path
    with pytest.raises(ValueError, match=r"no run 9 of a-v0 .*there are 1, 2"):
        find_run(tmp_path, "proq", "a-v0", 9)
    with pytest.raises(ValueError, match=r"no run .*train one"):
        find_run(tmp_path, "proq", "b-v0")


def test_runs_of_the_same_number_are_not_mixed_up(tmp_path: Path) -> None:
    ids = [f"{k}2345678-1234-1234-1234-123456789abc" for k in (1, 2)]
    for name in (f"a-v0_1_{ids[0]}", f"a-v0_2_{ids[0]}", f"a-v0_2_{ids[1]}"):
        (tmp_path / "proq" / name).mkdir(parents=True)
    assert find_run(tmp_path, "proq", "a-v0", 1).path.name == f"a-v0_1_{ids[0]}"
    for number in (0, 2):
        with pytest.raises(ValueError, match=f"run 2 of a-v0 may be any of a-v0_2_{ids[0]}, a-v0_2_{ids[1]}"):
            find_run(tmp_path, "proq", "a-v0", number)
    assert create_run(tmp_path, "proq", "a-v0").path.name == "a-v0_3"


def test_the_commit_is_not_that_of_a_repository_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    for place, known in ((tmp_path, True), (tmp_path / "site-packages", False)):
        (place / "zoo" / "runs").mkdir(parents=True)
        monkeypatch.setattr("zoo.runs.folder.__file__", str(place / "zoo" / "runs" / "folder.py"))
        assert (describe_machine("cpu")["git_commit"] is not None) == known


def test_results_that_a_benchmark_writes_do_not_make_its_code_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("results", "runs"):
        (tmp_path / "zoo" / folder).mkdir(parents=True)
    table, code = tmp_path / "zoo" / "results" / "table.md", tmp_path / "zoo" / "runs" / "folder.py"
    for file in (table, code):
        file.write_text("before")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    for command in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "x")):
        subprocess.run([*git, *command], check=True)
    monkeypatch.setattr("zoo.runs.folder.__file__", str(code))
    clean = git_commit()
    table.write_text("after")
    assert git_commit() == clean and clean is not None and "dirty" not in clean
    code.write_text("after")
    assert git_commit() == f"{clean}-dirty"
