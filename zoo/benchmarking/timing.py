"""Times that can be compared although the machine does other things too, and where the time goes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch as th


def interleaved(functions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """
    Seconds of each call, after one that does not count: CPU time of one thread, so that waiting for a core does not.

    :param functions: called in turns
    :param repeats: how often each
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    with threads(1):
        for round_number in range(repeats + 1):
            for name, function in functions.items():
                begun = time.process_time()
                function()
                if round_number:
                    seconds[name].append(time.process_time() - begun)
    return seconds


def ratio(seconds: Mapping[str, Sequence[float]], name: str, reference: str) -> float:
    """By how much one takes longer than the other: the median over turns."""
    return statistics.median(a / b for a, b in zip(seconds[name], seconds[reference], strict=True))


def shown(seconds: Sequence[float]) -> str:
    """The median, with its unit."""
    median = statistics.median(seconds)
    return f"{1e3 * median:.3g} ms" if median >= 1e-3 else f"{1e6 * median:.3g} µs"


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let PyTorch use so many CPU threads within the block."""
    before = th.get_num_threads()
    th.set_num_threads(number)
    try:
        yield
    finally:
        th.set_num_threads(before)


class Stopwatch:
    """Adds up the seconds spent in functions, each under a name; within one of them, the others do not count."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._running = False

    @contextmanager
    def watching(self, **functions: tuple[Any, str]) -> Iterator[None]:
        """
        Time functions while the block runs.

        :param functions: the owner of each and its name there, under the name for the result
        """
        with ExitStack() as stack:
            for name, (owner, attribute) in functions.items():
                self.seconds[name] = 0.0
                stack.enter_context(patch.object(owner, attribute, self._timed(name, getattr(owner, attribute))))
            yield

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._running:
                return function(*args, **kwargs)
            self._running, begun = True, time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._running = False
                self.seconds[name] += time.perf_counter() - begun

        return timed
