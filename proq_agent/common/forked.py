"""A second process for what does not need the first."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import torch as th

T = TypeVar("T")


def can_fork() -> bool:
    """Whether a fork of this process is of use: there is a thread to spare, and no CUDA context, which forks break."""
    return sys.platform == "linux" and th.get_num_threads() > 1 and not th.cuda.is_initialized()


@contextmanager
def beside(function: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """
    Call a function in a fork of this process while the block runs; each of the two then uses one thread.

    :param function: what it returns must be picklable; it sees everything as it is now, and changes nothing here
    :return: waits for the function and returns what it returned, or raises what it raised
    """
    context = multiprocessing.get_context("fork")  # agents and environments cannot be sent to a process
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(function, sender), daemon=True)
    threads = th.get_num_threads()
    process.start()
    sender.close()
    th.set_num_threads(1)

    def result() -> T:
        try:
            error, value = receiver.recv()
        except EOFError:
            raise RuntimeError("a process of this one was killed; is there enough memory?") from None
        if error is not None:
            raise error
        return value

    try:
        yield result
    finally:
        th.set_num_threads(threads)
        process.kill()
        process.join()
        receiver.close()


def _report(function: Callable[[], Any], sender: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    th.set_num_threads(1)  # the other threads have not been forked
    try:
        sender.send((None, function()))
    except Exception as error:
        sender.send((error, None))
