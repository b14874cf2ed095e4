"""
Make datasets: OGBench's, with the official behaviour, keys and dtypes, and those of worlds of our own.

A generated file carries an extra array, ``generated_by``, that OGBench's loader ignores and :mod:`zoo.data.load` reads:
it says how the file was made and keeps it from passing for the official one.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from tqdm import tqdm

from proq_agent.common.files import atomic_file
from zoo.data.catalogue import PROVENANCE_KEY, SPLITS, Arrays, Provenance, World, find_world, unknown_id
from zoo.data.fingerprint import forget_sha256, record_sha256

EPISODES_PER_JOB = 25


@dataclass(frozen=True)
class _Job:
    """A few consecutive episodes of one split. Each episode has its own seed, so that jobs can run anywhere."""

    origin: Provenance
    world: World
    episodes: range


def _play(job: _Job) -> Arrays:
    # Imported here: reading a dataset must not bring the world's layout into the process.
    behaviour = import_module(f"zoo.data.{job.world.behaviour}")
    origin = job.origin
    episodes = []
    for number in job.episodes:
        key = (SPLITS.index(origin.split), number)
        rng = np.random.default_rng(np.random.SeedSequence(origin.seed, spawn_key=key))
        episodes.append(behaviour.play(origin.dataset_id, job.world.rows, origin.noise, rng))
    return _concatenate(episodes)


def _concatenate(parts: Sequence[Arrays]) -> Arrays:
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def generate(
    dataset_id: str,
    seed: int = 0,
    episodes: int | None = None,
    val_episodes: int | None = None,
    noise: float | None = None,
    workers: int = 1,
    progress: bool = False,
) -> dict[str, Arrays]:
    """
    Make a dataset. It depends on the seed alone, not on the number of workers, and fewer episodes are the first of
    the full number.

    :param dataset_id: one of :data:`~zoo.data.catalogue.WORLDS`, or ``maze:<file with a layout>``
    :param seed: a non-negative integer
    :param episodes: training episodes, by default those of the :class:`~zoo.data.catalogue.World`
    :param val_episodes: validation episodes, by default a tenth of the training episodes, the official share
    :param noise: standard deviation of the behaviour's noise, by default that of the world
    :param workers: processes to use; with more than one, a script needs the usual ``if __name__ == "__main__"``
    :param progress: show a progress bar in a terminal
    :return: for ``train`` and ``val``, the arrays of the file, its ``generated_by`` included
    """
    world = find_world(dataset_id)
    if world is None:
        raise unknown_id(dataset_id)
    dataset_id = world.file or dataset_id
    episodes = world.episodes if episodes is None else episodes
    noise = world.noise if noise is None else noise
    val_episodes = max(1, episodes // 10) if val_episodes is None else val_episodes
    for name, value, least in (
        ("seed", seed, 0),
        ("episodes", episodes, 1),
        ("val_episodes", val_episodes, 1),
        ("workers", workers, 1),
    ):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    if not (math.isfinite(noise) and noise >= 0.0):
        raise ValueError(f"noise must be a non-negative number, got {noise}")

    origins = [Provenance(dataset_id, s, seed, n, noise) for s, n in zip(SPLITS, (episodes, val_episodes), strict=True)]
    jobs = [
        _Job(origin, world, range(first, min(first + EPISODES_PER_JOB, origin.episodes)))
        for origin in origins
        for first in range(0, origin.episodes, EPISODES_PER_JOB)
    ]
    hidden = None if progress else True  # None: unless in a terminal
    with tqdm(total=episodes + val_episodes, desc=dataset_id, unit="episode", disable=hidden) as bar:
        parts: dict[str, list[Arrays]] = {split: [] for split in SPLITS}
        for job, part in zip(jobs, _run(jobs, min(workers, len(jobs))), strict=True):
            parts[job.origin.split].append(part)
            bar.update(len(job.episodes))
    return {
        origin.split: {**_concatenate(parts[origin.split]), PROVENANCE_KEY: origin.to_array()} for origin in origins
    }


def _run(jobs: Sequence[_Job], workers: int) -> Iterator[Arrays]:
    if workers == 1:
        yield from map(_play, jobs)
    else:
        # Not forked: the caller may hold locks of torch's or MuJoCo's threads.
        # Ctrl-C reaches them too; ending them is up to this process.
        with get_context("spawn").Pool(workers, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
            yield from pool.imap(_play, jobs)


def save(path: Path, arrays: Arrays) -> None:
    """Write one split as a compressed ``.npz``, and its hash beside it; the same arrays give the same bytes."""
    forget_sha256(path)
    with atomic_file(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    record_sha256(path)
