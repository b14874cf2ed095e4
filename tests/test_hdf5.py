"""Whatever is wrong with an HDF5 file, it is one error, costs little, and nothing outside the file is read."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_files import within_bounds

from proq_agent.common.files import readable_bytes
from proq_agent.common.hdf5 import HDF5Arrays

h5py = pytest.importorskip("h5py")
ROWS = np.arange(20, dtype=np.float32).reshape(10, 2)


def opened(path: Path) -> HDF5Arrays:
    return HDF5Arrays(path, readable_bytes(path.stat().st_size))


def read(path: Path, name: str = "x") -> np.ndarray:
    with opened(path) as arrays:
        return arrays.numbers(arrays.part(arrays.file, name))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Callable[[Any], Any]], Path]:
    def write(fill: Callable[[Any], Any]) -> Path:
        with h5py.File(tmp_path / "set.hdf5", "w") as file:
            fill(file)
        return tmp_path / "set.hdf5"

    return write


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": (3, 1)},
        {"chunks": True, "maxshape": (None, 2)},
        {"compression": "gzip"},
        {"compression": "gzip", "shuffle": True, "fletcher32": True, "chunks": (4, 2)},
        {"compression": "gzip", "fletcher32": True},
        {"shuffle": True, "chunks": (4, 2)},
    ],
)
def test_numbers_are_read_however_they_are_stored(write: Any, options: dict[str, Any]) -> None:
    np.testing.assert_array_equal(read(write(lambda file: file.create_dataset("x", data=ROWS, **options))), ROWS)


def small_chunk_of_many_zeros(file: Any) -> None:
    array = file.create_dataset("x", (10, 2), "f4", chunks=(10, 2), compression="gzip")
    array.id.write_direct_chunk((0, 0), zlib.compress(bytes(10**9), 1))


def twice_deflated(file: Any) -> None:
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_chunk((10, 2))
    layout.set_deflate(9)
    layout.set_deflate(9)
    h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_FLOAT, h5py.h5s.create_simple((10, 2)), layout)


def virtual(file: Any) -> None:
    layout = h5py.VirtualLayout((10, 2), "f4")
    layout[:] = h5py.VirtualSource("/elsewhere.hdf5", "x", (10, 2))
    file.create_virtual_dataset("x", layout)


@pytest.mark.parametrize(
    ("fill", "says"),
    [
        (lambda file: file.create_dataset("x", (10**12, 2), "f4"), "more numbers than"),
        (lambda file: file.create_dataset("x", (10**12, 2), "f4", chunks=(1000, 2)), "more numbers than"),
        (lambda file: file.create_dataset("x", (10**6, 2), "f4", chunks=(1, 2)), "more numbers than"),
        (lambda file: file.create_dataset("x", (10, 2), "f4", chunks=(10**8, 2), maxshape=(None, 2)), "more numbers"),
        (lambda file: file.create_dataset("x", (5 * 10**7, 1), "u1"), "more numbers than"),
        (
            lambda file: file.create_dataset("x", data=np.zeros((2 * 10**7, 2), "f4"), compression="gzip"),
            "without compression",
        ),
        (small_chunk_of_many_zeros, "holds more than it declares"),
        (twice_deflated, "compressed in another way"),
        (lambda file: file.create_dataset("x", data=ROWS, compression="lzf"), "compressed in another way"),
        (lambda file: file.create_dataset("x", (10, 2), "f4", scaleoffset=2), "compressed in another way"),
        (virtual, "in other files"),
        (lambda file: file.create_dataset("x", (4, 2), "f4", external=[("/etc/passwd", 0, 32)]), "in other files"),
        (lambda file: file.update(x=h5py.ExternalLink("/elsewhere.hdf5", "x")), "link to elsewhere"),
        (lambda file: file.update(x=h5py.SoftLink("/y"), y=ROWS), "link to elsewhere"),
        (lambda file: file.update(x=h5py.SoftLink("/x")), "link to elsewhere"),
        (lambda file: file.create_group("x"), "is no array"),
        (lambda file: file.create_group("y"), "has no x"),
        (lambda file: file.create_dataset("x", data=[b"cos\nsystem\n"] * 3), "does not hold numbers"),
        (lambda file: file.create_dataset("x", (3,), h5py.vlen_dtype(np.uint8)), "does not hold numbers"),
        (lambda file: file.create_dataset("x", (3,), h5py.string_dtype()), "does not hold numbers"),
        (lambda file: file.create_dataset("x", (3,), h5py.ref_dtype), "does not hold numbers"),
        (lambda file: file.create_dataset("x", (3,), [("a", "f4"), ("b", "f4")]), "does not hold numbers"),
        (lambda file: file.create_dataset("x", (3,), np.dtype(("f4", (10**6,)))), "does not hold numbers"),
        (lambda file: file.create_dataset("x", data=h5py.Empty("f4")), "does not hold numbers"),
    ],
)
def test_what_is_no_plain_array_of_the_file_s_size_is_refused(write: Any, fill: Any, says: str) -> None:
    path = write(fill)
    with within_bounds(path.stat().st_size), pytest.raises(ValueError, match=says):
        read(path)


def test_room_is_for_all_arrays_together(write: Any) -> None:
    names = [f"x{i}" for i in range(10)]
    path = write(lambda file: [file.create_dataset(name, (5 * 10**6, 1), "f4") for name in names])
    with opened(path) as arrays, pytest.raises(ValueError, match="more numbers than"):
        for name in names:
            arrays.numbers(arrays.part(arrays.file, name))


def test_one_array_under_many_names_is_read_once(write: Any) -> None:
    """Else a link of twenty bytes stands for any work."""
    path = write(lambda file: file.update(x=ROWS) or file.update(y=file["x"]))
    with opened(path) as arrays:
        arrays.numbers(arrays.part(arrays.file, "x"))
        with pytest.raises(ValueError, match="under another name"):
            arrays.part(arrays.file, "y")
