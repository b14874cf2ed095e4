"""The agent file: one zip of JSON and tensors, written atomically and read without running anyone's code.

=================  ====================================================================================
``metadata.json``  format name and version, package versions, SHA-256 of every other member, and the
                   caller's metadata (hyperparameters, spaces) as plain JSON
``<name>.pth``     one state dict each, loaded with ``weights_only=True``
``untrusted.pkl``  only where asked for: what JSON cannot say; never opened without ``trust_pickle=True``
=================  ====================================================================================

Members are stored, never compressed, so that no file can claim more memory than its own size on disk.
The hashes recognise damage and careless edits; they are no signature, and nothing relies on them for safety.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.metadata
import io
import json
import os
import pickle
import platform
import re
import uuid
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import cloudpickle
import torch as th
from stable_baselines3.common.utils import get_device

from proq_agent.common.json_values import CheckpointError

FORMAT_NAME = "proq"
FORMAT_VERSION = 1
METADATA, UNTRUSTED = "metadata.json", "untrusted.pkl"
MAX_METADATA_BYTES = 2**26

PathOrFile = str | Path | BinaryIO | io.BufferedIOBase


@dataclass(frozen=True)
class Archive:
    """
    What an agent file holds.

    :param metadata: The JSON that was given to :func:`write_archive`.
    :param tensors: State dicts by name.
    :param versions: Versions of the packages that wrote the file.
    :param pickled: Unpickled objects by name; empty without ``trust_pickle=True``.
    :param skipped: Names of pickled objects that were left unopened.
    """

    metadata: dict[str, Any]
    tensors: dict[str, Any] = field(repr=False)
    versions: dict[str, str]
    pickled: dict[str, Any] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()


# ---- the zip -----------------------------------------------------------------------------------------


def write_archive(
    path: PathOrFile,
    metadata: dict[str, Any],
    tensors: dict[str, Any],
    pickled: dict[str, Any] | None = None,
) -> Path | None:
    """
    Write an agent file. A file that is already there stays whole until the new one has reached the disk.

    :param path: Where to; ``.zip`` is appended to a name without a suffix, as SB3 does. A binary
        stream is written to as it is.
    :param metadata: JSON-able values, see :func:`to_json_value`.
    :param tensors: By name, nested dicts, lists and tuples of tensors, numbers, strings and ``None``.
    :param pickled: By name, objects that only pickle can store; readers skip them by default.
    :return: The path written, ``None`` for a stream.
    :raises ValueError: If something given could not be read back safely; nothing has been written then.
    :raises OSError: If the disk refuses; the previous file is unchanged then.
    """
    members: dict[str, bytes] = {}
    for name, value in tensors.items():
        if not re.fullmatch(r"[\w.-]+", name):
            raise ValueError(f"tensors: {name!r} is no usable name; use letters, digits, '_', '-' and '.'")
        members[f"{name}.pth"] = _dump_tensors(value, name)
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
    _replace_file(path, members)
    return path


def read_archive(path: PathOrFile, device: th.device | str = "cpu", trust_pickle: bool = False) -> Archive:
    """
    Read and verify an agent file as a whole.

    :param path: A file, with or without its ``.zip``, or a seekable binary stream.
    :param device: Where the tensors go; ``"auto"`` as in SB3.
    :param trust_pickle: Also unpickle ``untrusted.pkl``. This runs code of the file's author.
    :return: The verified content.
    :raises FileNotFoundError: If there is no such file.
    :raises CheckpointError: If the file is damaged, tampered with, not an agent of ours, too new, or unsafe.
    """
    target = get_device(device)
    with _open_for_reading(path) as (file, label):
        try:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            if file.read(2) != b"PK":
                raise CheckpointError(f"{label} is not a zip file, so no agent of ours")
            if not zipfile.is_zipfile(file):
                raise CheckpointError(f"{label} is truncated: the end of the zip is missing")
            with zipfile.ZipFile(file) as archive:
                header, members = _read_members(archive, size, label)
        except CheckpointError:
            raise
        except Exception as error:  # zipfile meets garbage with a dozen kinds of exceptions
            raise CheckpointError(f"{label} is damaged and cannot be read ({error})") from error
    tensors = {
        name.removesuffix(".pth"): _load_tensors(data, f"{name} in {label}", target)
        for name, data in members.items()
        if name != UNTRUSTED
    }
    names = tuple(header["pickled"])
    if not trust_pickle or UNTRUSTED not in members:
        return Archive(header["metadata"], tensors, header["versions"], skipped=names)
    try:
        pickled = dict(cloudpickle.loads(members[UNTRUSTED]))
    except Exception as error:
        raise CheckpointError(f"{UNTRUSTED} in {label} cannot be unpickled ({error})") from error
    return Archive(header["metadata"], tensors, header["versions"], pickled=pickled)


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


def _replace_file(path: Path, members: dict[str, bytes]) -> None:
    """Write beside the file and rename: a reader sees the old file or the new one, never a mixture."""
    target = path.resolve()  # a link stays a link
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            _write_zip(file, members)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        state = "the previous file is unchanged" if target.exists() else "nothing was written"
        reason = error.strerror or error
        raise OSError(error.errno or errno.EIO, f"could not save {path}: {reason}; {state}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    with contextlib.suppress(OSError, AttributeError):  # makes the rename durable; not every system can
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


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
    raise FileNotFoundError(f"there is no agent file {path}, nor {candidates[1]}")


def _check_stored(infos: list[zipfile.ZipInfo], size: int, label: str) -> None:
    """Refuse zip bombs: a stored, not overlapping member is never larger than the file it lies in."""
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED:
            raise CheckpointError(f"{label}: {info.filename} is compressed, which an agent file never is: refused")
    if sum(info.file_size for info in infos) > size:
        raise CheckpointError(f"{label}: its members declare more bytes than the file has: refused")


def _read_members(archive: zipfile.ZipFile, size: int, label: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    infos = archive.infolist()
    names = {info.filename: info for info in infos}
    if METADATA not in names:
        if "_stable_baselines3_version" in names or {"data", "policy.pth"} <= names.keys():
            raise CheckpointError(
                f"{label} is a Stable-Baselines3 agent of another algorithm, not a ProQ agent: "
                "load it with the class that saved it"
            )
        raise CheckpointError(f"{label} is a zip, but not a ProQ agent: it has no {METADATA}")
    if names[METADATA].file_size > MAX_METADATA_BYTES:
        raise CheckpointError(f"{label}: {METADATA} is larger than {MAX_METADATA_BYTES} bytes: refused")
    _check_stored([names[METADATA]], size, label)
    header = json.loads(archive.read(names[METADATA]))
    if not isinstance(header, dict) or header.get("format") != FORMAT_NAME:
        raise CheckpointError(f"{label} is a zip, but not a ProQ agent: {METADATA} names another format")
    _check_version(header, label)
    hashes, pickled = header.get("sha256"), header.get("pickled")
    if not (
        isinstance(hashes, dict)
        and all(name.endswith(".pth") or name == UNTRUSTED for name in hashes)
        and isinstance(pickled, list)
        and all(isinstance(name, str) for name in pickled)
        and isinstance(header.get("metadata"), dict)
    ):
        raise CheckpointError(f"{label}: {METADATA} is malformed")
    if len(names) != len(infos):
        raise CheckpointError(f"{label} holds two members of the same name: tampered with")
    if missing := sorted(hashes.keys() - names.keys()):
        raise CheckpointError(f"{label} is incomplete: {', '.join(missing)} is missing")
    if extra := sorted(names.keys() - hashes.keys() - {METADATA}):
        raise CheckpointError(f"{label} holds {', '.join(extra)}, which {METADATA} does not list: tampered with")
    _check_stored(infos, size, label)
    members = {}
    for name, expected in hashes.items():
        try:
            data = archive.read(name)
        except Exception as error:
            raise CheckpointError(f"{name} in {label} is damaged ({error})") from error
        if hashlib.sha256(data).hexdigest() != expected:
            raise CheckpointError(f"{name} in {label} does not match its SHA-256: damaged or tampered with")
        members[name] = data
    return header, members


def _check_version(header: dict[str, Any], label: str) -> None:
    version, versions = header.get("format_version"), header.get("versions")
    if type(version) is not int or version < 1 or not isinstance(versions, dict):
        raise CheckpointError(f"{label}: {METADATA} is malformed, it has no usable format version")
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"{label} has format version {version}, this installation reads up to {FORMAT_VERSION}: "
            f"install proq-agent {versions.get('proq-agent', '(a newer one)')} or later"
        )


def _dump_tensors(value: Any, where: str) -> bytes:
    _check_plain(value, where)
    buffer = io.BytesIO()
    th.save(value, buffer)
    data = buffer.getvalue()
    _load_tensors(data, where, th.device("cpu"))  # better to fail now than when the agent is needed
    return data


def _check_plain(value: Any, where: str) -> None:
    """Exact types: NumPy's float64 *is* a float, yet ``weights_only`` refuses it."""
    if type(value) in (dict, OrderedDict):
        for key, item in value.items():
            if type(key) not in (str, int):
                raise ValueError(f"{where}: the key {key!r} is neither a string nor an integer")
            _check_plain(item, f"{where}.{key}")
    elif type(value) in (list, tuple, th.Size):
        for index, item in enumerate(value):
            _check_plain(item, f"{where}[{index}]")
    elif not isinstance(value, th.Tensor) and type(value) not in (bool, int, float, str, type(None)):
        raise ValueError(
            f"{where} is a {type(value).__module__}.{type(value).__qualname__}; "
            "state dicts may hold tensors, plain numbers, strings and None"
        )


def _load_tensors(data: bytes, where: str, device: th.device) -> Any:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as inner:  # also rules torch's older, non-zip formats out
            _check_stored(inner.infolist(), len(data), where)
        return th.load(io.BytesIO(data), map_location=device, weights_only=True)
    except CheckpointError:
        raise
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{where} holds more than tensors and plain values, loading it could run foreign code: refused"
        ) from error
    except Exception as error:
        raise CheckpointError(f"{where} is no readable tensor file ({error})") from error
