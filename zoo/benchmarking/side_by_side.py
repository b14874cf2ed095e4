"""Several processes at a time, each with a log file, that end when this one is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proq_agent.common.errors import Interrupted

POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Job:
    """
    A command to run.

    :param name: for messages
    :param command: program and arguments
    :param log: what it prints is appended to this file
    :param env: environment variables besides those of this process
    :param results: files that it leaves for others
    """

    name: str
    command: Sequence[str]
    log: Path
    env: dict[str, str] = field(hash=False)
    results: tuple[Path, ...] = ()

    def start(self) -> subprocess.Popen:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            # A session of its own: the terminal's Ctrl-C reaches this process alone, which passes it on once.
            return subprocess.Popen(
                self.command, env=os.environ | self.env, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def last_line(self) -> str:
        """The last thing that was printed."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "")


def run_side_by_side(jobs: Sequence[Job], at_once: int, on_end: Callable[[Job, int], None]) -> None:
    """
    Run all jobs. Ctrl-C, SIGTERM or SIGHUP ends those that run with one SIGTERM, waits for them to save what they
    have, and starts no more; a second one kills them.

    :param jobs: started in this order
    :param at_once: how many may run at a time
    :param on_end: called with a job that has ended and its exit code
    """
    waiting, running = list(jobs), dict[subprocess.Popen, Job]()
    with terminable():
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    job = waiting.pop(0)
                    running[job.start()] = job
                time.sleep(POLL_SECONDS)
                for process in [p for p in running if p.poll() is not None]:
                    on_end(running.pop(process), process.returncode)
        finally:
            _stop(list(running))


def _stop(processes: Sequence[subprocess.Popen]) -> None:
    number = signal.SIGTERM
    while alive := [process for process in processes if process.poll() is None]:
        try:
            for process in alive:
                os.killpg(process.pid, number)  # the group, for processes that it has started itself
            for process in alive:
                process.wait()
        except KeyboardInterrupt:
            number = signal.SIGKILL


@contextmanager
def terminable() -> Iterator[None]:
    """Let a polite kill and a closed terminal do what Ctrl-C does."""

    def interrupt(number: int, _: Any) -> None:
        raise Interrupted(number)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
