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
from collections import OrderedDict
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3 import SAC
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule

from proq_agent.checkpoint import (
    Archive,
    CheckpointError,
    from_json_value,
    read_archive,
    space_from_json,
    space_to_json,
    to_json_value,
    write_archive,
)

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
from proq_agent.checkpoint import write_archive

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


# ---- values as JSON ----------------------------------------------------------------------------------

DTYPES = ["bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "float64"]
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
tagged = st.sampled_from(["__tuple__", "__float__", "__dict__", "__array__", "__eval__"])
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=4) | tagged, inner, max_size=3)
    ),
    max_leaves=12,
)


@given(values)
def test_json_values_round_trip(value: Any) -> None:
    text = json.dumps(to_json_value(value, "value"), allow_nan=False)
    assert_same(from_json_value(json.loads(text)), value)


@given(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3), st.randoms())
def test_arrays_round_trip(dtype: str, shape: list[int], random: Any) -> None:
    data = [random.choice([0, 1, 100] + [math.inf, -math.inf] * dtype.startswith("f")) for _ in range(math.prod(shape))]
    array = np.array(data, dtype=dtype).reshape(shape)
    assert_same(from_json_value(json.loads(json.dumps(to_json_value(array, "array")))), array)


def test_numpy_scalars_and_devices_become_plain() -> None:
    value = {"a": np.float32(0.5), "b": np.int64(2**62), "c": np.bool_(True), "d": th.device("cpu"), "e": np.str_("x")}
    plain = {"a": 0.5, "b": 2**62, "c": True, "d": "cpu", "e": "x"}
    assert_same(to_json_value(value, "value"), plain)
    assert to_json_value(np.float64("nan"), "value") == {"__float__": "nan"}


@pytest.mark.parametrize(
    "schedule",
    [
        ConstantSchedule(3e-4),
        LinearSchedule(1e-3, 1e-5, 0.7),
        FloatSchedule(3e-4),
        FloatSchedule(LinearSchedule(1e-3, 0.0, 1.0)),
    ],
)
def test_schedules_round_trip(schedule: Any) -> None:
    back = from_json_value(json.loads(json.dumps(to_json_value(schedule, "learning_rate"))))
    assert repr(back) == repr(schedule) and type(back) is type(schedule)
    assert [back(x) for x in (1.0, 0.5, 0.1)] == [schedule(x) for x in (1.0, 0.5, 0.1)]


def test_classes_round_trip() -> None:
    value = {"activation_fn": th.nn.GELU, "optimizer_class": th.optim.AdamW}
    assert to_json_value(value, "policy_kwargs")["activation_fn"] == {"__activation__": "GELU"}
    assert from_json_value(to_json_value(value, "policy_kwargs")) == value


class GELU(th.nn.Module):
    """Only its name is that of a known activation."""


@pytest.mark.parametrize(
    "value",
    [lambda x: x, FloatSchedule(lambda x: x), GELU, th.nn.GELU(), {1: 2}, {1}, 1j, b"x", np.zeros(10_001), object()],
)
def test_what_json_cannot_say_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ValueError, match=r"policy_kwargs\.thing"):
        to_json_value({"thing": value}, "policy_kwargs")


@pytest.mark.parametrize(
    "value",
    [
        {"__eval__": "1 + 1"},
        {"__activation__": "Linear"},
        {"__activation__": ["GELU"]},
        {"__float__": "1.0"},
        {"__tuple__": "abc"},
        {"__dict__": 3},
        {"__array__": {"dtype": "object", "shape": [1], "data": [0]}},
        {"__array__": {"dtype": "float32", "shape": [2], "data": [0]}},
        {"__array__": {"dtype": "float32"}},
        {"__schedule__": ["LinearSchedule", 1.0]},
        {"__schedule__": ["ConstantSchedule", "x"]},
        {"__schedule__": ["system", "true"]},
        {"__schedule__": []},
    ],
)
def test_malformed_values_are_refused(value: Any) -> None:
    with pytest.raises(CheckpointError):
        from_json_value([value])


# ---- spaces as JSON ----------------------------------------------------------------------------------


