"""Files that appear whole or not at all, and nothing left behind by writers that were killed."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed anyway
    fcntl = None  # type: ignore[assignment]

# Logged numbers shrink to a fifth or so. A dataset takes three times as much in memory while it is made, so that
# reading n bytes takes less than 20 n + 300 MB.
MAX_RATIO, SPARE_BYTES = 6, 95_000_000


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """
    Write a file that appears whole or not at all, however many processes write it at once.

    :param path: where the file appears when the block ends without an error; a link stays a link
    :raises OSError: naming the file, if the disk refuses
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path.parent, path.name)
    file, temporary = _open_temporary(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()  # Windows renames no open file; elsewhere it stays locked until it has its name
            os.replace(temporary, path)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # as a full disk leaves it
            error.filename = str(path)
        raise
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    with contextlib.suppress(OSError, AttributeError):  # makes the rename durable; not every system can
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """
    Let one process at a time through; the lock ends with the process that holds it.

    :param path: a file that is there as long as the lock
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("w") as file:
            if fcntl is not None:  # else two processes may both do the work
                fcntl.flock(file, fcntl.LOCK_EX)
                if not os.fstat(file.fileno()).st_nlink:
                    continue  # who held it before has removed it, and the next one may hold another
            try:
                yield
                return
            finally:
                with contextlib.suppress(OSError):  # Windows removes no open file
                    path.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a file of text with :func:`atomic_file`."""
    with atomic_file(path) as file:
        file.write(text.encode())


def remove_abandoned(folder: Path, name: str = "*") -> None:
    """
    Remove what writers that were killed have left in a folder. A file that is being written is locked, and stays.

    :param folder: it alone, not the folders in it
    :param name: of the files that were to be written
    """
    name = name if name == "*" else "".join(f"[{c}]" if c in "*?[" else c for c in name)
    for path in folder.glob(f".{name}.*-*.tmp"):
        with contextlib.suppress(OSError), path.open("rb") as file:
            if _lock(file):
                path.unlink()


def _open_temporary(path: Path) -> tuple[BinaryIO, Path]:
    while True:
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
        file = temporary.open("xb")
        locked = True
        with contextlib.suppress(OSError):  # a file system without locks, where nothing is ever taken for abandoned
            locked = _lock(file) and os.fstat(file.fileno()).st_nlink > 0
        if locked:
            return file, temporary
        file.close()  # taken for abandoned before it was locked


def _lock(file: BinaryIO) -> bool:
    """Whether the file is ours until it is closed."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def env_name(env_id: str) -> str:
    """The id as a file name: ``module:Env-v0`` and ``minari:a/b-v0`` hold characters that paths do not like."""
    return re.sub(r"[^\w.-]", "-", env_id)


def readable_bytes(file_bytes: int) -> int:
    """
    How much of numbers a file may unfold to.

    :param file_bytes: its size
    """
    return MAX_RATIO * file_bytes + SPARE_BYTES
