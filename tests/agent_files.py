"""Agent files taken apart and put together again, as an accident or an attacker would, and what reading them costs."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch as th

from proq_agent.common.archive import read_archive

SECONDS, SPARE_BYTES, TIMES_ITS_SIZE = 5.0, 300e6, 20  # what reading any file may cost

Members = dict[str, bytes]


class Exploit:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.trace),)


def members_of(path: Path | io.BytesIO) -> Members:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path: Path | io.BytesIO, members: Members, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def with_header(members: Members, **changes: Any) -> Members:
    """The members with changed entries of their metadata.json; hashes stay as they are unless changed."""
    return {**members, "metadata.json": json.dumps(json.loads(members["metadata.json"]) | changes).encode()}


def with_metadata(members: Members, **changes: Any) -> Members:
    """The members with changed entries of what the agent has saved in metadata.json."""
    return with_header(members, metadata=json.loads(members["metadata.json"])["metadata"] | changes)


def rehashed(members: Members) -> Members:
    """The members with hashes that fit: what an attacker, unlike an accident, takes care of."""
    hashes = {k: hashlib.sha256(data).hexdigest() for k, data in members.items() if k != "metadata.json"}
    return with_header(members, sha256=hashes)


def as_stream(members: Members) -> io.BytesIO:
    """A file with these members and hashes that fit."""
    stream = io.BytesIO()
    rewrite(stream, rehashed(members))
    return stream


def pickled(state: Any) -> bytes:
    """As ``torch.save`` writes it."""
    buffer = io.BytesIO()
    th.save(state, buffer)
    return buffer.getvalue()


def pickle_program(program: bytes) -> bytes:
    """A file of ``torch.save`` whose pickle is any program."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("archive/data.pkl", program)
        file.writestr("archive/version", "3")
    return buffer.getvalue()


def format_1(path: Path | io.BytesIO) -> Members:
    """The members that the same agent had in a file of format 1."""
    states = {f"{name}.pth": pickled(state) for name, state in read_archive(path).states.items()}
    rest = {k: v for k, v in members_of(path).items() if k in ("metadata.json", "untrusted.pkl")}
    return with_header(rest | states, format_version=1)


@contextlib.contextmanager
def within_bounds(n_bytes: int) -> Iterator[None]:
    """Fails if the block takes longer, or more memory, than reading a file of that size may."""
    status = Path("/proc/self/status")  # elsewhere than on Linux only the time is measured

    def megabytes(name: str) -> int:
        return int(next(line for line in status.read_text().splitlines() if line.startswith(name)).split()[1]) // 1000

    if status.exists():
        Path("/proc/self/clear_refs").write_text("5")  # sets the high-water mark back
        before = megabytes("VmRSS")
    begun = time.process_time()
    yield
    seconds = time.process_time() - begun
    assert seconds < SECONDS, f"took {seconds:.1f} s"  # of its own: other work on the machine does not count
    if status.exists():
        taken = megabytes("VmHWM") - before
        assert taken < (TIMES_ITS_SIZE * n_bytes + SPARE_BYTES) / 1e6, f"{taken} MB for a file of {n_bytes} bytes"


def assert_same(actual: Any, expected: Any) -> None:
    assert type(actual) is type(expected)
    if isinstance(expected, dict):
        assert list(actual) == list(expected)
        for key in expected:
            assert_same(actual[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected)
        for left, right in zip(actual, expected, strict=True):
            assert_same(left, right)
    elif isinstance(expected, th.Tensor):
        assert actual.dtype == expected.dtype and th.equal(actual, expected)
    elif isinstance(expected, np.ndarray):
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
    else:
        assert actual == expected or (actual != actual and expected != expected)
