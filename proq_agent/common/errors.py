"""Errors that say what is wrong with a file, and signals that end a process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

MAX_MESSAGE = 500  # characters: an error of a foreign library may quote the whole file


class CheckpointError(ValueError):
    """A file, or a value in it, that cannot be used: damaged, foreign, too new or unsafe."""


class DamagedFile(ValueError):
    """One of many dataset files that cannot be used: what was read of the others still can."""


class Interrupted(KeyboardInterrupt):
    """
    A signal that asks the process to end, as Ctrl-C does.

    :param number: of the signal
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def check_names(given: Mapping[str, Any], known: Iterable[str]) -> None:
    """
    Refuse what is unknown as well as what is missing: what is ignored today may mean something tomorrow.

    :param given: from a file
    :param known: names of all its entries
    :raises CheckpointError: naming the others
    """
    if wrong := sorted(given.keys() ^ set(known)):
        raise CheckpointError(f"missing or unknown: {', '.join(wrong)[:200]}")


def one_line(said: object, limit: int = MAX_MESSAGE) -> str:
    """
    A message as one line without control characters: what it quotes of a file may be meant for the terminal.

    :param said: an error, or names from a file
    :param limit: of its length, in characters
    """
    line = " ".join(str(said).split())[:limit]
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


@contextmanager
def within(where: str, remedy: str = "", kind: type[ValueError] = CheckpointError) -> Iterator[None]:
    """
    Whatever goes wrong in this block is the file's fault, and said so in one line.

    :param where: the part of the file that is being read
    :param remedy: what to do about it
    :param kind: of the error
    :raises ValueError: of this kind, in place of any other exception
    """
    try:
        yield
    except Exception as error:  # a stranger's file may have any shape
        message = one_line(error) or type(error).__name__
        if isinstance(error, kind) and message.startswith(where):
            raise
        raise kind(f"{where}: {message}{remedy and f'; {remedy}'}") from error
