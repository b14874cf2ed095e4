"""
The SHA-256 of a dataset file, written beside it when it is made, so that a file that has changed since is noticed.

It is in the form of ``sha256sum``, which can check it too. It says nothing about who made the file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from proq_agent.common.files import atomic_file


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def record_sha256(path: Path) -> None:
    """Write the hash of a file that is complete."""
    with atomic_file(_beside(path)) as file:
        file.write(f"{_sha256(path)}  {path.name}\n".encode())


def forget_sha256(path: Path) -> None:
    """Before a file is replaced: should that be interrupted, the old hash shall not speak against the new file."""
    _beside(path).unlink(missing_ok=True)


def check_sha256(path: Path) -> str:
    """
    Compare a file with its hash, if there is one beside it.

    :return: the hash of the file
    :raises ValueError: if it is another one than when the file was made
    """
    found = _sha256(path)
    beside = _beside(path)
    if beside.is_file() and beside.read_bytes()[:64] != found.encode():
        raise ValueError(
            f"{path} has changed since it was downloaded or generated: its SHA-256 is not the one in {beside.name}; "
            f"delete both to have it made again, or {beside.name} alone if you changed it"
        )
    return found
