"""Datasets by name: from a file, from OGBench's server, or made here, and always said which of the three."""

from __future__ import annotations

import sys
import urllib.request
import zipfile
from dataclasses import dataclass
from glob import has_magic
from http.client import HTTPException
from pathlib import Path

import torch as th
from tqdm import tqdm

from proq_agent.common.dataset import GoalDataset
from proq_agent.common.errors import within
from proq_agent.common.files import atomic_file, locked
from proq_agent.common.minari_files import load_minari
from proq_agent.common.npz import read_npz
from wrappers.make import dataset_env_ids
from zoo.data.catalogue import (
    DEFAULT_DATASET_DIR,
    MAZE_PREFIX,
    PROVENANCE_KEY,
    SOURCES,
    SPLITS,
    WORLDS,
    Provenance,
    find_world,
    train_path,
    unknown_id,
    val_path,
)
from zoo.data.fingerprint import check_sha256, record_sha256
from zoo.data.generation import generate, save

DOWNLOAD_TIMEOUT = 5.0  # seconds without an answer; an offline machine should not wait long


@dataclass(frozen=True)
class DatasetInfo:
    """
    Where a dataset came from; part of a run's configuration.

    :param id: the dataset's id
    :param source: ``file`` (found on disk), ``download`` (fetched now from OGBench's server), ``generated`` (made by
        :mod:`zoo.data.generation`, now or earlier), ``minari``, or ``disk`` (many files, which stay there)
    :param path: the file, if it is one, or the files
    :param sha256: hash of that file, or of the rows of the files
    :param seed: the generator's seed, if it was generated
    :param transitions: number of transitions
    """

    id: str
    source: str
    path: str | None
    sha256: str | None
    seed: int | None
    transitions: int

    def describe(self) -> str:
        """One line for the log."""
        seed = f" with seed {self.seed}" if self.source == "generated" else ""
        world = find_world(self.id)
        seed += ": not the official file" if seed and (world is None or world.official) else ""
        place = f", {self.path} (sha256 {self.sha256[:12]})" if self.sha256 else ""
        return f"dataset {self.id}: {self.source}{seed}, {self.transitions} transitions{place}"


def load(
    dataset_id: str,
    *,
    dataset_dir: str | Path | None = None,
    source: str = "auto",
    dataset_path: str | Path | None = None,
    device: th.device | str = "cpu",
    seed: int = 0,
    progress: bool = True,
    split: str = "train",
    trust_dataset: bool = False,
) -> tuple[GoalDataset, DatasetInfo]:
    """
    Load a dataset, fetching or making it first if it is not there.

    :param dataset_id: an OGBench dataset id, another of :data:`~zoo.data.catalogue.WORLDS`
        (``PointMaze_Large-v3``), ``maze:<file with a layout>``, ``minari:<id of a Minari dataset>``, or any name with
        ``dataset_path``
    :param dataset_dir: folder of the files, OGBench's own (``~/.ogbench/data``) by default; of the cache, if rows of
        ``dataset_path`` stay on disk
    :param source: ``file``, ``download`` or ``generate`` insists on one way; ``auto`` tries them in this order
    :param dataset_path: read this ``.npz`` (or its ``-val.npz``) and look no further; a folder, a pattern or a Parquet
        file is learned from on disk, see :meth:`~proq_agent.GoalDataset.from_files`
    :param device: where the dataset's tensors live
    :param seed: seed for a dataset that has to be generated
    :param progress: say what takes time, with a progress bar
    :param split: ``train`` or ``val``
    :param trust_dataset: read a Minari dataset without bounds, and run code of its author if it wants that
    :return: the dataset, with the ``-val`` file beside it as its ``held_out``, and where it came from
    :raises ValueError: naming what is wrong with the id or the file, and the remedy
    """
    for name, value, choices in (("dataset source", source, SOURCES), ("split", split, SPLITS)):
        if value not in choices:
            raise ValueError(f"unknown {name} {value!r}; choose one of {', '.join(choices)}")
    if dataset_path is None and dataset_id.startswith("minari:"):
        if split != "train":
            raise ValueError(f"{dataset_id}: a Minari dataset has no split {split!r}")
        name = dataset_id.removeprefix("minari:")
        dataset = GoalDataset.from_minari(load_minari(name) if trust_dataset else name, device=device)
        return dataset, DatasetInfo(dataset_id, "minari", None, None, None, dataset.n_transitions)

    if dataset_path is not None and not _is_one_npz(Path(dataset_path).expanduser()):
        if split != "train":
            raise ValueError(f"{dataset_path}: files that are learned from on disk have no split {split!r}")
        return _on_disk(dataset_id, Path(dataset_path).expanduser(), dataset_dir, device, progress)
    if dataset_path is None:
        train = train_path(Path(dataset_dir or DEFAULT_DATASET_DIR), dataset_id)
    else:
        train, source = Path(dataset_path).expanduser(), "file"
    path = _split_path(train, split)
    found = "file"
    if not path.is_file():
        if source == "file":
            raise ValueError(f"there is no dataset file {path}; check the path, or let the source be 'auto'")
        found = _obtain(dataset_id, train, path, source, seed, progress)

    sha256 = check_sha256(path)
    dataset, provenance = _read(path, dataset_id, device)
    if dataset_path is None:
        _check_is(path, dataset, provenance, dataset_id, source, seed)
    if split == "train" and (beside := val_path(train)).is_file():
        check_sha256(beside)
        dataset.held_out, _ = _read(beside, dataset_id, device)
    info = DatasetInfo(
        id=dataset_id,
        source="generated" if provenance else found,
        path=str(path),
        sha256=sha256,
        seed=provenance.seed if provenance else None,
        transitions=dataset.n_transitions,
    )
    return dataset, info


