"""A second process: what it returns and raises, and that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import time

import pytest
import torch as th

from proq_agent.common.forked import beside, can_fork


def test_it_returns_from_another_process_and_changes_nothing_here(two_threads):
    seen = [1]

    def function():
        seen.append(2)
        return os.getpid(), seen, th.get_num_threads()

    with beside(function) as result:
        assert th.get_num_threads() == 1
        pid, theirs, threads = result()
    assert pid != os.getpid() and theirs == [1, 2] and threads == 1
    assert seen == [1] and th.get_num_threads() == 2


def test_its_errors_are_raised_here():
    with pytest.raises(ZeroDivisionError), beside(lambda: 1 / 0) as result:
        result()


def test_a_killed_one_is_told():
    with (
        pytest.raises(RuntimeError, match="was killed"),
        beside(lambda: os.kill(os.getpid(), signal.SIGKILL)) as result,
    ):
        result()


def test_it_ends_when_nobody_waits_for_it(tmp_path):
    def function():
        (tmp_path / "begun").touch()
        time.sleep(60.0)

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt), beside(function):
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert time.monotonic() - begun < 50.0


def test_it_is_of_use_with_a_thread_to_spare(two_threads, monkeypatch):
    assert can_fork()
    monkeypatch.setattr(th.cuda, "is_initialized", lambda: True)
    assert not can_fork()
    monkeypatch.undo()
    th.set_num_threads(1)
    assert not can_fork()
