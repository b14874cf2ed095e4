"""Results of benchmark runs: one CSV a run, one row a task."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from proq_agent.common.files import atomic_file
from zoo.data.catalogue import POINTMAZE_IDS
from zoo.registry import DEFAULT_ALGO

DEFAULT_VARIANT = "default"


@dataclass(frozen=True)
class Result:
    """
    One task of one run: a row of its CSV. A field that is not known is empty there and None here.

    :param success_sampled: share of the episodes, with sampled actions
    :param success_deterministic: the same with mean actions
    :param steps_sampled: mean length of the episodes, those that failed included
    :param train_seconds: wall clock, with ``jobs`` runs side by side on ``cores`` cores
    :param keypoints_free: share of the keypoints in free cells, see :mod:`zoo.figures.map_quality`
    :param distance_correlation: of the learned distance with the true one, see :mod:`zoo.figures.map_quality`
    :param distance_ratio: and so on, likewise; empty in older files
    :param settings: hash of all that determines the results but the data; a run with another one is another run
    :param command: repeats the run
    :param algo: name of the algorithm; older files, which do not tell, are of the only one that there was
    """

    dataset: str
    variant: str
    seed: int
    task: int
    episodes: int
    success_sampled: float
    success_deterministic: float
    steps_sampled: float
    steps_deterministic: float
    n_updates: int
    train_seconds: float
    keypoints_free: float | None
    distance_correlation: float | None
    dataset_source: str
    dataset_seed: int | None
    dataset_sha256: str | None
    settings: str
    command: str
    cpu: str
    cores: int
    jobs: int
    versions: str
    commit: str | None
    algo: str = DEFAULT_ALGO
    distance_ratio: float | None = None
    false_shortcuts: float | None = None
    psi_iou: float | None = None
    psi_data_iou: float | None = None
    data_iou: float | None = None


def write_results(path: Path, results: Sequence[Result]) -> None:
    """Write the results of one run, whole or not at all."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Result)], lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in asdict(result).items()} for result in results)
    with atomic_file(path) as file:
        file.write(text.getvalue().encode())


def read_results(path: Path) -> list[Result]:
    """
    Read the results of one run.

    :raises ValueError: if the file is not one that :func:`write_results` wrote
    """
    types = get_type_hints(Result)
    optional = {field.name for field in fields(Result) if field.default is not MISSING}  # older files may lack them
    with path.open(newline="", encoding="utf-8") as file:
        try:
            reader = csv.DictReader(file, strict=True)
            known = {name: types[name] for name in types if name not in optional - {*(reader.fieldnames or ())}}
            results = [Result(**{name: _parse(row[name], kind) for name, kind in known.items()}) for row in reader]
        except (KeyError, ValueError, TypeError, csv.Error) as error:
            raise ValueError(f"{path} is not a whole file of results ({error!r}); delete it to run it again") from error
    if not results:
        raise ValueError(f"{path} holds no results; delete it to run it again")
    return results


def _parse(text: str, kind: Any) -> Any:
    options = getattr(kind, "__args__", (kind,))
    return None if text == "" and type(None) in options else options[0](text)


class Group(NamedTuple):
    """The runs of one dataset, algorithm and variant, one a seed."""

    dataset: str
    algo: str
    variant: str
    runs: list[list[Result]]

    def over_tasks(self, name: str) -> np.ndarray:
        """``[seeds]`` a field, averaged over the tasks of each run; NaN where it is not known."""
        return np.array(
            [np.mean([np.nan if (x := getattr(row, name)) is None else x for row in run]) for run in self.runs]
        )

    def by_task(self, name: str) -> list[np.ndarray]:
        """A field of every task: ``[seeds]`` each."""
        tasks: dict[int, list[float]] = {}
        for run in self.runs:
            for row in run:
                tasks.setdefault(row.task, []).append(getattr(row, name))
        return [np.array(values) for values in tasks.values()]


def grouped(runs: Iterable[list[Result]]) -> list[Group]:
    """
    Runs by dataset, those of the benchmark first, by algorithm, the default first, and by variant, the default first;
    K-25 comes before K-100.
    """
    groups: dict[tuple[str, str, str], Group] = {}
    for run in sorted(runs, key=lambda run: run[0].seed):
        key = run[0].dataset, run[0].algo, run[0].variant
        groups.setdefault(key, Group(*key, [])).runs.append(run)

    def order(group: Group) -> tuple[Any, ...]:
        place = POINTMAZE_IDS.index(group.dataset) if group.dataset in POINTMAZE_IDS else len(POINTMAZE_IDS)
        words_and_numbers = [int(x) if x.isdecimal() else x for x in re.split(r"(\d+)", group.variant)]
        algo = group.algo != DEFAULT_ALGO, group.algo
        return place, group.dataset, algo, group.variant != DEFAULT_VARIANT, words_and_numbers

    return sorted(groups.values(), key=order)
