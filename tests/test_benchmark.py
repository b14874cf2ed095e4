"""python -m zoo.benchmark: grids, what is skipped, interruption, and what bad input says."""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_goal import ENV, NAME, TINY_PARAMS, tiny_arrays

from proq_agent import ProQ
from zoo.benchmark import EVERYWHERE, THIS_MACHINE, main
from zoo.benchmarking.grid import Grid
from zoo.benchmarking.results import read_results, write_results
from zoo.benchmarking.run import BenchmarkRun
from zoo.cli import add_dataset_arguments
from zoo.data.catalogue import POINTMAZE_IDS
from zoo.runs.folder import RunFolder


def command(*more: Any, seeds: tuple[int, ...] = (1,), n: int = 6, params: tuple[str, ...] = TINY_PARAMS) -> list[str]:
    options = ["--env", ENV, "--dataset-path", "data.npz", "-n", n, "--episodes", 3, "--out", "out", "--device", "cpu"]
    return [str(option) for option in [*options, "--seeds", *seeds, *more, "-params", *params]]


def grid_of(options: list[str]) -> Grid:
    """The grid that a command line means."""
    grids: list[Grid] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Grid, "execute", lambda grid, *_, **__: grids.append(grid))
        assert main([*options, "--no-report"]) == 0
    return grids[0]


def one_run(*more: Any) -> BenchmarkRun:
    (run,) = grid_of(command("--verbose", 0, *more)).runs()
    return run


def csv_of(seed: int, variant: str = "default") -> Path:
    return Path(f"out/proq/runs/{NAME}_{variant}_{seed}.csv")


def test_a_run_is_recorded_and_rendered(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command("--export-agents", "agents")) == 0
    (row,) = read_results(csv_of(1))
    assert (row.dataset, row.variant, row.seed, row.task, row.episodes) == (ENV, "default", 1, 0, 3)
    assert row.n_updates == 6 and row.train_seconds > 0
    assert 0 <= row.success_sampled <= 1 and 1 <= row.steps_deterministic <= 6
    assert row.dataset_source == "file" and len(row.dataset_sha256 or "") == 64
    assert "torch=" in row.versions and row.cpu and row.cores >= 1 and row.jobs == 1
    assert row.keypoints_free is None  # no maze
    assert {path.name for path in Path("out").iterdir()} == {"proq", "table.md", "success.png", "success.pdf"}
    assert ENV in Path("out/table.md").read_text() and "sampled" in capsys.readouterr().out

    agent = ProQ.load(Path("agents/proq") / f"{NAME}.zip")
    assert (agent.num_timesteps, agent.seed) == (6, 1)
    (full,) = Path("logs/benchmark").glob(f"seed_1_*/proq/{NAME}_1/{NAME}.zip")
    assert (Path("agents/proq") / f"{NAME}.zip").stat().st_size < full.stat().st_size

    # The recorded command repeats the run.
    repeat = [*shlex.split(row.command)[3:], "--out", "again", "--device", "cpu", "-f", "elsewhere", "--verbose", "0"]
    assert main(repeat) == 0
    (again,) = read_results(Path("again/proq/runs") / csv_of(1).name)
    assert again.settings == row.settings and again.command == row.command
    assert (again.success_sampled, again.steps_sampled) == (row.success_sampled, row.steps_sampled)


def test_what_is_done_is_not_repeated(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command("--verbose", 0)) == 0
    before = csv_of(1).stat().st_mtime_ns
    assert main(command()) == 0
    assert csv_of(1).stat().st_mtime_ns == before

    assert main(command(params=(*TINY_PARAMS, "planning.max_hop:7.0"))) == 1  # other settings are another run
    assert "other settings" in capsys.readouterr().err
    assert csv_of(1).stat().st_mtime_ns == before

    csv_of(1).unlink()  # the agent is still there: it is evaluated again, not trained again
    assert main(command("--verbose", 0)) == 0
    assert len(list(Path("logs/benchmark").glob("*/proq/*"))) == 1


def test_an_edit_while_a_run_trains_does_not_change_what_it_is_taken_for(workplace: Path) -> None:
    conf = workplace / "conf.yml"
    conf.write_text("default: {n_timesteps: 5}\n")
    grid = grid_of(command("--verbose", 0, "-conf", conf))
    (one,) = grid.runs()
    assert not one.is_done()
    before = one.settings
    conf.write_text("default: {n_timesteps: 5, temperature: 7.0}\n")
    assert one.settings == before
    (other,) = grid.runs()
    assert other.settings != before
    one.execute()
    (folder,) = Path("logs/benchmark").glob("*/proq/*")
    assert RunFolder(folder, NAME).read_config()["hyperparams"]["temperature"] == 5.0  # the default, as it was then


