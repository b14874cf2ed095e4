"""What a fuzzing case may do: an answer or a clear error, within bounds, nothing run, nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from agent_files import within_bounds
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

n_cases = 0  #: of ``--fuzz N``: cases for each target; 0 for the few that always run

RUNS_SOMETHING = {
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "pty.spawn", "subprocess.Popen",
    "pickle.find_class", "socket.connect", "urllib.Request", "ctypes.dlopen",
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "shutil.rmtree", "os.chmod", "os.link", "os.symlink",
}  # fmt: skip
_seen: list[str] = []
_active = False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _active:
        return
    writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
    if event == "os.mkdir" and os.path.isdir(arguments[0]):  # there already
        return
    if event in RUNS_SOMETHING or writes:
        _seen.append(f"{event}{arguments!r:.200}")


sys.addaudithook(_audit)


def cases(n: int) -> settings:
    """How many cases a target has when nobody asks for more."""
    return settings(
        max_examples=n_cases or n,
        deadline=None,
        derandomize=not n_cases,  # the same ones every time, unless somebody goes looking
        suppress_health_check=list(HealthCheck),
    )


@contextlib.contextmanager
def harmless(n_bytes: int) -> Iterator[None]:
    """
    Fails if the block runs or writes anything, takes too long or too much memory, or ends with another error than one
    line of a ``ValueError``.

    :param n_bytes: size of the input
    """
    global _active
    with within_bounds(n_bytes):
        _seen.clear()
        _active = True
        try:
            yield
        except ValueError as error:
            message = str(error)
            assert message.strip() and "\n" not in message and len(message) < 2000, repr(message)
        finally:
            _active = False
    assert not _seen, f"it did more than read: {_seen}"


hostile_text = st.sampled_from(
    ["", "nan", "inf", "-1", "1e999", "__import__('os')", "os:system", "../../x", "/etc/passwd", "\0", "é" * 50,
     "a" * 5000, "{", "[[", "!!python/object/apply:os.system [id]", "%s%n", "__class__", "policy", "cuda:99", "meta"]
)  # fmt: skip
hostile_numbers = st.sampled_from(
    [0, -1, 1, 2, 3, 2**31, 2**63, 2**64, 10**30, 1e-300, 1e300, 0.5, float("nan"), float("inf"), -float("inf"), True]
)
tags = st.sampled_from(["__float__", "__tuple__", "__dict__", "__array__", "__schedule__", "__activation__", "__x__"])
scalars = st.none() | st.booleans() | hostile_numbers | hostile_text | st.integers() | st.floats()
hostile = st.recursive(
    scalars | scalars.map(lambda value: [value] * 300),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(hostile_text | st.text(max_size=4), inner, max_size=3)
        | st.builds(lambda tag, value: {tag: value}, tags, inner)
    ),
    max_leaves=6,
)


@cache
def _places(text: str) -> list[tuple[Any, ...]]:
    """Paths to all values in nested dicts and lists."""

    def within(value: Any) -> Iterator[tuple[Any, ...]]:
        yield ()
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from ((key, *path) for path in (within(inner) if isinstance(inner, dict | list) else [()]))

    return list(within(json.loads(text)))


@st.composite
def changed_json(draw: st.DrawFn, text: str | bytes) -> Any:
    """JSON with one to three values replaced, removed or added."""
    value = json.loads(text)
    for _ in range(draw(st.integers(1, 3))):
        *path, key = draw(st.sampled_from(_places(str(text, "utf-8") if isinstance(text, bytes) else text)[1:]))
        owner = value
        with contextlib.suppress(KeyError, IndexError, TypeError, AttributeError):  # gone since the last change
            for step in path:
                owner = owner[step]
            way = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
            if way == "replace":
                owner[key] = draw(hostile)
            elif way == "remove":
                del owner[key]
            elif isinstance(owner, dict):
                owner[draw(hostile_text)] = draw(hostile)
            else:
                owner.append(draw(hostile))
    return value


@st.composite
def changed_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """The same with a few bytes changed, cut out or put in; many changes at once from one random seed."""
    content = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(content) - 1, 0)))
        way = draw(st.sampled_from(["flip", "cut", "end", "insert", "noise", "repeat"]))
        if way == "flip" and content:
            content[at] ^= draw(st.integers(1, 255))
        elif way == "cut":
            del content[at : at + draw(st.integers(1, 64))]
        elif way == "end":
            del content[at:]
        elif way == "insert":
            content[at:at] = draw(st.binary(max_size=16))
        elif way == "repeat":
            content[at:at] = content[at : at + draw(st.integers(1, 200))]
        elif content:
            noise = random.Random(draw(st.integers(0, 2**32)))
            for _ in range(noise.randrange(1, 100)):
                content[noise.randrange(len(content))] = noise.randrange(256)
    return bytes(content)


@contextlib.contextmanager
def leaves_nothing(folder: Path) -> Iterator[None]:
    """Fails if there is another file afterwards than before."""
    before = sorted(folder.rglob("*"))
    yield
    assert sorted(folder.rglob("*")) == before
