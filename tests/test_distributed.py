"""Two processes train one agent: the same as one process, whoever is lost on the way."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch as th
from tiny_goal import ENV, NAME, TINY_PARAMS, TinyGoalEnv
from two_processes import AGENTS, trained

from proq_agent import ProQ
from zoo.data.source import DataSource
from zoo.runs.experiment import Experiment
from zoo.runs.folder import find_run
from zoo.train import main

TESTS = Path(__file__).parent
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node")
# Where intervals of the quasimetric do not overlap, moving one for all states changes no distance: its gradient is zero
# but for rounding, which Adam magnifies to steps of full size.
NO_GRADIENT = ("embedder.output.bias", "encoder.biases.2")


@pytest.fixture(scope="module")
def in_two(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What ``two_processes.py`` found in each process."""
    folder = tmp_path_factory.mktemp("two")
    env = os.environ | {"PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}", "OMP_NUM_THREADS": "1"}
    command = [*TORCHRUN, "2", str(TESTS / "two_processes.py"), str(folder)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [th.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS)
def test_two_processes_learn_what_one_does(name: str, in_two: list[dict[str, Any]], walks: Any) -> None:
    alone, first, second = trained(name, walks), in_two[0][name], in_two[1][name]
    assert th.equal(alone["generator"], first["generator"])
    for key, weights in alone["policy"].items():
        assert th.equal(first["policy"][key], second["policy"][key]), key
        if key not in NO_GRADIENT:
            th.testing.assert_close(first["policy"][key], weights, rtol=0.0, atol=1e-5, msg=key)
    assert first["log"] == second["log"] and first["log"].keys() == alone["log"].keys()
    for key, values in alone["log"].items():  # means and extremes of the whole batch
        assert first["log"][key] == pytest.approx(values, rel=1e-4, abs=1e-4), key


@pytest.mark.slow
def test_what_cannot_be_shared_is_refused_by_all(in_two: list[dict[str, Any]]) -> None:
    refused = in_two[0]["refused"]
    assert refused == in_two[1]["refused"]
    assert refused["odd"].startswith("batch_size 31 cannot be shared by 2 processes; make it a multiple of 2")
    assert refused["seed"] == "processes of one training must have the same seed, got 1, 0"
    assert refused["data"].startswith("processes of one training must have the same dataset, got ")
    assert refused["algorithm"].startswith("TinyCloning cannot be trained by 2 processes")


def train_command(*more: Any) -> list[str]:
    options = ["--env", ENV, "--dataset-path", "data.npz", "--device", "cpu", "--eval-freq", -1, "--save-freq", -1]
    return [str(option) for option in (*options, "--eval-episodes", 1, *more)]


@contextmanager
def two_trainers(*more: Any) -> Iterator[subprocess.Popen]:
    """torchrun with two processes, in the current directory."""
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [*TORCHRUN, "2", "-m", "zoo.train", *train_command(*more)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            yield run
        finally:
            if run.poll() is None:
                run.terminate()


def trainer(run: subprocess.Popen, rank: int) -> int:
    """The number of one of its processes."""
    for child in map(int, Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()):
        if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return child
    raise LookupError(f"no process of rank {rank}")


def wait_for_updates(run: subprocess.Popen) -> None:
    """Until something was learned and logged."""
    deadline = time.monotonic() + 120
    while not any(path.stat().st_size for path in Path("logs").glob("proq/*/progress.csv")):
        assert run.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)


def check_saved(agent: Path, updates: int) -> None:
    """It is what one process has after so many updates, none of its parts ahead of others, and goes on in one."""
    model = ProQ.load(agent)
    assert model.num_timesteps == model._n_updates == updates
    steps = {int(state["step"]) for state in model.map_optimizer.state.values()}
    assert steps == {updates}  # the map learns first, for longer than this
    experiment = Experiment(ENV, n_timesteps=10**6, overrides=TINY_PARAMS, device="cpu")
    alone, total = experiment.build(TinyGoalEnv(), *DataSource(path=Path("data.npz")).load(ENV))
    alone.learn(total, lambda *_: alone.num_timesteps < updates, log_interval=None)
    assert th.equal(alone.generator.get_state(), model.generator.get_state())  # type: ignore[union-attr]

    assert main(train_command("-i", agent, "-n", updates + 3, "--verbose", 0)) == 0
    assert ProQ.load(find_run(Path("logs"), "proq", ENV).agent).num_timesteps == updates + 3


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_ends_the_run_with_an_agent_to_go_on_with(rank: int, workplace: Path) -> None:
    with two_trainers("-n", 10**6, "--log-interval", 1, "-params", *TINY_PARAMS) as run:
        wait_for_updates(run)
        os.kill(trainer(run, rank), signal.SIGKILL)
        shown, errors = run.communicate(timeout=60)
    assert run.returncode == 1 and shown.count("run folder:") == 1
    (line,) = [line for line in errors.splitlines() if line.startswith("python -m zoo.train: ")]
    found = re.search(r"another process of this training has ended .*; saved after (\d+) of 1000000 updates", line)
    assert found is not None
    agent = Path(f"logs/proq/{NAME}_1/{NAME}.zip")
    resume = shlex.split(line.partition("; to resume: ")[2])
    assert resume[:7] == ["python", "-m", "zoo.train", "--env", ENV, "-i", str(agent)]
    check_saved(agent, int(found[1]))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_a_signal_to_one_stops_all_after_the_same_update(workplace: Path) -> None:
    with two_trainers("-n", 10**6, "--log-interval", 1, "-params", *TINY_PARAMS) as run:
        wait_for_updates(run)
        os.kill(trainer(run, 1), signal.SIGTERM)
        shown, errors = run.communicate(timeout=60)
    assert run.returncode != 0 and errors.count("terminated\n") == 1 and "zoo.train: error" not in errors
    (updates,) = re.findall(r"saved after (\d+) of 1000000 updates; to resume:", shown)
    check_saved(Path(f"logs/proq/{NAME}_1/{NAME}.zip"), int(updates))


@pytest.mark.slow
def test_bad_input_is_said_once(workplace: Path) -> None:
    with two_trainers("-n", 5, "-params", "batch_size:15", *TINY_PARAMS[1:]) as run:
        errors = run.communicate(timeout=120)[1]
    (line,) = [line for line in errors.splitlines() if line.startswith("python -m zoo.train: ")]
    assert "error: batch_size 15 cannot be shared by 2 processes" in line
    assert [path.name for path in workplace.iterdir()] == ["data.npz"]
