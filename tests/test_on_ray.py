"""Grids and searches on a Ray cluster of two machines, one of which is lost on the way."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from tiny_goal import ENV, NAME, TINY_PARAMS

import zoo.benchmark
import zoo.optimize
from zoo.benchmarking.results import read_results
from zoo.runs.search import storage_of

TESTS = Path(__file__).parent
DATA = ("--env", ENV, "--dataset-path", "data.npz", "--device", "cpu")
NODE = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "include_dashboard": False}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three nodes of Ray on the loopback interface: a head that computes nothing, and two with a CPU each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (TESTS, TESTS.parent))))
        pytest.importorskip("ray", reason="Ray is not installed")
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args=NODE | {"num_cpus": 0})
        for _ in range(2):
            cluster.add_node(**NODE)
        yield cluster
        cluster.shutdown()


def lose_a_machine(cluster: Any, logs: Path) -> threading.Thread:
    """Kill one of the two nodes as soon as both are at work."""

    def lose() -> None:
        while len([log for log in logs.glob("*.log") if log.stat().st_size]) < 2:
            time.sleep(0.05)
        cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

    thread = threading.Thread(target=lose, daemon=True)
    thread.start()
    return thread


def starts(logs: Path) -> list[int]:
    """How often each job was begun."""
    return sorted(len(re.findall("^on .*: ", log.read_text(), re.MULTILINE)) for log in logs.glob("*.log"))


@pytest.mark.slow
def test_nothing_is_lost_with_a_machine(workplace: Path, cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    killer = lose_a_machine(cluster, Path("logs/benchmark"))
    options = [*DATA, "-n", "6", "--episodes", "3", "--out", "out", "--seeds", "1", "2", "--ray", cluster.address]
    assert zoo.benchmark.main([*options, "-params", *TINY_PARAMS]) == 0
    killer.join(timeout=1)
    assert not killer.is_alive() and len(cluster.worker_nodes) == 1
    assert "[2/2]" in capsys.readouterr().out
    for seed in (1, 2):
        (row,) = read_results(Path(f"out/proq/runs/{NAME}_default_{seed}.csv"))
        assert (row.seed, row.n_updates) == (seed, 6)
    assert starts(Path("logs/benchmark")) == [1, 2]


@pytest.mark.slow
def test_trials_of_a_search_are_jobs_of_their_own(workplace: Path, cluster: Any) -> None:
    options = [*DATA, "-n", "4", "--n-trials", "2", "--study-name", "s", "--eval-episodes", "1", "--verbose", "0"]
    assert zoo.optimize.main([*options, "--ray", cluster.address, "-params", *TINY_PARAMS]) == 0
    trials = optuna.load_study(study_name="s", storage=storage_of("logs/proq/optuna/s.journal")).trials
    assert [trial.state.name for trial in trials] == ["COMPLETE", "COMPLETE"]
    assert len({trial.user_attrs["job"] for trial in trials}) == 2
    assert Path("logs/proq/optuna/s.yml").is_file() and starts(Path("logs/proq/optuna/s_jobs")) == [1, 1]


def test_a_cluster_that_is_not_there_is_named(workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    options = [*DATA, "--seeds", "1", "2", "--out", "out", "-params", *TINY_PARAMS]
    assert zoo.benchmark.main([*options, "--ray", "127.0.0.1:1"]) == 1
    error = capsys.readouterr().err
    assert "--ray 127.0.0.1:1: there is no Ray cluster" in error and "ray start --head" in error


def test_without_ray_the_remedy_is_named(
    workplace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert zoo.benchmark.main([*DATA, "--seeds", "1", "2", "--ray", "-params", *TINY_PARAMS]) == 1
    assert "pip install ray" in capsys.readouterr().err