def _is_one_npz(path: Path) -> bool:
    return (path.is_file() and path.suffix != ".parquet") or not (path.exists() or has_magic(str(path)))


def _on_disk(
    dataset_id: str, path: Path, cache: str | Path | None, device: th.device | str, progress: bool
) -> tuple[GoalDataset, DatasetInfo]:
    """Many files, or one that is not for memory: rows stay on disk."""
    world = find_world(dataset_id)
    goal = world.goal if world else None
    dataset = GoalDataset.from_files(path, goal=goal, device=device, cache=cache, progress=progress)
    info = DatasetInfo(dataset_id, "disk", str(path), dataset.fingerprint, None, dataset.n_transitions)
    return dataset, info


def _split_path(train: Path, split: str) -> Path:
    return train if split == "train" else val_path(train)


def _read(path: Path, dataset_id: str, device: th.device | str) -> tuple[GoalDataset, Provenance | None]:
    """Read a file, and how it was made if :mod:`zoo.data.generation` made it."""
    world = find_world(dataset_id)
    with within(f"cannot use the dataset file {path}", "repair or delete it", ValueError):
        origin = read_npz(path, (), (PROVENANCE_KEY,))
        provenance = Provenance.from_array(origin[PROVENANCE_KEY]) if origin else None
        return GoalDataset.from_npz(path, goal=world and world.goal, device=device), provenance


def _check_is(
    path: Path, dataset: GoalDataset, provenance: Provenance | None, dataset_id: str, source: str, seed: int
) -> None:
    """Refuse a file that is not what its name or the caller says it is."""
    remedy = "move it away, or give another dataset folder"
    dims = dataset.observations.shape[1], dataset.actions.shape[1]
    world = find_world(dataset_id)
    if world is not None and dims != world.dims:
        expected = f"{world.dims[0]} and {world.dims[1]}"
        raise ValueError(f"{path} has {dims[0]} observation and {dims[1]} action features, not {expected}; {remedy}")
    if provenance is None:
        if source == "generate":
            raise ValueError(f"{path} exists and was not generated; {remedy}")
    elif not dataset_id.startswith(MAZE_PREFIX) and path != _split_path(
        train_path(path.parent, provenance.dataset_id), provenance.split
    ):
        raise ValueError(f"{path} was generated as {provenance.dataset_id}, split {provenance.split}; {remedy}")
    elif source == "download":
        raise ValueError(f"{path} exists and was generated; {remedy}")
    elif source == "generate" and provenance.seed != seed:
        raise ValueError(f"{path} was generated with seed {provenance.seed}, not {seed}; {remedy}")


def _obtain(dataset_id: str, train: Path, wanted: Path, source: str, seed: int, progress: bool) -> str:
    """Download or generate the splits that are missing, unless another process does it first."""
    world = find_world(dataset_id)
    if world is None:
        known = [name for name in dataset_env_ids() if "-singletask" not in name]
        if dataset_id not in known:
            raise unknown_id(dataset_id, known)
        if source == "generate":
            raise ValueError(f"cannot generate {dataset_id}, only {', '.join(WORLDS)}")
    elif not world.official:
        if source == "download":
            raise ValueError(f"{dataset_id} cannot be downloaded; let the source be 'generate' or 'auto'")
        source = "generate"
    with locked(train.with_name(f".{train.name}.lock")):
        if wanted.is_file():
            return "file"
        missing = {split: path for split in SPLITS if not (path := _split_path(train, split)).is_file()}
        if source != "generate":
            try:
                for path in missing.values():
                    _download(path, progress)
                return "download"
            except (OSError, HTTPException) as error:
                if source == "download" or world is None:
                    raise ValueError(f"cannot download {dataset_id} ({error}); put the file at {wanted}") from error
                if progress:
                    print(f"cannot download {dataset_id} ({error}): generating it instead", file=sys.stderr)
        splits = generate(dataset_id, seed, progress=progress)
        for split, path in missing.items():
            save(path, splits[split])
        return "generated"


def _download(path: Path, progress: bool) -> None:
    """Fetch a file from OGBench's server, under the name that it has there."""
    from ogbench.utils import DATASET_URL

    with urllib.request.urlopen(f"{DATASET_URL}/{path.name}", timeout=DOWNLOAD_TIMEOUT) as response:
        total = response.length
        with (
            atomic_file(path) as file,
            tqdm(total=total, desc=path.name, unit="B", unit_scale=True, disable=None if progress else True) as bar,
        ):
            while chunk := response.read(1 << 20):
                file.write(chunk)
                bar.update(len(chunk))
            file.flush()
            # A dropped connection or a login page must not leave a file behind.
            if total not in (None, file.tell()) or not zipfile.is_zipfile(file.name):
                raise OSError(f"{response.url} did not send a whole .npz file")
    record_sha256(path)
