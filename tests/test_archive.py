"""The agent file: what goes in comes out, what is broken or hostile is named and refused, saves are atomic."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3 import SAC
from test_json_values import assert_same

from proq_agent.common.archive import Archive, read_archive, write_archive
from proq_agent.common.json_values import CheckpointError

METADATA = {"n_updates": 3, "name": "maze", "nested": {"list": [1, 2.5, None, True]}}


class Exploit:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.trace),)


def make_tensors(seed: int = 0) -> dict[str, Any]:
    generator = th.Generator().manual_seed(seed)
    net = th.nn.Linear(3, 2)
    with th.no_grad():
        for parameter in net.parameters():
            parameter.copy_(th.rand(parameter.shape, generator=generator))
    optimizer = th.optim.Adam(net.parameters())
    net(th.ones(1, 3)).sum().backward()
    optimizer.step()
    return {
        "policy": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "generator": {"state": generator.get_state(), "history": (1, [2.5, None], "text", True)},
    }


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def with_header(members: dict[str, bytes], **changes: Any) -> dict[str, bytes]:
    """The members with changed entries of their metadata.json; hashes stay as they are unless changed."""
    return {**members, "metadata.json": json.dumps(json.loads(members["metadata.json"]) | changes).encode()}


def rehashed(members: dict[str, bytes]) -> dict[str, bytes]:
    """The members with hashes that fit: what an attacker, unlike an accident, takes care of."""
    hashes = {k: hashlib.sha256(data).hexdigest() for k, data in members.items() if k != "metadata.json"}
    return with_header(members, sha256=hashes)


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = write_archive(tmp_path / "agent", METADATA, make_tensors())
    assert path is not None
    return path


# ---- round trips -------------------------------------------------------------------------------------


def test_archive_round_trip(agent: Path) -> None:
    archive = read_archive(agent)
    assert archive.metadata == METADATA
    assert_same(archive.tensors, make_tensors())
    assert archive.versions["torch"] == th.__version__.split("+")[0] or archive.versions["torch"] == th.__version__
    assert archive.skipped == () and archive.pickled == {}


def test_names_follow_sb3(tmp_path: Path) -> None:
    assert write_archive(str(tmp_path / "new" / "folder" / "x"), {}, {}) == tmp_path / "new" / "folder" / "x.zip"
    assert write_archive(tmp_path / "y.agent", {}, {}) == tmp_path / "y.agent"
    for name in ("new/folder/x", "new/folder/x.zip", "y.agent"):
        assert read_archive(tmp_path / name) == Archive({}, {}, read_archive(tmp_path / name).versions)
    assert read_archive(str(tmp_path / "y.agent")).metadata == {}


def test_stream_round_trip() -> None:
    stream = io.BytesIO()
    assert write_archive(stream, METADATA, make_tensors()) is None
    assert_same(read_archive(stream).tensors, make_tensors())


def test_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (write_archive(tmp_path / name, METADATA, make_tensors()) for name in "ab")
    assert first is not None and second is not None
    assert first.read_bytes() == second.read_bytes()


def test_tensors_go_to_the_device(agent: Path) -> None:
    assert read_archive(agent, device="meta").tensors["policy"]["weight"].device.type == "meta"


@pytest.mark.parametrize("value", [np.float64(1.0), {1, 2}, lambda: 0, np.zeros(2), th.nn.Linear(1, 1)])
def test_unsafe_state_is_refused_at_write_time_by_name(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ValueError, match=r"policy\.a\[1\]"):
        write_archive(tmp_path / "x", {}, {"policy": {"a": [th.zeros(1), value]}})
    assert list(tmp_path.iterdir()) == []


def test_bad_names_and_metadata_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no usable name"):
        write_archive(tmp_path / "x", {}, {"../policy": {}})
    for metadata in ({"a": object()}, {"a": math.nan}):
        with pytest.raises(ValueError, match="to_json_value"):
            write_archive(tmp_path / "x", metadata, {})
    assert list(tmp_path.iterdir()) == []


# ---- broken, foreign and hostile files ---------------------------------------------------------------


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nope.*nope\.zip"):
        read_archive(tmp_path / "nope")
    with pytest.raises(FileNotFoundError, match="is a folder"):
        read_archive(tmp_path)


def test_truncated_and_not_a_zip(agent: Path) -> None:
    data = agent.read_bytes()
    agent.write_bytes(data[: len(data) // 2])
    with pytest.raises(CheckpointError, match="truncated"):
        read_archive(agent)
    agent.write_bytes(b"once upon a time")
    with pytest.raises(CheckpointError, match="not a zip"):
        read_archive(agent)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_damage_is_recognised_or_harmless(data: st.DataObject) -> None:
    stream = io.BytesIO()
    write_archive(stream, METADATA, {"policy": {"weight": th.arange(4.0)}})
    content = bytearray(stream.getvalue())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        archive = read_archive(io.BytesIO(content))
    except CheckpointError:
        return
    # bytes that mean nothing to us, such as a time stamp
    assert archive.metadata == METADATA and th.equal(archive.tensors["policy"]["weight"], th.arange(4.0))


def test_foreign_files_are_named(tmp_path: Path) -> None:
    SAC("MlpPolicy", "Pendulum-v1", buffer_size=1, policy_kwargs={"net_arch": [2]}).save(tmp_path / "sac")
    with pytest.raises(CheckpointError, match="Stable-Baselines3 agent of another algorithm"):
        read_archive(tmp_path / "sac")
    rewrite(tmp_path / "photos.zip", {"a.txt": b""})
    with pytest.raises(CheckpointError, match=r"no metadata\.json"):
        read_archive(tmp_path / "photos.zip")
    rewrite(tmp_path / "other.zip", {"metadata.json": b'{"format": "other"}'})
    with pytest.raises(CheckpointError, match="another format"):
        read_archive(tmp_path / "other.zip")


def test_newer_version_says_what_is_needed(agent: Path) -> None:
    rewrite(agent, with_header(members_of(agent), format_version=7, versions={"proq-agent": "3.2.1"}, sha256=None))
    with pytest.raises(CheckpointError, match=r"format version 7.*up to 1.*3\.2\.1"):
        read_archive(agent)


@pytest.mark.parametrize(
    "changes",
    [
        {"format_version": "1"},
        {"format_version": True},
        {"versions": None},
        {"sha256": []},
        {"sha256": {"/etc/passwd": ""}},
        {"pickled": [{}]},
        {"metadata": 3},
    ],
)
def test_malformed_header(agent: Path, changes: dict[str, Any]) -> None:
    rewrite(agent, with_header(members_of(agent), **changes))
    with pytest.raises(CheckpointError, match="malformed"):
        read_archive(agent)


def test_members_must_be_those_listed(agent: Path) -> None:
    members = members_of(agent)
    rewrite(agent, {name: data for name, data in members.items() if name != "policy.pth"})
    with pytest.raises(CheckpointError, match=r"policy\.pth is missing"):
        read_archive(agent)
    rewrite(agent, members | {"extra.pth": b""})
    with pytest.raises(CheckpointError, match=r"extra\.pth.*does not list"):
        read_archive(agent)
    rewrite(agent, members)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(agent, "a") as archive:
        archive.writestr("policy.pth", b"")
    with pytest.raises(CheckpointError, match="two members"):
        read_archive(agent)


def test_exchanged_member_is_recognised(agent: Path) -> None:
    buffer = io.BytesIO()
    th.save(make_tensors(seed=1)["policy"], buffer)
    rewrite(agent, members_of(agent) | {"policy.pth": buffer.getvalue()})
    with pytest.raises(CheckpointError, match=r"policy\.pth.*SHA-256"):
        read_archive(agent)


def test_zip_bombs_are_refused(agent: Path) -> None:
    members = members_of(agent)
    rewrite(agent, rehashed(members | {"policy.pth": bytes(10**7)}), zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match="compressed"):
        read_archive(agent)
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**7))
    rewrite(agent, rehashed(members | {"policy.pth": inner.getvalue()}))
    with pytest.raises(CheckpointError, match=r"policy\.pth.*compressed"):
        read_archive(agent)


def test_overlapping_members_are_refused(agent: Path) -> None:
    """Two entries of the zip's directory that point at the same bytes."""
    header = with_header(members_of(agent), sha256={"a.pth": "", "b.pth": ""})["metadata.json"]
    rewrite(agent, {"metadata.json": header, "a.pth": bytes(10**5), "b.pth": b""})
    content = agent.read_bytes()
    second = content.rindex(b"PK\x01\x02")
    first = content.rindex(b"PK\x01\x02", 0, second)
    entry = content[first:second].replace(b"a.pth", b"b.pth")
    agent.write_bytes(content[:second] + entry + content[second + len(entry) :])
    with pytest.raises(CheckpointError, match="more bytes than the file has"):
        read_archive(agent)