def test_the_identity_of_a_run_covers_what_its_results_depend_on(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = one_run()
    assert one_run().settings == run.settings
    assert one_run("--episodes", 4).settings != run.settings and one_run("--episodes", 4).training == run.training
    acting = one_run("--variant", "a", "planning.reach:3.0")
    assert acting.settings != run.settings and acting.training == run.training
    # An actor that is given goals within a hop is another one where hops are longer.
    trained = [one_run("--variant", "a", "goals.actor.on_map:0.5", f"planning.max_hop:{hop}") for hop in (20.0, 30.0)]
    assert trained[0].training != trained[1].training
    for other in (one_run("--variant", "a", "temperature:3.0"), one_run("-n", 7), one_run("--seeds", 2)):
        assert other.settings != run.settings and other.training != run.training
    # A default that is spelt out is no other setting, and one that changes is.
    default = one_run("--variant", "a", "keypoints.repel_strength:100.0")
    assert default.settings == run.settings
    monkeypatch.setattr("zoo.benchmarking.run.code_version", lambda: "other")
    assert one_run().settings != run.settings and one_run().training != run.training


def test_a_stale_file_is_never_taken_for_done(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command("--verbose", 0, "--no-report")) == 0
    (row,) = read_results(csv_of(1))
    capsys.readouterr()

    np.savez(workplace / "data.npz", **tiny_arrays(seed=1))  # type: ignore[arg-type]
    assert main(command("--verbose", 0)) == 1
    assert "is of a run with other data" in capsys.readouterr().err
    csv_of(1).unlink()  # nor is the agent of the other data
    assert main(command("--verbose", 0, "--no-report")) == 0
    assert len(list(Path("logs/benchmark").glob("*/proq/*"))) == 2
    (again,) = read_results(csv_of(1))
    assert (again.settings, again.dataset_sha256 == row.dataset_sha256) == (row.settings, False)

    write_results(csv_of(1), [replace(again, settings="0123456789ab")])
    assert main(command("--verbose", 0)) == 1
    assert "other settings or by other code" in capsys.readouterr().err


def test_report_alone_renders(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--report", "--out", "out"]) == 1
    assert "no results in out" in capsys.readouterr().err
    assert main(command("--no-report", "--verbose", 0)) == 0
    assert [path.name for path in Path("out").iterdir()] == ["proq"]
    assert main(["--report", "--out", "out"]) == 0
    assert "paper: proq" in capsys.readouterr().out and Path("out/table.md").is_file()


@pytest.mark.slow
def test_a_grid_of_seeds_and_variants_side_by_side(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    variants = {"plain": (), "near": ("planning.max_hop:7.0",), "few": ("keypoints.n:4",)}
    of_variants = [part for name, overrides in variants.items() for part in ("--variant", name, *overrides)]
    options = command("--jobs", 2, *of_variants, seeds=(1, 2))
    assert main(options) == 0
    out = capsys.readouterr().out
    assert "6 runs, 0 of them done before" in out and "[6/6]" in out
    assert {path.name for path in Path("out/proq/runs").iterdir()} == {
        csv_of(seed, variant).name for seed in (1, 2) for variant in variants
    }
    assert read_results(csv_of(1, "near"))[0].jobs == 2

    # One training serves the variants that differ in how the agent acts, and each acts in its own way.
    assert len(list(Path("logs/benchmark").glob("*/proq/*"))) == 4
    runs = {run.variant: run for run in grid_of(options).runs() if run.experiment.seed == 1}
    dataset, _ = runs["plain"].data.load(ENV, progress=False)
    agents: dict[str, Any] = {name: run._load(run._latest(), dataset) for name, run in runs.items()}
    assert agents["near"].planning.max_hop == 7.0 and agents["plain"].planning.max_hop not in (None, 7.0)
    assert agents["few"].keypoints.n == 4 and agents["plain"].keypoints.n == 5


@pytest.mark.slow
def test_a_failed_run_is_reported_and_the_others_go_on(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    variants = ("--variant", "bad", "batch_size:1", "--variant", "good")
    assert main(command("--jobs", 1, *variants)) == 1
    error = capsys.readouterr().err
    assert "bad, seed 1 failed" in error and "at least 2, got 1" in error and "1 of 2 runs" in error
    assert csv_of(1, "good").is_file() and not csv_of(1, "bad").exists()


@pytest.mark.slow
def test_an_interrupted_grid_stops_its_runs_and_goes_on(workplace: Path) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and their children
    options = [sys.executable, "-m", "zoo.benchmark", *command("--jobs", 2, seeds=(1, 2, 3), n=700)]
    process = subprocess.Popen(options, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def progress() -> list[Path]:
        return [path for path in Path("logs/benchmark").glob("*/proq/*/progress.csv") if path.stat().st_size]

    for _ in range(3000):  # a busy machine may take minutes to start them
        if process.poll() is not None or len(progress()) == 2:
            break
        time.sleep(0.1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert len(children) == 2 and not any(Path(f"/proc/{child}").exists() for child in children)
    saved = list(Path("logs/benchmark").glob(f"*/proq/*/{NAME}.zip"))
    assert len(saved) == 2 and all(0 < ProQ.load(path).num_timesteps < 700 for path in saved)

    done = subprocess.run(options, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for seed in (1, 2, 3):
        (row,) = read_results(csv_of(seed))
        assert row.n_updates == 700
    assert not list(Path("out").rglob("*.tmp"))
    for path in saved:  # they went on where they had stopped
        name = path.parent.name[:-1] + "2"
        assert RunFolder(path.parent.parent / name, NAME).read_config()["resumed_from"] == str(path)


@pytest.mark.parametrize(("options", "jobs"), [((), 8), (("--num-threads", 3), 2), (("--num-threads", 16), 1)])
def test_runs_side_by_side_share_the_cores(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[Any, ...], jobs: int
) -> None:
    seen = []
    monkeypatch.setattr("zoo.benchmark.usable_cores", lambda: 8)
    monkeypatch.setattr("zoo.benchmarking.grid.run_side_by_side", lambda _, jobs, on_end: seen.append(jobs))
    assert main(command("--no-report", *options, seeds=(1, 2))) == 0
    assert seen == [jobs]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--env", "pointmaze-gaint-stitch-v0"], "pointmaze-giant-stitch-v0"),
        (["--jobs", "0"], "--jobs must be at least 1"),
        (["--episodes", "0"], "--episodes must be at least 1"),
        (["--variant", "a", "bach_size:3"], "did you mean batch_size?"),
        (["--variant", "stochastic:ignore"], "give a name"),
        (["--variant", "a", "--variant", "a"], "same name"),
        (["-params", "bach_size:3"], "did you mean batch_size?"),
        (["--dataset-path", "none.npz"], "no dataset file none.npz"),
    ],
)
def test_bad_input_is_one_clear_line_and_leaves_nothing(
    workplace: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["--env", ENV, "--seeds", "1", "--dataset-path", "data.npz", *options]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("python -m zoo.benchmark: error:") and error.count("\n") == 1
    assert [path.name for path in workplace.iterdir()] == ["data.npz"]


def test_the_processes_of_a_grid_get_every_option_about_datasets() -> None:
    parser = argparse.ArgumentParser()
    add_dataset_arguments(parser)
    assert vars(parser.parse_args([])).keys() <= {*EVERYWHERE, *THIS_MACHINE}


def test_each_seed_may_learn_from_data_of_its_own(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--env", "proq/PendulumAngle-v0", "--dataset-dir", "data", "--verbose", "0"]
    first, second = grid_of([*options, "--seeds", "4", "5", "--dataset-seeds", "8", "9"]).runs()
    assert (first.experiment.seed, first.data.seed) == (4, 8)
    assert (second.experiment.seed, second.data.seed) == (5, 9)
    assert "--seeds 5 --dataset-seeds 9" in second.command
    dataset, info = first.data.load("proq/PendulumAngle-v0", progress=False)
    other, _ = second.data.load("proq/PendulumAngle-v0", progress=False)
    assert info.seed == 8 and Path(info.path or "").parent == Path("data/seed_8")
    assert not dataset.observations.equal(other.observations)
    assert [run.data.seed for run in grid_of(options).runs()] == [1, 2, 3]
    assert [run.data.seed for run in grid_of([*options, "--seeds", "1"]).runs()] == [None]

    assert main([*options, "--seeds", "4", "5", "--dataset-seeds", "8"]) == 1
    assert "give one for each" in capsys.readouterr().err
    assert main([*options, "--seeds", "4", "--dataset-seeds", "8", "--dataset-path", "data.npz"]) == 1
    assert "a seed is for data that are generated" in capsys.readouterr().err


def test_a_suite_is_a_list_of_datasets_with_results_of_its_own(workplace: Path) -> None:
    grid = grid_of(["--suite", "unseen", "--variant", "default", "--variant", "direct", "planning.direct:true"])
    assert "parking-v0" in grid.envs and not set(grid.envs) & set(POINTMAZE_IDS)
    assert grid.out == Path("zoo/results/unseen")
    assert set(grid_of(["--verbose", "0"]).envs) == set(POINTMAZE_IDS)
