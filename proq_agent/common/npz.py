"""Arrays from an ``.npz`` of unknown origin."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection
from pathlib import Path

import numpy as np

from proq_agent.common.errors import within
from proq_agent.common.files import readable_bytes


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
        room = readable_bytes(path.stat().st_size)
        for name in wanted:
            room -= _declared_bytes(file, name)
            if room < 0:
                raise ValueError(
                    f"{name} declares more numbers than a file of this size can hold (if they are all of one kind, "
                    "write it without compression: numpy.savez)"
                )
        arrays = {}
        for name in wanted:
            with file.open(f"{name}.npy") as member:
                arrays[name] = np.lib.format.read_array(member, allow_pickle=False)
    missing = [name for name in needed if name not in arrays]
    if missing:
        holds = ", ".join(sorted(there)[:20]) or "none"
        raise ValueError(f"{path} has no array {', '.join(missing)}; it holds {holds}")
    return arrays


def _declared_bytes(file: zipfile.ZipFile, name: str) -> int:
    with file.open(f"{name}.npy") as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
    return math.prod(shape) * max(dtype.itemsize, 4)  # as float32 they will be used
