"""Whatever is wrong with an ``.npz``, it is one error that names the file, and costs little."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_files import within_bounds

from proq_agent import GoalDataset
from proq_agent.common.npz import read_npz


def npy(shape: str = "(2, 2)", dtype: str = "'<f4'", data: bytes = bytes(16), version: int = 1) -> bytes:
    """An array as its file describes it, whatever follows."""
    header = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    size = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + data


def write(path: Path, compression: int = zipfile.ZIP_STORED, **arrays: bytes) -> Path:
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in arrays.items():
            file.writestr(f"{name}.npy", data)
    return path


def good() -> dict[str, Any]:
    ends = np.array([False, False, True])
    return {"observations": np.zeros((3, 2)), "actions": np.zeros((3, 1)), "terminals": ends}


def plain(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "observations",
    [
        npy(shape="(1000000000000, 2)"),
        npy(shape="(10000000000, )"),
        npy(shape="()"),
        npy(shape="(-1, 2)"),
        npy(shape="(2, 'a')"),
        npy(shape="(" * 3000 + ")" * 3000, version=2),
        npy(dtype="'|O'"),
        npy(dtype="'nonsense'"),
        npy(dtype="[('a', '<f4')]"),
        npy(data=b""),
        npy()[:9],
        npy(version=9),
        b"",
        b"once upon a time",
    ],
)
def test_a_malformed_array_is_one_error_that_names_the_file(tmp_path: Path, observations: bytes) -> None:
    rest = {name: plain(array) for name, array in good().items() if name != "observations"}
    path = write(tmp_path / "set.npz", observations=observations, **rest)
    with within_bounds(path.stat().st_size), pytest.raises(ValueError, match=r"set\.npz|observations") as caught:
        GoalDataset.from_npz(path)
    assert type(caught.value) is ValueError and "\n" not in str(caught.value)


def test_an_array_that_unfolds_to_a_thousand_times_its_size_is_refused(tmp_path: Path) -> None:
    zeros = npy(shape="(15000000, 2)", data=bytes(12 * 10**7))
    path = write(tmp_path / "set.npz", zipfile.ZIP_DEFLATED, observations=zeros)
    assert path.stat().st_size < 10**6
    with within_bounds(path.stat().st_size), pytest.raises(ValueError, match="more numbers than a file of this size"):
        read_npz(path, ("observations",))


READERS = pytest.mark.parametrize("read", [GoalDataset.from_npz, GoalDataset.from_files])


@READERS
def test_a_header_is_not_read_whatever_its_length(tmp_path: Path, read: Callable[[Path], GoalDataset]) -> None:
    arrays = {name: plain(array) for name, array in good().items()}
    endless = b"\x93NUMPY\x02\x00" + b"\xff" * 4 + b" " * (4 * 10**8)
    path = write(tmp_path / "set.npz", zipfile.ZIP_DEFLATED, **arrays | {"observations": endless})
    del endless
    with within_bounds(path.stat().st_size), pytest.raises(ValueError, match=r"set\.npz"):
        read(path)


@READERS
@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compression_that_unfolds_all_it_is_fed_is_refused(
    tmp_path: Path, compression: int, read: Callable[[Path], GoalDataset]
) -> None:
    """From 4 kB of bzip2 came 6 GB, of which but a few bytes were asked for."""
    path = write(tmp_path / "set.npz", compression, **{name: plain(array) for name, array in good().items()})
    with pytest.raises(ValueError, match=r"set\.npz.* is compressed in another way than by numpy\.savez_compressed"):
        read(path)


@pytest.mark.parametrize(("dtype", "refused"), [(np.uint8, True), (np.float32, False)])
def test_numbers_that_compress_well_are_bounded_as_they_are_used(tmp_path: Path, dtype: type, refused: bool) -> None:
    """A number of one byte takes four when it is used."""
    rows, path = 1_600_000 if refused else 800_000, tmp_path / "set.npz"
    arrays = {"observations": np.zeros((rows, 25), dtype), "actions": np.zeros((rows, 1), dtype)}
    np.savez_compressed(path, **arrays, terminals=np.arange(rows) == rows - 1)  # type: ignore[arg-type]
    expected = pytest.raises(ValueError, match=r"than a file of this size.*numpy\.savez") if refused else nullcontext()
    with within_bounds(path.stat().st_size), expected:
        GoalDataset.from_npz(path)


def test_damaged_compression_and_other_methods_are_named(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "set.npz", **good())
    content = bytearray((tmp_path / "set.npz").read_bytes())
    with zipfile.ZipFile(tmp_path / "set.npz") as file:
        start = file.getinfo("observations.npy").header_offset
        entry = content.index(b"PK\x01\x02")
    damaged, foreign = content.copy(), content.copy()
    damaged[start + 70] ^= 0xFF
    for at in (start + 8, entry + 10):
        foreign[at] = 99  # a method of compression that nobody has
    for changed in (damaged, foreign):
        (tmp_path / "set.npz").write_bytes(changed)
        with pytest.raises(ValueError, match=r"set\.npz is not a whole \.npz file.*; delete it"):
            GoalDataset.from_npz(tmp_path / "set.npz")


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "set.npz", a=npy(), b=npy(shape="(1000000000000,)"))
    assert set(read_npz(path, ("a",), ("c",))) == {"a"}
    with pytest.raises(ValueError, match=r"set\.npz has no array c; it holds a, b"):
        read_npz(path, ("a", "c"))


def test_names_of_arrays_are_told_in_one_line_that_a_terminal_only_shows(tmp_path: Path) -> None:
    path = write(tmp_path / "set.npz", **{"a\nb": npy(), "\x1b[2Jc": npy()})
    with pytest.raises(ValueError, match=r"it holds \\x1b\[2Jc, a b$"):
        read_npz(path, ("d",))