@pytest.mark.parametrize("zip_format", [True, False])
def test_malicious_pth_is_not_executed(agent: Path, tmp_path: Path, zip_format: bool) -> None:
    trace, buffer = tmp_path / "trace", io.BytesIO()
    th.save({"weight": Exploit(trace)}, buffer, _use_new_zipfile_serialization=zip_format)
    rewrite(agent, rehashed(members_of(agent) | {"policy.pth": buffer.getvalue()}))
    for trust_pickle in (False, True):
        with pytest.raises(CheckpointError, match=r"policy\.pth"):
            read_archive(agent, trust_pickle=trust_pickle)
    assert not trace.exists()
    th.load(io.BytesIO(buffer.getvalue()), weights_only=False)
    assert trace.exists(), "the exploit itself must work, or this test shows nothing"


def test_pickles_are_skipped_unless_trusted(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    double = cloudpickle.loads(cloudpickle.dumps(lambda x: 2 * x))
    path = write_archive(tmp_path / "x", {}, {}, pickled={"schedule": double, "other": Exploit(trace)})
    assert path is not None
    archive = read_archive(path)
    assert archive.skipped == ("other", "schedule") and archive.pickled == {} and not trace.exists()
    archive = read_archive(path, trust_pickle=True)
    assert archive.pickled["schedule"](4) == 8 and archive.skipped == () and trace.exists()
    rewrite(path, members_of(path) | {"untrusted.pkl": b"tampered"})
    with pytest.raises(CheckpointError, match="SHA-256"):
        read_archive(path)
    rewrite(path, rehashed(members_of(path)))
    with pytest.raises(CheckpointError, match="cannot be unpickled"):
        read_archive(path, trust_pickle=True)


def test_unpicklable_object_is_refused_at_write_time(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stream"):
        write_archive(tmp_path / "x", {}, {}, pickled={"stream": sys.stdout.buffer})
    assert list(tmp_path.iterdir()) == []


# ---- atomic writes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_failed_save_keeps_the_previous_file(agent: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    def full_disk(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = agent.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, failing, full_disk)
        with pytest.raises(OSError, match=r"could not save .*No space left.*previous file is unchanged") as caught:
            write_archive(agent, {"new": 1}, {})
        assert caught.value.errno == errno.ENOSPC and "\n" not in str(caught.value)
        with pytest.raises(OSError, match="nothing was written"):
            write_archive(agent.parent / "fresh", {"new": 1}, {})
    assert agent.read_bytes() == before
    assert list(agent.parent.iterdir()) == [agent]


def test_interrupted_save_leaves_no_litter(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    before = agent.read_bytes()
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_archive(agent, {"new": 1}, {})
    assert agent.read_bytes() == before and list(agent.parent.iterdir()) == [agent]


def test_target_in_a_file_or_a_folder_gives_one_clear_line(agent: Path) -> None:
    with pytest.raises(OSError, match="could not save"):
        write_archive(agent / "x.zip", {}, {})
    (agent.parent / "folder.zip").mkdir()
    with pytest.raises(OSError, match="could not save"):
        write_archive(agent.parent / "folder.zip", {}, {})
    assert sorted(path.name for path in agent.parent.iterdir()) == ["agent.zip", "folder.zip"]


def test_links_and_permissions_survive(tmp_path: Path) -> None:
    real, link = tmp_path / "real.zip", tmp_path / "link.zip"
    write_archive(real, {"n": 1}, {})
    link.symlink_to(real)
    write_archive(link, {"n": 2}, {})
    assert link.is_symlink() and read_archive(real).metadata == {"n": 2}
    (tmp_path / "plain").touch()
    assert real.stat().st_mode == (tmp_path / "plain").stat().st_mode


SAVER = """
import os, signal, sys, zipfile
from proq_agent.common.archive import write_archive

path, module, name = sys.argv[1:]
owner = {"os": os, "zip": zipfile.ZipFile}[module]
original, calls = getattr(owner, name), []

def killed(*args):
    calls.append(name)
    if len(calls) == 2 or module == "os":
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*args)

write_archive(path, {"n": 1}, {"policy": {"weight": [1.0]}})
setattr(owner, name, killed)
write_archive(path, {"n": 2}, {"policy": {"weight": [2.0]}})
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["zip writestr", "os fsync", "os replace"])
def test_kill_while_saving_leaves_the_previous_file(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "agent.zip"
    process = subprocess.run([sys.executable, "-c", SAVER, str(path), *moment.split()], check=False)
    assert process.returncode == -signal.SIGKILL
    archive = read_archive(path)
    assert archive.metadata == {"n": 1} and archive.tensors == {"policy": {"weight": [1.0]}}
    write_archive(path, {"n": 3}, {})  # what the dead process left does not hinder the next save
    assert read_archive(path).metadata == {"n": 3}
