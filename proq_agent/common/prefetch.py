"""The next batch, drawn in the background while an update computes, and yet the one that would have been drawn."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

import torch as th

Batch = TypeVar("Batch")


class _Pending(NamedTuple):
    """A batch that is being drawn."""

    before: th.Tensor  #: state of the generator that it is drawn with
    result: Future[Any]  #: the batch, and the generator's state after it


class Prefetch(Generic[Batch]):
    """
    Draws a batch ahead with a copy of the generator. Only when the batch is taken does the generator itself move on,
    and only if nothing else has used it meanwhile; otherwise the batch is drawn anew. So whoever saves the generator
    saves that of the batches that were used, and prefetching changes nothing but the time.

    :param draw: makes a batch with a generator
    """

    def __init__(self, draw: Callable[[th.Generator | None], Batch]) -> None:
        self._draw = draw
        self._pending: _Pending | None = None
        self._worker: tuple[int, ThreadPoolExecutor] | None = None
        self._is_used = False

    def __getstate__(self) -> dict[str, Any]:  # copies begin anew
        return {"_draw": self._draw, "_pending": None, "_worker": None, "_is_used": False}

    def begin(self, generator: th.Generator | None) -> None:
        """Draw ahead from here on, unless that is being done, or nobody has ever taken a batch."""
        if generator is None or not self._is_used:
            return
        before = generator.get_state()
        if self._pending is not None and th.equal(self._pending.before, before):
            return
        if self._worker is None or self._worker[0] != os.getpid():  # threads do not survive a fork
            self._worker = os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="prefetch")
        copied = th.Generator(generator.device)
        copied.set_state(before)
        self._pending = _Pending(before, self._worker[1].submit(self._ahead, copied))

    def _ahead(self, generator: th.Generator) -> tuple[Batch, th.Tensor]:
        return self._draw(generator), generator.get_state()

    def take(self, generator: th.Generator | None) -> Batch:
        """The batch that ``draw`` would return now."""
        pending, self._pending, self._is_used = self._pending, None, True
        if generator is None or pending is None or not th.equal(pending.before, generator.get_state()):
            return self._draw(generator)
        batch, after = pending.result.result()
        generator.set_state(after)
        return batch
