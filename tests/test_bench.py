"""python -m zoo.bench: that it measures what it says, never how fast the machine is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial

import pytest
import torch as th

from zoo.bench import SECTIONS as NAMES
from zoo.bench import main
from zoo.benchmarking.costs import SECTIONS
from zoo.benchmarking.timing import Stopwatch, interleaved, ratio
from zoo.benchmarking.update_costs import build, build_proq, matrix_products, walks
from zoo.registry import ALGOS


def test_every_section_is_printed_with_its_targets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for title, _ in SECTIONS.values():
        assert title in out
    for text in (
        ">= 8x",
        ">= 40 on two cores",
        "<= 1.3x",
        "<= 2x",
        "<= 1.5x",
        "keypoints",
        "Floyd-Warshall",
        "peak memory",
    ):
        assert text in out


def test_the_command_offers_all_sections() -> None:
    assert tuple(SECTIONS) == NAMES


def test_functions_take_turns_and_the_first_does_not_count() -> None:
    calls: list[str] = []
    seconds = interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3)
    assert "".join(calls) == "abababab"
    assert {name: len(times) for name, times in seconds.items()} == {"a": 3, "b": 3}


def test_the_ratio_is_of_the_same_turn() -> None:
    # A load that slows down both for one turn does not show.
    assert ratio({"a": [2.0, 200.0, 2.0], "b": [1.0, 100.0, 1.0]}, "a", "b") == 2.0


def test_a_stopwatch_counts_the_outermost_function_and_puts_everything_back() -> None:
    class Work:
        def outer(self) -> None:
            self.inner()

        def inner(self) -> None:
            time.sleep(0.01)

    before = Work.inner
    watch = Stopwatch()
    with watch.watching(outer=(Work, "outer"), inner=(Work, "inner")):
        Work().outer()
        assert watch.seconds["outer"] >= 0.01 and watch.seconds["inner"] == 0.0
        Work().inner()
        assert watch.seconds["inner"] >= 0.01
    assert Work.inner is before


def shapes_of(products, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Rows, inner dimension and columns of each product, after the number of heads if there are some."""
    shapes: list[tuple[int, ...]] = []
    real = th.matmul

    def seen(a: th.Tensor, b: th.Tensor) -> th.Tensor:
        shapes.append((*a.shape, b.shape[-1]))
        return real(a, b)

    monkeypatch.setattr(th, "matmul", seen)
    products()
    monkeypatch.undo()
    return shapes


def test_matrix_products_are_those_of_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = shapes_of(matrix_products(build_proq("paper", quick=True)), monkeypatch)
    classifier = (3 * 16, 16, 1)  # data, between and beyond: three times the batch of 16, hidden width 16, one output
    assert classifier in shapes
    assert {(1, 3 * 16, 16), (16, 3 * 16, 1)} & set(shapes)  # the gradient by its weights
    assert (3 * 16, 1, 16) in shapes  # and by its inputs
    keypoints = (8, 16, 1)  # for the keypoints only the gradient by the inputs
    assert keypoints in shapes and (8, 1, 16) in shapes and not {(1, 8, 16), (16, 8, 1)} & set(shapes)


def test_matrix_products_of_ensembles_are_counted_once_forward_and_twice_backward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shapes = shapes_of(matrix_products(build("gcivl", "paper", quick=True)), monkeypatch)
    hidden = (2, 16, 16, 16)  # two values, batch, and width of both layers are 16
    # Forward: one that learns, and four that do not. Backward: by the weights, and by the inputs.
    assert shapes.count(hidden) == 5 + 2
    assert shapes.count((1, 16, 16, 16)) == 1 + 2  # the actor's


def test_every_other_algorithm_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--only", "algorithms"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for name in ALGOS:
        assert (f"{name}: updates a second (batch 16)" in out) == (name != "proq")
    assert out.count("<= 1.4x") == len(ALGOS) - 1


def test_the_walks_stay_in_their_square() -> None:
    dataset = walks(quick=True)
    assert dataset.observations.abs().max() <= 20.0
    steps = dataset.observations[1:] - dataset.observations[:-1]
    within = th.ones(len(steps), dtype=th.bool)
    within[dataset.trajectory_ends[:-1]] = False
    assert steps[within].abs().max() <= 0.2 + 1e-4


@pytest.mark.slow
def test_the_command_line_as_a_process() -> None:
    options = [sys.executable, "-m", "zoo.bench", "--quick", "--only", "quasimetric", "memory", "--num-threads", "1"]
    run = partial(subprocess.run, capture_output=True, text=True, timeout=300)
    done = run(options, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert "1 threads" in done.stdout and "peak memory" in done.stdout and "Planning" not in done.stdout
