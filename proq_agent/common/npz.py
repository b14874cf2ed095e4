"""Arrays from an ``.npz`` of unknown origin."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from proq_agent.common.errors import one_line, within
from proq_agent.common.files import readable_bytes

MAX_HEADER_BYTES = 2**16  # NumPy's own limit is less


def read_npz(path: Path, needed: Collection[str], optional: Collection[str] = ()) -> dict[str, np.ndarray]:
    """
    Read arrays whose sizes, as they are declared, are reasonable for the size of the file.

    :param path: the file
    :param needed: names of arrays that must be there
    :param optional: names of further arrays to read if they are there
    :raises ValueError: naming the file and the remedy, whatever is wrong with it
    """
    damaged = within(f"{path} is not a whole .npz file", "delete it and fetch it again", ValueError)
    with damaged, zipfile.ZipFile(path) as file:
        there = [name.removesuffix(".npy") for name in file.namelist() if name.endswith(".npy")]
        wanted = [name for name in (*needed, *optional) if name in there]
        check_sizes({name: _declared_bytes(file, name) for name in wanted}, path.stat().st_size)
        arrays = {}
        for name in wanted:
            with open_array(file, name) as member:
                arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
    check_names(path, there, needed)
    return arrays


def check_names(path: Path, there: Collection[str], needed: Collection[str]) -> None:
    """
    :raises ValueError: naming the file and what is not there, if something is missing
    """
    missing = [name for name in needed if name not in there]
    if missing:
        holds = one_line(", ".join(sorted(there)[:20])) or "none"
        raise ValueError(f"{path} has no array {', '.join(missing)}; it holds {holds}")


def check_sizes(declared: Mapping[str, int], size: int) -> None:
    """
    :param declared: bytes of each array
    :param size: of the file, in bytes
    :raises ValueError: if so much cannot be in the file
    """
    room = readable_bytes(size)
    for name, taken in declared.items():
        room -= taken
        if room < 0:
            raise ValueError(
                f"{name} declares more numbers than a file of this size can hold (if they are all of one kind, "
                "write it without compression: numpy.savez)"
            )


class Header(NamedTuple):
    """What an array declares to be."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype

    @property
    def n_bytes(self) -> int:
        """As float32 they will be used, or as they are if that is more."""
        return math.prod(self.shape) * max(self.dtype.itemsize, 4)


def read_header(file: IO[bytes]) -> Header:
    """
    :param file: an ``.npy`` from its beginning; it is left where the numbers begin
    """
    first = np.lib.format.read_magic(file) == (1, 0)
    size = file.read(2 if first else 4)
    # NumPy would read as much as the header says before it looks at how long that is.
    header = io.BytesIO(size + file.read(min(int.from_bytes(size, "little"), MAX_HEADER_BYTES)))
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    return Header(*read(header))


def open_array(file: zipfile.ZipFile, name: str) -> IO[bytes]:
    """
    :param file: an ``.npz``
    :param name: of the array
    :return: its ``.npy``, of which no more is in memory than is asked for
    """
    info = file.getinfo(f"{name}.npy")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others unfold all that they are fed
        raise ValueError(f"{name} is compressed in another way than by numpy.savez_compressed")
    return file.open(info)


def _declared_bytes(file: zipfile.ZipFile, name: str) -> int:
    with open_array(file, name) as member:
        return read_header(member).n_bytes
