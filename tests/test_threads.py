"""
Threads that share an agent get what each would get alone, while others close and open parts of its map.

A few calls are made with the other tests; ``pytest tests/test_threads.py -n0 --stress 100000`` makes as many as one
likes.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from proq_agent import ProQ

N_THREADS = 8
N_CALLS = 1600  # of all threads, unless --stress says how many


@pytest.fixture
def n_calls(request: pytest.FixtureRequest) -> int:
    """Of each thread, with batches of one kind."""
    return (request.config.getoption("--stress") or N_CALLS) // N_THREADS // 2


@pytest.fixture
def model(tiny) -> ProQ:
    """With a map on which ways depend on what is blocked."""
    model = tiny(planning={"max_hop": 1.0}).learn(20, log_interval=None)
    list(model.policy.classifier.parameters())[-1].data.fill_(10.0)  # hardly trained, it may call any keypoint stray
    distances = model.planner.distances
    max_hop = float(np.quantile(distances[distances > 0], 0.35))
    model.set_planning(max_hop=max_hop, reach=0.1 * max_hop)
    return model


@pytest.fixture(autouse=True)
def _threads_take_turns_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def batches(sizes: list[int]) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    drawn = []
    for size in sizes:
        position, goal = rng.uniform(0.5, 5.5, (2, size, 2)).astype(np.float32)
        drawn.append({"observation": position, "achieved_goal": position, "desired_goal": goal})
    return [
        {key: array[0] for key, array in batch.items()} if len(batch["observation"]) == 1 else batch for batch in drawn
    ]


def in_threads(functions: list[Any]) -> None:
    errors = []

    def run(function: Any) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("sizes", [[5] * 8, [1, 2, 3, 5, 8, 13, 2, 1]], ids=["equal", "unequal"])
def test_predict_gives_each_thread_its_own_answers(model, sizes, n_calls):
    asked = batches(sizes)
    areas: list[dict[str, Any]] = [{"nodes": [0, 3]}, {"box": ([2.0, 2.0], [4.0, 4.0])}]
    expected = [[model.predict(batch, deterministic=True)[0]] for batch in asked]  # in each state of the map
    for area in areas:
        handle = model.planner.block(**area)
        for answers, batch in zip(expected, asked, strict=True):
            answers.append(model.predict(batch, deterministic=True)[0])
        model.planner.unblock(handle)
    assert all(max(np.abs(answers[0] - answers[i]).max() for answers in expected) > 0.01 for i in (1, 2))
    n_changes, running = [0], [None] * N_THREADS  # one less for each thread that is done

    def predict(thread: int) -> None:
        rng = np.random.default_rng(thread)
        try:
            for _ in range(n_calls):
                k = int(rng.integers(len(asked)))
                found, _ = model.predict(asked[k], deterministic=True)
                assert found.shape == expected[k][0].shape
                assert min(np.abs(found - answer).max() for answer in expected[k]) < 1e-5
        finally:
            running.pop()

    def change() -> None:
        while running:
            for area in areas:
                model.planner.unblock(model.planner.block(**area))
                n_changes[0] += 1
                time.sleep(1e-3)

    in_threads([change, *(lambda thread=thread: predict(thread) for thread in range(N_THREADS))])
    assert n_changes[0] > 5
    assert not model.planner.snapshot.closures.in_force


def test_threads_share_one_planner_from_the_first_moment(model):
    for _ in range(20):
        model._navigator = None
        start, planners = threading.Barrier(N_THREADS), []

        def first(start: threading.Barrier = start, planners: list[Any] = planners) -> None:
            start.wait()
            planners.append(model.planner)

        in_threads([first] * N_THREADS)
        assert len({id(planner) for planner in planners}) == 1


def test_threads_with_patience_keep_their_own_progress(model):
    """Each stands still before a goal of its own, and what it finds out nobody else knows."""
    model.set_planning(patience=2)
    asked, states = batches([1] * N_THREADS), []

    def stand_still(k: int) -> None:
        state = None
        for _ in range(50):
            _, state = model.predict(asked[k], state, deterministic=True)
            np.testing.assert_array_equal(state[0], asked[k]["desired_goal"][None])
        states.append(state)

    in_threads([lambda k=k: stand_still(k) for k in range(N_THREADS)])
    assert all(np.isfinite(state[-1]).any() for state in states) and model.planner.version == 0
