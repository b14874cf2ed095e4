"""What it costs to learn from files on disk instead of from memory."""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch as th

from proq_agent.common.dataset import GoalDataset
from proq_agent.common.files import atomic_file
from zoo.benchmarking.update_costs import QUICK_PROQ, Row, build, update
from zoo.registry import DEFAULT_ALGO

OBSERVATION_DIM, ACTION_DIM, LENGTH = 29, 8, 1001  # as AntMaze has them
SHARD_ROWS = 500_500
MAX_IN_MEMORY = 5_000_000  # rows; more are not compared
BATCH_SIZE = 256


def write_walks(folder: Path, rows: int) -> int:
    """
    Write random walks as uncompressed ``.npz`` files, one after the other.

    :param folder: to write to
    :param rows: of all together, rounded down to whole trajectories of one length
    :return: how many there are
    """
    length = min(LENGTH, max(2, rows // 10))
    left = trajectories = max(2, rows // length)
    while left:
        n = min(left, max(1, SHARD_ROWS // length))
        rng = np.random.default_rng(left)
        actions = rng.uniform(-1.0, 1.0, (n, length, ACTION_DIM)).astype(np.float32)
        observations = rng.standard_normal((n, length, OBSERVATION_DIM), dtype=np.float32)
        way = rng.uniform(-10.0, 10.0, (n, 1, 2)) + 0.2 * np.cumsum(actions[..., :2], axis=1)
        observations[..., :2] = 20.0 - np.abs((way + 20.0) % 80.0 - 40.0)  # reflected at the walls
        terminals = np.tile(np.arange(length) == length - 1, n)
        with atomic_file(folder / f"walks-{left:06d}.npz") as file:
            flat = (array.reshape(n * length, -1) for array in (observations, actions))
            np.savez(file, **dict(zip(("observations", "actions", "terminals"), (*flat, terminals), strict=True)))  # type: ignore[arg-type]
        left -= n
    return trajectories * length


def bench_files(quick: bool, rows: int = 1_000_000) -> list[Row]:
    """
    Updates from files against updates from memory, in turns; and the memory that a process takes to learn from files.

    :param quick: tiny sizes
    :param rows: of the dataset that is written for it
    """
    rows = 500 if quick else rows
    with tempfile.TemporaryDirectory(dir=".", prefix="walks-") as name:
        folder = Path(name)
        rows = write_walks(folder, rows)
        size = sum(path.stat().st_size for path in folder.iterdir())
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seconds, trained, peak = pool.apply(_learn, (folder, quick))
        found = [
            (f"{rows} rows of {OBSERVATION_DIM} + {ACTION_DIM} numbers, on disk", f"{size / 1e9:.2f} GB", ""),
            ("  read once", f"{rows / seconds:.3g} rows a second", ""),
            (f"  resident memory at most, from reading to {trained} updates", f"{peak / 1e6:.0f} MB", "< 1000 MB"),
        ]
        if rows > MAX_IN_MEMORY:
            return found
        files = sorted(folder.glob("*.npz"))
        disk = GoalDataset.from_files(files, goal=[0, 1])
        return found + _compared(disk, disk.in_memory(), quick)


def _learn(folder: Path, quick: bool) -> tuple[float, int, int]:
    """Seconds that reading takes, number of updates, and the most memory that all of it did."""
    begun = time.perf_counter()
    dataset = GoalDataset.from_files(folder, goal=[0, 1])
    seconds = time.perf_counter() - begun
    updates = 4 if quick else 300
    model: Any = build(DEFAULT_ALGO, "tuned", quick, dataset, QUICK_PROQ if quick else {})
    model.learn(updates, log_interval=updates // 2)
    model.diagnose()
    return seconds, updates, _peak_memory()


def _peak_memory() -> int:
    """Bytes that this process had resident at most."""
    status = Path("/proc/self/status")
    if status.is_file():  # which knows nothing of what the parent had when it started this one
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _compared(disk: GoalDataset, memory: GoalDataset, quick: bool) -> list[Row]:
    """By the wall clock, as a second thread reads."""
    own = {**(QUICK_PROQ if quick else {}), "stochastic": "ignore", "batch_size": BATCH_SIZE, "map_of": "goals"}
    models = {
        name: build(DEFAULT_ALGO, "tuned", quick, data, own) for name, data in (("disk", disk), ("memory", memory))
    }
    times, turns = (2, 2) if quick else (20, 15)
    rows: list[Row] = []
    for label, step in (("an update", update), ("a batch alone, not ahead", _draw)):
        seconds: dict[str, list[float]] = {"disk": [], "memory": []}
        for _ in range(turns + 1):
            for name, model in models.items():
                begun = time.perf_counter()
                step(model, times)
                seconds[name].append(time.perf_counter() - begun)
        share = statistics.median(m / d for m, d in zip(seconds["memory"][1:], seconds["disk"][1:], strict=True))
        rate = times / statistics.median(seconds["disk"][1:])
        target = ">= 60 %" if step is update else ""
        text = f"{label} of {BATCH_SIZE}: rate from files / from memory"
        rows.append((text, f"{share:.0%} ({rate:.3g} a second)", target))
    same = th.equal(models["disk"].policy.standard_keypoints, models["memory"].policy.standard_keypoints)  # type: ignore[arg-type]
    rows.append(("  the same agent after all", "yes" if same else "no", "yes"))
    return rows


def _draw(model: Any, times: int) -> None:
    for _ in range(times):
        model.draw(model.generator)
