"""Which datasets are known by name, where their files lie, and how a generated one says that it is one."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

DEFAULT_DATASET_DIR = Path("~/.ogbench/data")
# Of the official files: episodes for training, episodes for validation, rows an episode.
OFFICIAL_COUNTS = {
    "pointmaze-medium-navigate-v0": (1000, 100, 1001),
    "pointmaze-medium-stitch-v0": (5000, 500, 201),
    "pointmaze-large-navigate-v0": (1000, 100, 1001),
    "pointmaze-large-stitch-v0": (5000, 500, 201),
    "pointmaze-giant-navigate-v0": (500, 50, 2001),
    "pointmaze-giant-stitch-v0": (5000, 500, 201),
    "pointmaze-teleport-navigate-v0": (1000, 100, 1001),
    "pointmaze-teleport-stitch-v0": (5000, 500, 201),
}
DATASET_IDS = tuple(OFFICIAL_COUNTS)
# Nobody publishes files for these; the dataset is named after its environment.
ROBOTICS_IDS = ("PointMaze_UMaze-v3", "PointMaze_Medium-v3", "PointMaze_Large-v3")
ROBOTICS_COUNTS = (600, 60, 501)
GENERATED_IDS = DATASET_IDS + ROBOTICS_IDS
SPLITS = ("train", "val")
SOURCES = ("auto", "file", "download", "generate")
PROVENANCE_KEY = "generated_by"
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Provenance:
    """How one generated file was made; with the same code, enough to make it again."""

    dataset_id: str
    split: str
    seed: int
    episodes: int
    noise: float

    def to_array(self) -> np.ndarray:
        return np.array(json.dumps({"made_by": "zoo.generate", **asdict(self)}))

    @classmethod
    def from_array(cls, array: np.ndarray) -> Provenance:
        try:
            fields = json.loads(str(array))
            return cls(**{name: fields[name] for name in cls.__dataclass_fields__})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"the array {PROVENANCE_KEY} is not one that zoo.generate writes") from error


def unknown_id(dataset_id: str, known: Sequence[str] = GENERATED_IDS) -> ValueError:
    """The error for an id that is not among the known ones, with the closest of them."""
    closest = difflib.get_close_matches(dataset_id, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(closest)}?" if closest else f"known are {', '.join(GENERATED_IDS)}"
    return ValueError(f"unknown dataset {dataset_id!r}; {hint}")


def val_path(path: Path) -> Path:
    """Where OGBench looks for the validation split of a file."""
    return path.with_name(f"{path.stem}-val.npz")
