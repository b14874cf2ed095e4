"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """
    Write a file that appears whole or not at all, however many processes write it at once.

    :param path: where the file appears when the block ends without an error
    :raises OSError: naming the file, if the disk refuses
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # as a full disk leaves it
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
