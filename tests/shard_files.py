"""Trajectories in many files of every kind, for tests."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]


def logs(lengths: list[int], seed: int = 0, dims: tuple[int, int] = (3, 2)) -> Arrays:
    """Random trajectories whose first coordinate is the number of the trajectory."""
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    observations = rng.normal(size=(n, dims[0])).astype(np.float32)
    observations[:, 0] = np.repeat(np.arange(len(lengths)), lengths)
    terminals = np.concatenate([np.arange(k) == k - 1 for k in lengths])
    return {
        "observations": observations,
        "actions": rng.uniform(-1.0, 1.0, size=(n, dims[1])).astype(np.float32),
        "terminals": terminals,
    }


def parts(arrays: Mapping[str, np.ndarray], n: int) -> list[Arrays]:
    """The same trajectories in ``n`` parts."""
    ends = np.flatnonzero(arrays["terminals"]) + 1
    borders = [0, *(int(chunk[-1]) for chunk in np.array_split(ends, n))]
    return [{name: a[i:j] for name, a in arrays.items()} for i, j in itertools.pairwise(borders)]


def write(path: Path, arrays: Mapping[str, Any], kind: str) -> Path:
    """One file or folder of a kind; its name gets the suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind in ("npz", "compressed"):
        path = path.with_suffix(".npz")
        (np.savez if kind == "npz" else np.savez_compressed)(path, **arrays)
    elif kind == "npy":
        path.mkdir()
        for name, array in arrays.items():
            np.save(path / f"{name}.npy", array)
    elif kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = path.with_suffix(".parquet")
        columns = {n: pa.array(list(a)) if a.ndim > 1 else pa.array(a) for n, a in arrays.items()}
        pq.write_table(pa.table(columns), path, row_group_size=7)
    else:
        _write_minari(path, arrays)
    return path


def _write_minari(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    import os

    import minari
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    ends = np.flatnonzero(arrays["terminals"])
    buffers = [
        EpisodeBuffer(
            observations=arrays["observations"][i : j + 1],
            actions=arrays["actions"][i:j],
            rewards=[0.0] * (j - i),
            terminations=[False] * (j - i),
            truncations=[False] * (j - i - 1) + [True],
        )
        for i, j in zip([0, *(ends[:-1] + 1)], ends, strict=True)
    ]
    boxes = {n: spaces.Box(-np.inf, np.inf, arrays[n].shape[1:], np.float32) for n in ("observations", "actions")}
    before = os.environ.get("MINARI_DATASETS_PATH")
    os.environ["MINARI_DATASETS_PATH"] = str(path.parent)
    try:
        minari.create_dataset_from_buffers(
            f"{path.name}-v0", buffers, observation_space=boxes["observations"], action_space=boxes["actions"]
        )
    finally:
        os.environ.pop("MINARI_DATASETS_PATH")
        if before is not None:
            os.environ["MINARI_DATASETS_PATH"] = before
