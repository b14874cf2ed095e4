"""The agent file: one zip of JSON and tensors, written atomically and read without running anyone's code.

===========================  ==========================================================================
``metadata.json``            format name and version, package versions, SHA-256 of every other member,
                             and the caller's metadata (hyperparameters, spaces) as plain JSON
``policy.safetensors``       the weights
``training.*``               what exact resumption needs, see :mod:`proq_agent.common.tensor_file`
``untrusted.pkl``            only where asked for: what JSON cannot say; never opened without
                             ``trust_pickle=True``
===========================  ==========================================================================

Files of format 1 have ``policy.pth`` and ``training.pth`` instead, see :mod:`proq_agent.common.pickled_state`.

Members are stored, never compressed, and their tensors lie there byte by byte, so that no file can claim more memory
than its own size on disk. The hashes recognise damage and careless edits; they are no signature, and nothing relies
on them for safety.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import cloudpickle

from proq_agent.common.errors import CheckpointError, check_names, within
from proq_agent.common.files import atomic_file
from proq_agent.common.pickled_state import load_pickled_state
from proq_agent.common.tensor_file import dump_state, load_state

FORMAT_NAME = "proq"
FORMAT_VERSION = 2
METADATA, UNTRUSTED = "metadata.json", "untrusted.pkl"
STATES = ("policy", "training")
HEADER = ("format", "format_version", "versions", "sha256", "pickled", "metadata")
SUFFIXES = {1: (".pth",), 2: (".safetensors", ".json")}
MAX_METADATA_BYTES = 2**22  # JSON takes some 25 times its size in memory
MAX_DIRECTORY_BYTES, MAX_COMMENT_BYTES = 2**12, 2**16  # of the zip: the names of a few members; what the format allows

PathOrFile = str | Path | BinaryIO | io.BufferedIOBase


@dataclass(frozen=True)
class Archive:
    """
    What an agent file holds.

    :param label: What to call the file in an error.
    :param metadata: The JSON that was given to :func:`write_archive`.
    :param states: State dicts by name, on the CPU.
    :param versions: Versions of the packages that wrote the file.
    :param pickled: Unpickled objects by name; empty without ``trust_pickle=True``.
    :param skipped: Names of pickled objects that were left unopened.
    """

    label: str
    metadata: dict[str, Any]
    states: dict[str, Any] = field(repr=False)
    versions: dict[str, str]
    pickled: dict[str, Any] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()


def write_archive(
    path: PathOrFile,
    metadata: dict[str, Any],
    states: dict[str, Any],
    pickled: dict[str, Any] | None = None,
) -> Path | None:
    """
    Write an agent file. A file that is already there stays whole until the new one has reached the disk.

    :param path: Where to; ``.zip`` is appended to a name without a suffix, as SB3 does. A binary
        stream is written to as it is.
    :param metadata: JSON-able values, see :func:`to_json_value`.
    :param states: ``policy`` and ``training``: nested dicts, lists and tuples of tensors, numbers, strings and
        ``None``.
    :param pickled: By name, objects that only pickle can store; readers skip them by default.
    :return: The path written, ``None`` for a stream.
    :raises ValueError: If something given could not be read back safely; nothing has been written then.
    :raises OSError: If the disk refuses; the previous file is unchanged then.
    """
    members: dict[str, bytes] = {}
    for name, state in states.items():
        if name not in STATES:
            raise ValueError(f"an agent file has no room for {name!r}, only for {' and '.join(STATES)}")
        members |= dump_state(name, state)
        load_state(name, members)  # better to fail now than when the agent is needed
    if pickled:
        try:
            members[UNTRUSTED] = cloudpickle.dumps(pickled)
        except Exception as error:  # whatever an object's own __reduce__ raises
            raise ValueError(f"pickled: one of {sorted(pickled)} cannot be pickled ({error})") from error
    header = {
        "format": FORMAT_NAME,
        "format_version": FORMAT_VERSION,
        "versions": _package_versions(),
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
        "pickled": sorted(pickled or ()),
        "metadata": metadata,
    }
    try:
        text = json.dumps(header, allow_nan=False, indent=1).encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"metadata: {error}; pass each value through to_json_value first") from error
    if len(text) > MAX_METADATA_BYTES:
        raise ValueError(f"metadata: {len(text)} bytes of JSON are too much; put large arrays into the tensors")
    members = {METADATA: text, **members}
    if not isinstance(path, str | Path):
        _write_zip(cast(BinaryIO, path), members)
        return None
    path = Path(path)
    path = path if path.suffix else Path(f"{path}.zip")
    try:
        with atomic_file(path) as file:
            _write_zip(file, members)
    except OSError as error:
        state = "the previous file is unchanged" if path.exists() else "nothing was written"
        reason = error.strerror or error
        raise OSError(error.errno or errno.EIO, f"could not save {path}: {reason}; {state}") from error
    return path


def read_archive(path: PathOrFile, trust_pickle: bool = False) -> Archive:
    """
    Read and verify an agent file as a whole.

    :param path: A file, with or without its ``.zip``, or a seekable binary stream.
    :param trust_pickle: Also unpickle ``untrusted.pkl``. This runs code of the file's author.
    :return: The verified content.
    :raises FileNotFoundError: If there is no such file.
    :raises CheckpointError: If the file is damaged, tampered with, not an agent of ours, too new, or unsafe.
    """
    with _open_for_reading(path) as (file, label):
        with within(label):
            size = _check_zip(file)
            with zipfile.ZipFile(file) as archive:
                header, members = _read_members(archive, size)
        states = {}
        for name in STATES:
            present = [member for member in members if member.partition(".")[0] == name]
            if present:
                with within(f"{' and '.join(present)} in {label}"):
                    is_old = header["format_version"] == 1
                    states[name] = load_pickled_state(members[f"{name}.pth"]) if is_old else load_state(name, members)
        names = tuple(header["pickled"])
        if not trust_pickle or UNTRUSTED not in members:
            return Archive(label, header["metadata"], states, header["versions"], skipped=names)
        with within(f"{UNTRUSTED} in {label} cannot be unpickled"):
            pickled = dict(cloudpickle.loads(members[UNTRUSTED]))
        return Archive(label, header["metadata"], states, header["versions"], pickled=pickled)


def _package_versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in ("proq-agent", "torch", "stable-baselines3", "gymnasium", "numpy"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "unknown"
    return versions


def _write_zip(file: BinaryIO, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))  # same content, same bytes
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, data)


@contextlib.contextmanager
def _open_for_reading(path: PathOrFile) -> Iterator[tuple[BinaryIO, str]]:
    if not isinstance(path, str | Path):
        yield cast(BinaryIO, path), "the given stream"
        return
    candidates = [Path(path), Path(f"{path}.zip")]
    for candidate in candidates:
        if candidate.is_file():
            with candidate.open("rb") as file:
                yield file, str(candidate)
            return
    if candidates[0].is_dir():
        raise FileNotFoundError(f"{path} is a folder; give the name of the agent's .zip in it")
    also = f", nor {candidates[1]}" if candidates[0].suffix != ".zip" else ""
    raise FileNotFoundError(f"there is no agent file {path}{also}")


def _check_zip(file: BinaryIO) -> int:
    """
    Look at the end of the zip before :mod:`zipfile` makes an object of each entry that it lists.

    :return: the size of the file
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if file.read(2) != b"PK":
        raise CheckpointError("not a zip file, so no agent of ours")
    file.seek(max(0, size - MAX_COMMENT_BYTES - 22 - 20 - 56))  # records of the end, in files beyond 2 GB three of them
    before, _, end = file.read().rpartition(b"PK\x05\x06")
    if len(end) < 18 or not zipfile.is_zipfile(file):
        raise CheckpointError("truncated: the end of the zip is missing")
    directory = int.from_bytes(end[8:12], "little")
    if before[-20:-16] == b"PK\x06\x07":  # which zipfile may yet ignore
        directory = max(directory, int.from_bytes(before[-76:-20][40:48], "little"))
    if directory > MAX_DIRECTORY_BYTES:
        raise CheckpointError(f"{directory} bytes of names, more than any agent of ours has: refused")
    return size


