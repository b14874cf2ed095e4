"""What a Parquet file says of itself is read without pyarrow, which a damaged file would end with the whole process."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proq_agent.common.parquet_footer import declared_values

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(path: Path, **options: Any) -> Path:
    columns = {
        "lists": pa.array([[0.0, 1.0, 2.0]] * 100),
        "numbers": pa.array(np.arange(100)),
        "texts": pa.array(["x", None] * 50),
        "flags": pa.array([True] * 100),
        "structs": pa.array([{"x": 1, "y": [1]}] * 100),
    }
    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.mark.parametrize("size", [7, 100])
@pytest.mark.parametrize(
    "options", [{}, {"compression": "zstd", "data_page_version": "2.0"}, {"write_page_index": True}], ids=str
)
def test_numbers_of_values_are_those_that_pyarrow_tells(tmp_path: Path, size: int, options: dict[str, Any]) -> None:
    path = write(tmp_path / "x.parquet", row_group_size=size, sorting_columns=[pq.SortingColumn(1)], **options)
    metadata = pq.ParquetFile(path).metadata
    assert list(declared_values(path)) == [
        (i, metadata.row_group(k).column(i).num_values)
        for k in range(metadata.num_row_groups)
        for i in range(metadata.num_columns)
    ]
    assert metadata.num_row_groups == -(-100 // size)


def test_any_damage_is_an_error_or_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", row_group_size=30)
    whole = path.read_bytes()
    size = int.from_bytes(whole[-8:-4], "little")
    outcomes = set()
    for seed in range(500):
        rng, data = random.Random(seed), bytearray(whole)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data) - size - 8, len(data) - 4)] = rng.randrange(256)
        path.write_bytes(data)
        try:
            found = list(declared_values(path))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            outcomes.add(type(error))
        else:
            assert all(type(n) is int and n >= 0 for pair in found for n in pair)
            outcomes.add(list)
    assert {ValueError, list} <= outcomes


DAMAGED = """
import random, shutil, sys
from pathlib import Path
from proq_agent import GoalDataset
from shard_files import logs, write

path = write(Path(sys.argv[1]) / "x", logs([12] * 4), "parquet")
whole, refused = path.read_bytes(), 0
# A list that may be missing becomes one that may not, which does not fit how many are.
required = whole.replace(b"\\x02\\x18\\x0cobservations", b"\\x00\\x18\\x0cobservations")
assert required != whole
for seed in range(60):
    rng, data = random.Random(seed), bytearray(whole)
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data) // 2, len(data))] = rng.randrange(256)
    path.write_bytes(data if seed else required)
    try:
        assert GoalDataset.from_files(path).in_memory().achieved_goals.isfinite().all()
        shutil.rmtree(path.parent / ".proq-cache")
    except ValueError as error:
        refused += 1
        assert str(path) in str(error) and "\\n" not in str(error) and list(path.parent.iterdir()) == [path], error
print("refused", refused)
"""


def test_no_damage_ends_the_process(tmp_path: Path) -> None:
    found = subprocess.run([sys.executable, "-c", DAMAGED, str(tmp_path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-2000:]
    assert int(found.stdout.split()[-1]) > 30