@st.composite
def boxes(draw: st.DrawFn) -> spaces.Box:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        numbers: st.SearchStrategy[Any] = st.integers(int(limits.min), int(limits.max))
    elif dtype.kind == "f":
        numbers = st.floats(width=8 * dtype.itemsize, allow_nan=False)  # type: ignore[arg-type]
    else:
        numbers = st.booleans()
    size = math.prod(shape)
    pairs = [sorted(draw(st.tuples(numbers, numbers))) for _ in range(1 if draw(st.booleans()) else size)]
    bounds = np.array(pairs * size if len(pairs) == 1 else pairs, dtype=dtype).reshape(-1, 2)[:size]
    return spaces.Box(bounds[:, 0].reshape(shape), bounds[:, 1].reshape(shape), dtype=dtype)


integers = st.sampled_from([np.int8, np.int32, np.int64])
leaves = (
    boxes()
    | st.builds(
        lambda n, start, dtype: spaces.Discrete(n, start=start, dtype=dtype), *[st.integers(1, 9)] * 2, integers
    )
    | st.builds(
        lambda nvec, dtype: spaces.MultiDiscrete(nvec, dtype=dtype, start=np.ones_like(nvec)),
        st.lists(st.integers(1, 9), min_size=1, max_size=4).map(np.array),
        integers,
    )
    | (st.integers(1, 5) | st.lists(st.integers(1, 5), min_size=1, max_size=3)).map(spaces.MultiBinary)
)
any_space = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3).map(spaces.Tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3).map(lambda d: spaces.Dict(OrderedDict(d)))
    ),
    max_leaves=5,
)


def assert_same_space(actual: Any, expected: Any) -> None:
    """Stricter than ``==``, which compares bounds only approximately."""
    assert type(actual) is type(expected) and actual.dtype == expected.dtype and actual.shape == expected.shape
    if isinstance(expected, spaces.Box):
        for name in ("low", "high", "bounded_below", "bounded_above"):
            assert_same(getattr(actual, name), getattr(expected, name))
    elif isinstance(expected, spaces.Dict | spaces.Tuple):
        assert len(actual) == len(expected)
        if isinstance(expected, spaces.Dict):
            assert list(actual) == list(expected)
        for key in expected if isinstance(expected, spaces.Dict) else range(len(expected)):
            assert_same_space(actual[key], expected[key])
    else:
        assert actual == expected


@given(any_space)
def test_spaces_round_trip(space: Any) -> None:
    text = json.dumps(space_to_json(space), allow_nan=False)
    assert_same_space(space_from_json(json.loads(text)), space)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_unbounded_integer_box_stays_unbounded(dtype: Any) -> None:
    back = space_from_json(space_to_json(spaces.Box(-math.inf, math.inf, (2,), dtype)))
    assert_same_space(back, spaces.Box(-math.inf, math.inf, (2,), dtype))
    half = spaces.Box(np.array([-math.inf, 3.0]), 5, dtype=dtype)
    back = space_from_json(space_to_json(half))
    assert_same_space(back, half)
    assert isinstance(back, spaces.Box) and back.bounded_below.tolist() == [False, True]


def test_uniform_bounds_are_stored_once() -> None:
    description = space_to_json(spaces.Box(-np.inf, 255, (84, 84, 3), np.float32))
    assert (description["low"], description["high"]) == ({"__float__": "-inf"}, 255.0)


@pytest.mark.parametrize(
    "space", [spaces.Text(3), spaces.Dict({1: spaces.Discrete(2)}), spaces.Sequence(spaces.Discrete(2))]
)
def test_other_spaces_are_refused(space: Any) -> None:
    with pytest.raises(ValueError, match="cannot be stored"):
        space_to_json(space)


@pytest.mark.parametrize(
    "description",
    [
        {},
        [],
        {"type": "os.system"},
        {"type": "Discrete", "n": 0, "start": 0, "dtype": "int64"},
        {"type": "Box", "shape": [2], "dtype": "object", "low": 0, "high": 1},
        {"type": "Box", "shape": [2], "dtype": "float32", "low": [0], "high": 1},
        {"type": "Box", "shape": [2], "dtype": "float32", "low": 2, "high": 1},
        {"type": "Box", "shape": [10**6, 10**6], "dtype": "float32", "low": 0, "high": 1},
        {"type": "Box", "shape": [2], "dtype": "uint8", "low": 0, "high": 256},
        {"type": "MultiBinary", "n": [10**6, 10**6]},
        {"type": "Tuple", "spaces": [{"type": "Dict", "spaces": []}]},
    ],
)
def test_malformed_spaces_are_refused(description: Any) -> None:
    with pytest.raises(CheckpointError):
        space_from_json(description)