def _check_stored(infos: list[zipfile.ZipInfo], size: int) -> None:
    """Refuse zip bombs: a stored, not overlapping member is never larger than the file it lies in."""
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED:
            raise CheckpointError(f"{info.filename} is compressed, which an agent file never is: refused")
    if sum(info.file_size for info in infos) > size:
        raise CheckpointError("its members declare more bytes than the file has: refused")


def _read_members(archive: zipfile.ZipFile, size: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    infos = archive.infolist()
    names = {info.filename: info for info in infos}
    if METADATA not in names:
        if "_stable_baselines3_version" in names or {"data", "policy.pth"} <= names.keys():
            raise CheckpointError(
                "a Stable-Baselines3 agent of another algorithm, not a ProQ agent: load it with the class that saved it"
            )
        raise CheckpointError(f"a zip, but not a ProQ agent: it has no {METADATA}")
    if names[METADATA].file_size > MAX_METADATA_BYTES:
        raise CheckpointError(f"{METADATA} is larger than {MAX_METADATA_BYTES} bytes: refused")
    _check_stored([names[METADATA]], size)
    with within(f"{METADATA} is malformed"):
        header = json.loads(archive.read(names[METADATA]))
    if not isinstance(header, dict) or header.get("format") != FORMAT_NAME:
        raise CheckpointError(f"a zip, but not a ProQ agent: {METADATA} names another format")
    _check_header(header)
    hashes = header["sha256"]
    if len(names) != len(infos):
        raise CheckpointError("it holds two members of the same name: tampered with")
    if missing := sorted(hashes.keys() - names.keys()):
        raise CheckpointError(f"incomplete: {', '.join(missing)} is missing")
    if extra := sorted(names.keys() - hashes.keys() - {METADATA}):
        raise CheckpointError(f"it holds {', '.join(extra)}, which {METADATA} does not list: tampered with")
    _check_stored(infos, size)
    members = {}
    for name, expected in hashes.items():
        with within(f"{name} is damaged"):
            data = archive.read(name)
        if hashlib.sha256(data).hexdigest() != expected:
            raise CheckpointError(f"{name} does not match its SHA-256: damaged or tampered with")
        members[name] = data
    return header, members


def _check_header(header: dict[str, Any]) -> None:
    version, versions = header.get("format_version"), header.get("versions")
    if type(version) is not int or version < 1 or not isinstance(versions, dict):
        raise CheckpointError(f"{METADATA} is malformed, it has no usable format version")
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"format version {version}, this installation reads up to {FORMAT_VERSION}: "
            f"install proq-agent {versions.get('proq-agent', '(a newer one)')!s:.40} or later"
        )
    hashes, pickled = header.get("sha256"), header.get("pickled")
    if not (
        isinstance(hashes, dict)
        and isinstance(pickled, list)
        and all(isinstance(name, str) for name in pickled)
        and isinstance(header.get("metadata"), dict)
    ):
        raise CheckpointError(f"{METADATA} is malformed")
    with within(METADATA):
        check_names(header, HEADER)
    known = {name + suffix for name in STATES for suffix in SUFFIXES[version]} | {UNTRUSTED}
    if unknown := sorted(hashes.keys() - known):
        raise CheckpointError(f"{METADATA} lists {', '.join(unknown)[:80]}, which no agent of ours has: refused")
