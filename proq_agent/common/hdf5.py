"""Arrays from an HDF5 file of unknown origin."""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3  # HDF5's numbers of what chunks can be passed through, here in this order:
ORDER = SHUFFLE, DEFLATE, FLETCHER32
BYTES_OF_A_CHUNK = 8  # that the file holds of it at least: where it is


class HDF5Arrays:
    """
    Reads numbers that the file itself holds, once each, and no more of them than there is room for.

    :param path: the file
    :param room: bytes for all that will be read
    :raises ValueError: from any method, saying what of it cannot be read
    """

    def __init__(self, path: Path, room: int) -> None:
        import h5py

        self.size, self.room = path.stat().st_size, room
        self.seen: set[int] = set()  # addresses in the file
        self.file = h5py.File(path, "r")

    def __enter__(self) -> HDF5Arrays:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()

    def part(self, group: Any, name: str) -> Any:
        """
        Open a group or an array within a group. Links are not followed: they may lead out of the file, or in circles.

        :param group: of the file
        :param name: of the part
        """
        import h5py

        # Asked for in h5py's usual ways, a link would be followed to see whether something is there.
        if not isinstance(group, h5py.Group) or not group.id.links.exists(name.encode()):
            raise ValueError(f"{group.name} has no {name}")
        if group.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
            raise ValueError(f"{group.name}/{name} is a link to elsewhere")
        part = group[name]
        address = h5py.h5o.get_info(part.id).addr
        if address in self.seen:
            raise ValueError(f"{part.name} is there under another name too")
        self.seen.add(address)
        return part

    def numbers(self, array: Any) -> np.ndarray:
        """
        Read an array of numbers, whose kind and size are looked at before.

        :param array: of the file
        """
        import h5py

        if not isinstance(array, h5py.Dataset):
            raise ValueError(f"{array.name} is no array")
        layout = array.id.get_create_plist()
        if array.id.get_type().get_class() not in (h5py.h5t.INTEGER, h5py.h5t.FLOAT) or array.shape is None:
            raise ValueError(f"{array.name} does not hold numbers")
        if layout.get_layout() == h5py.h5d.VIRTUAL or layout.get_external_count():
            raise ValueError(f"{array.name} keeps its numbers in other files")
        chunk = array.chunks or array.shape
        n_chunks = math.prod(-(-rows // most) for rows, most in zip(array.shape, chunk, strict=True) if most)
        self.room -= n_chunks * math.prod(chunk) * max(array.dtype.itemsize, 4)  # as float32 they will be used
        if self.room < 0 or n_chunks * BYTES_OF_A_CHUNK > self.size:
            raise ValueError(
                f"{array.name} declares more numbers than a file of this size can hold (if they are all of one kind, "
                "write it without compression)"
            )
        self._check_compression(array, [layout.get_filter(i)[0] for i in range(layout.get_nfilters())])
        return array[()]

    def _check_compression(self, array: Any, filters: list[int]) -> None:
        """HDF5 would inflate a chunk to whatever size it has."""
        if filters != [filter for filter in ORDER if filter in filters]:
            raise ValueError(f"{array.name} is compressed in another way than with gzip")
        if DEFLATE not in filters:
            return
        most = math.prod(array.chunks) * array.dtype.itemsize

        def check(stored: Any) -> None:
            _, data = array.id.read_direct_chunk(stored.chunk_offset)
            if len(zlib.decompressobj().decompress(data, most + 1)) > most:
                raise ValueError(f"{array.name} holds more than it declares")

        array.id.chunk_iter(check)
