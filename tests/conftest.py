from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is imported, which PyTorch may do at any time

from pathlib import Path
from typing import Any

import fuzzing
import numpy as np
import pytest
import torch as th
from grid_maze import GridMaze
from hypothesis import settings
from tiny_goal import tiny_arrays

from proq_agent import ProQ
from proq_agent.common.settings import changed

# A busy machine makes any example slow, which says nothing about the code.
settings.register_profile("proq", deadline=None)
settings.load_profile("proq")

TINY: dict[str, Any] = {
    "batch_size": 32,
    "keypoints": {"n": 8, "start": 2, "freq": 2},
    "seed": 0,
    "device": "cpu",
    "held_out": 0.0,
    "policy_kwargs": {
        "hidden_sizes": [16, 16],
        "latent_dim": 4,
        "n_components": 4,
        "component_size": 4,
        "n_fourier_features": 4,
    },
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz", type=int, default=0, metavar="N", help="cases for each target of test_fuzz.py")
    parser.addoption("--stress", type=int, default=0, metavar="N", help="calls of predict in test_threads.py")


def pytest_configure(config: pytest.Config) -> None:
    fuzzing.n_cases = config.getoption("--fuzz")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    th.set_num_threads(1)


@pytest.fixture(autouse=True)
def _same_code_in_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """They too know the tiny environment, and run the packages beside these tests, whichever are installed."""
    tests = Path(__file__).parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (tests, tests.parent))))


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory with a dataset in it."""
    np.savez(tmp_path / "data.npz", **tiny_arrays())  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def walks():
    """A small dataset of random walks in the test maze."""
    return GridMaze().random_walks(20, 30)


@pytest.fixture
def tiny(walks):
    """Builds a very small ProQ on the random walks; keyword arguments override, within groups of settings too."""

    def build(**kwargs: Any) -> ProQ:
        return ProQ(**changed(TINY | {"dataset": walks}, kwargs))

    return build


@pytest.fixture
def two_threads():
    """Let PyTorch use two threads."""
    before = th.get_num_threads()
    th.set_num_threads(2)
    yield
    th.set_num_threads(before)
