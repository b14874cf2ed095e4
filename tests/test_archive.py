"""The agent file: what goes in comes out, what is broken or hostile is named and refused, saves are atomic."""

from __future__ import annotations

import errno
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
import safetensors.torch
import torch as th
from agent_files import (
    Exploit,
    assert_same,
    format_1,
    members_of,
    pickle_program,
    pickled,
    rehashed,
    rewrite,
    with_header,
    within_bounds,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3 import SAC

from proq_agent.common.archive import Archive, read_archive, write_archive
from proq_agent.common.errors import CheckpointError

numbers = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
tensors = st.lists(st.floats(width=32, allow_nan=False), max_size=3).map(th.tensor)
STATES = st.dictionaries(
    st.text(max_size=3) | st.integers(),
    st.recursive(
        numbers | tensors,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    min_size=1,
).map(lambda state: state | {"step": 1})  # with a plain value, so that the order is kept
METADATA = {"n_updates": 3, "name": "maze", "nested": {"list": [1, 2.5, None, True]}}


def make_states(seed: int = 0) -> dict[str, Any]:
    generator = th.Generator().manual_seed(seed)
    net = th.nn.Linear(3, 2)
    with th.no_grad():
        for parameter in net.parameters():
            parameter.copy_(th.rand(parameter.shape, generator=generator))
    optimizer = th.optim.Adam(net.parameters())
    net(th.ones(1, 3)).sum().backward()
    optimizer.step()
    return {
        "policy": dict(sorted(net.state_dict().items())),
        "training": {
            "optimizer": optimizer.state_dict(),
            "generator": {"state": generator.get_state(), "history": (1, [2.5, None], "text", True)},
        },
    }


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = write_archive(tmp_path / "agent", METADATA, make_states())
    assert path is not None
    return path


# ---- round trips -------------------------------------------------------------------------------------


def test_archive_round_trip(agent: Path) -> None:
    archive = read_archive(agent)
    assert archive.metadata == METADATA
    assert_same(archive.states, make_states())
    assert archive.versions["torch"] == th.__version__.split("+")[0] or archive.versions["torch"] == th.__version__
    assert archive.skipped == () and archive.pickled == {}


def test_other_tools_read_the_weights(agent: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.safetensors").write_bytes(members_of(agent)["policy.safetensors"])
    weights = safetensors.torch.load_file(tmp_path / "policy.safetensors")
    assert_same(dict(sorted(weights.items())), make_states()["policy"])


def test_a_file_of_format_1_holds_the_same(agent: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.zip"
    rewrite(old, rehashed(format_1(agent)))
    assert_same(read_archive(old).states, read_archive(agent).states)
    assert sorted(members_of(old)) == ["metadata.json", "policy.pth", "training.pth"]


def test_shared_and_strided_tensors_come_back_as_they_were(tmp_path: Path) -> None:
    base = th.arange(12.0).reshape(3, 4)
    state = {"base": base, "columns": base.T, "part": base[1:, 2], "same": base, "none": th.empty(0, 3)}
    for data in (write_archive(tmp_path / "new", {}, {"policy": state}), tmp_path / "old.zip"):
        assert data is not None
        if data.name == "old.zip":
            members = members_of(tmp_path / "new.zip")
            del members["policy.safetensors"]
            rewrite(data, rehashed(with_header(members | {"policy.pth": pickled(state)}, format_version=1)))
        loaded = read_archive(data).states["policy"]
        assert_same({name: loaded[name] for name in state}, state)


def test_names_follow_sb3(tmp_path: Path) -> None:
    assert write_archive(str(tmp_path / "new" / "folder" / "x"), {}, {}) == tmp_path / "new" / "folder" / "x.zip"
    assert write_archive(tmp_path / "y.agent", {}, {}) == tmp_path / "y.agent"
    for name in ("new/folder/x", "new/folder/x.zip", "y.agent"):
        archive = read_archive(tmp_path / name)
        assert archive == Archive(archive.label, {}, {}, archive.versions)
    assert read_archive(str(tmp_path / "y.agent")).metadata == {}


def test_stream_round_trip() -> None:
    stream = io.BytesIO()
    assert write_archive(stream, METADATA, make_states()) is None
    assert_same(read_archive(stream).states, make_states())


def test_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (write_archive(tmp_path / name, METADATA, make_states()) for name in "ab")
    assert first is not None and second is not None
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("value", [np.float64(1.0), {1, 2}, lambda: 0, np.zeros(2), th.nn.Linear(1, 1)])
def test_unsafe_state_is_refused_at_write_time_by_name(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ValueError, match=r"policy\.a\[1\]"):
        write_archive(tmp_path / "x", {}, {"policy": {"a": [th.zeros(1), value]}})
    assert list(tmp_path.iterdir()) == []


def test_bad_names_and_metadata_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no room for"):
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
    assert archive.metadata == METADATA and th.equal(archive.states["policy"]["weight"], th.arange(4.0))


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
    with pytest.raises(CheckpointError, match=r"format version 7.*up to 2.*3\.2\.1"):
        read_archive(agent)


@pytest.mark.parametrize(
    "changes",
    [
        {"format_version": "1"},
        {"format_version": True},
        {"versions": None},
        {"sha256": []},
        {"pickled": [{}]},
        {"metadata": 3},
    ],
)
def test_malformed_header(agent: Path, changes: dict[str, Any]) -> None:
    rewrite(agent, with_header(members_of(agent), **changes))
    with pytest.raises(CheckpointError, match="malformed"):
        read_archive(agent)


@pytest.mark.parametrize("name", ["/etc/passwd", "extra.pth", "policy.pth", "policy.json.safetensors"])
def test_a_member_that_no_agent_has_is_refused_unread(agent: Path, name: str) -> None:
    rewrite(agent, rehashed(members_of(agent) | {name: b"anything"}))
    with pytest.raises(CheckpointError, match="which no agent of ours has"):
        read_archive(agent)


def test_members_must_be_those_listed(agent: Path) -> None:
    members = members_of(agent)
    rewrite(agent, {name: data for name, data in members.items() if name != "policy.safetensors"})
    with pytest.raises(CheckpointError, match=r"policy\.safetensors is missing"):
        read_archive(agent)
    rewrite(agent, members | {"policy.pth": b""})
    with pytest.raises(CheckpointError, match=r"policy\.pth.*does not list"):
        read_archive(agent)
    rewrite(agent, members)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(agent, "a") as archive:
        archive.writestr("policy.safetensors", b"")
    with pytest.raises(CheckpointError, match="two members"):
        read_archive(agent)


def test_exchanged_member_is_recognised(agent: Path) -> None:
    other = write_archive(agent.with_name("other"), METADATA, make_states(seed=1))
    assert other is not None
    rewrite(agent, members_of(agent) | {"policy.safetensors": members_of(other)["policy.safetensors"]})
    with pytest.raises(CheckpointError, match=r"policy\.safetensors.*SHA-256"):
        read_archive(agent)


def test_zip_bombs_are_refused(agent: Path) -> None:
    members = format_1(agent)
    rewrite(agent, rehashed(members | {"policy.pth": bytes(10**7)}), zipfile.ZIP_DEFLATED)
    with pytest.raises(CheckpointError, match="compressed"):
        read_archive(agent)
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**7))
    rewrite(agent, rehashed(members | {"policy.pth": inner.getvalue()}))
    with pytest.raises(CheckpointError, match=r"policy\.pth.*compressed"):
        read_archive(agent)


LONG = "x" * 2**22  # beyond what JSON may have, with the little that is around it


def test_much_json_is_refused_unread(agent: Path) -> None:
    members = members_of(agent)
    index, length = members["policy.safetensors"], 2**22 + 8
    index = length.to_bytes(8, "little") + index[8:].replace(
        b"{", b"{" + b" " * (length - int.from_bytes(index[:8], "little")), 1
    )
    for changed, message in (
        (with_header(members, long=LONG), r"metadata\.json is larger than"),
        (rehashed(members | {"training.json": f'"{LONG}"'.encode()}), r"training\.json.*index is larger than"),
        (rehashed(members | {"policy.safetensors": index}), r"policy\.safetensors.*index is larger than"),
    ):
        rewrite(agent, changed)
        with pytest.raises(CheckpointError, match=message):
            read_archive(agent)


def test_what_would_be_refused_is_not_written(tmp_path: Path) -> None:
    for metadata, states, message in (
        ({"long": LONG}, make_states(), "metadata: .* too much"),
        (METADATA, {"policy": {"long": LONG}}, "policy: too many plain values"),
    ):
        with pytest.raises(ValueError, match=message):
            write_archive(tmp_path / "agent", metadata, states)
    assert not list(tmp_path.iterdir())


def test_overlapping_members_are_refused(agent: Path) -> None:
    """Two entries of the zip's directory that point at the same bytes."""
    names = "training.json", "untrusted.pkl"
    header = with_header(members_of(agent), sha256=dict.fromkeys(names, ""))["metadata.json"]
    rewrite(agent, {"metadata.json": header, names[0]: bytes(10**5), names[1]: b""})
    content = agent.read_bytes()
    second = content.rindex(b"PK\x01\x02")
    first = content.rindex(b"PK\x01\x02", 0, second)
    entry = content[first:second].replace(*(name.encode() for name in names))
    agent.write_bytes(content[:second] + entry + content[second + len(entry) :])
    with pytest.raises(CheckpointError, match="more bytes than the file has"):
        read_archive(agent)


@pytest.mark.parametrize("zip_format", [True, False])
def test_malicious_pth_is_not_executed(agent: Path, tmp_path: Path, zip_format: bool) -> None:
    trace, buffer = tmp_path / "trace", io.BytesIO()
    th.save({"weight": Exploit(trace)}, buffer, _use_new_zipfile_serialization=zip_format)
    rewrite(agent, rehashed(format_1(agent) | {"policy.pth": buffer.getvalue()}))
    for trust_pickle in (False, True):
        with pytest.raises(CheckpointError, match=r"policy\.pth"):
            read_archive(agent, trust_pickle=trust_pickle)
    assert not trace.exists()
    th.load(io.BytesIO(buffer.getvalue()), weights_only=False)
    assert trace.exists(), "the exploit itself must work, or this test shows nothing"


BILLION_LAUGHS = b"(]q\x00" + b"".join(
    b"]q" + bytes([level]) + b"(" + (b"h" + bytes([level - 1])) * 10 + b"e" for level in range(1, 9)
)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (b"\x80\x02c__builtin__\nbytearray\nJ\x00\x00\x00p\x85R.", "bytearray"),
        (b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00echo\x85R.", "os system"),
        (b"\x80\x02]r\xff\xff\xff\x7f.", None),  # room for two billion objects, where a list would hold them
        (b"\x80\x02\x96\x00\x00\x00\x00\x01\x00\x00\x00.", "expected 4294967296 bytes"),
        (b"\x80\x02" + BILLION_LAUGHS + b"t.", "more than 100000 values"),
        (b"\x80\x02" + b"N" * 10**6 + b".", "more than 100000 values"),
        (b"\x80\x02]q\x00h\x00a.", ""),  # a list that holds itself
        (b"", "exhausted"),
    ],
)
def test_a_pickle_is_never_run(agent: Path, program: bytes, message: str | None) -> None:
    rewrite(agent, rehashed(format_1(agent) | {"policy.pth": pickle_program(program)}))
    with within_bounds(agent.stat().st_size):
        if message is None:
            assert read_archive(agent).states["policy"] == []
        else:
            with pytest.raises(CheckpointError, match=rf"policy\.pth.*({message})"):
                read_archive(agent)


@pytest.mark.parametrize("size", [(10**9,), (10**5, 10**5), (-1, 4)])
def test_a_tensor_larger_than_its_bytes_is_refused(agent: Path, size: tuple[int, ...]) -> None:
    small = pickled({"weight": th.zeros(4)})
    state = io.BytesIO(small)
    program = members_of(state)["archive/data.pkl"]
    shape = b"K\x04\x85"
    assert shape in program  # the tuple (4,)
    numbers = b"".join(b"J" + number.to_bytes(4, "little", signed=True) for number in size)
    strides = b"K\x00" * len(size)
    end = b"\x85" if len(size) == 1 else b"\x86"
    at = program.index(shape)
    after = program.index(b"K\x01\x85", at) + 3
    between = program[at + 3 : after - 3]
    program = program[:at] + numbers + end + between + strides + end + program[after:]
    members = {name: program if name.endswith("data.pkl") else data for name, data in members_of(state).items()}
    hostile = io.BytesIO()
    rewrite(hostile, members)
    rewrite(agent, rehashed(format_1(agent) | {"policy.pth": hostile.getvalue()}))
    with within_bounds(agent.stat().st_size), pytest.raises(CheckpointError, match=r"policy\.pth.*a tensor of"):
        read_archive(agent)


def test_a_zip_with_very_many_members_is_refused_unread(agent: Path) -> None:
    rewrite(agent, members_of(agent) | {f"{number}": b"" for number in range(100_000)})
    with within_bounds(agent.stat().st_size), pytest.raises(CheckpointError, match="bytes of names"):
        read_archive(agent)


def test_a_zip_that_tells_another_size_where_few_look_is_refused_unread(agent: Path) -> None:
    """What looks like the records of a large zip is the comment of its last member."""
    record = bytes(40) + (100).to_bytes(8, "little") + bytes(8) + b"PK\x06\x07" + bytes(12) + b"\1\0\0\0"
    with zipfile.ZipFile(agent, "w") as archive:
        for number in range(1000):
            info = zipfile.ZipInfo(f"{number}")
            info.comment = record if number == 999 else b""
            archive.writestr(info, b"")
    with pytest.raises(CheckpointError, match="bytes of names"):
        read_archive(agent)


@pytest.mark.parametrize("rest", ["{}", '{"dict": 3}', '{"tensor": "no"}', "[" * 100_000, '{"tuple": {}}', "[]"])
def test_malformed_plain_values_are_refused(agent: Path, rest: str) -> None:
    rewrite(agent, rehashed(members_of(agent) | {"training.json": rest.encode()}))
    with within_bounds(agent.stat().st_size), pytest.raises(CheckpointError, match=r"training\.json in"):
        read_archive(agent)


def test_a_tensor_is_used_once(agent: Path) -> None:
    twice = json.dumps({"dict": [["a", {"tensor": "x"}], ["b", {"tensor": "x"}]]})
    tensors = safetensors.torch.save({"x": th.zeros(2)})
    rewrite(agent, rehashed(members_of(agent) | {"policy.safetensors": tensors, "policy.json": twice.encode()}))
    with pytest.raises(CheckpointError, match=r"policy\.safetensors and policy\.json"):
        read_archive(agent)


@settings(max_examples=30, deadline=None)
@given(STATES)
def test_any_state_comes_back(state: Any) -> None:
    stream = io.BytesIO()
    write_archive(stream, {}, {"training": state})
    assert_same(read_archive(stream).states["training"], state)


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
    assert archive.metadata == {"n": 1} and archive.states == {"policy": {"weight": [1.0]}}
    write_archive(path, {"n": 3}, {})  # what the dead process left does not hinder the next save
    assert read_archive(path).metadata == {"n": 3}
