"""Which datasets are known by name, where their files lie, and how a generated one says that it is one."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from proq_agent.common.files import env_name
from proq_agent.common.goals import GoalSpec

DEFAULT_DATASET_DIR = Path("~/.ogbench/data")
MAZE_PREFIX = "maze:"
MINARI = "minari:"
SPLITS = ("train", "val")
SOURCES = ("auto", "file", "download", "generate")
PROVENANCE_KEY = "generated_by"
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class World:
    """
    A dataset that can be made here, of the environment that has the same name or that its name tells.

    :param behaviour: the module of :mod:`zoo.data` that makes it
    :param episodes: for training; a tenth of that are for validation
    :param rows: the most that an episode has
    :param dims: entries of an observation and of an action
    :param official: OGBench publishes a file of this name
    :param noise: standard deviation of the behaviour's noise, in units that are its own
    :param goal: what of an observation is the goal if not all of it, and when it is reached
    :param file: the dataset whose file it is, if it is another's with other goals
    """

    behaviour: str
    episodes: int
    rows: int
    dims: tuple[int, int]
    official: bool = False
    noise: float = 0.5
    goal: GoalSpec | None = None
    file: str | None = None


def _fingertip(observations: np.ndarray) -> np.ndarray:
    """Reacher shows where its target is, and how far off its fingertip is from there."""
    return observations[:, 4:6] + observations[:, 8:10]


def _only(dim: int, tolerances: dict[int, float]) -> GoalSpec:
    """A goal that asks for some entries of the observation alone."""
    return GoalSpec(tolerance=[tolerances.get(i) for i in range(dim)])


# Within a distance of one of the goal, whichever way.
_MAZE = World("text_maze", 400, 501, (2, 2), goal=GoalSpec(tolerance=0.7))
# A cube within four centimetres; drawer and window too; a button is a number that is 0 or 1.
_CUBE = {19: 0.23, 20: 0.23, 21: 0.23}
_SCENE = _CUBE | {29: 0.5, 33: 0.5, 36: 0.72, 38: 0.6}
_CUBE_WORLD = World("manipulation", 60, 1001, (28, 5), official=True, noise=0.1, goal=_only(28, _CUBE))
_SCENE_WORLD = World("manipulation", 60, 1001, (40, 5), official=True, noise=0.1, goal=_only(40, _SCENE))

_MAZES = ("medium", "large", "giant", "teleport")
_EXPLORED = ("medium", "large", "teleport")

WORLDS: dict[str, World] = {
    "pointmaze-medium-navigate-v0": World("pointmaze", 1000, 1001, (2, 2), official=True),
    "pointmaze-medium-stitch-v0": World("pointmaze", 5000, 201, (2, 2), official=True),
    "pointmaze-large-navigate-v0": World("pointmaze", 1000, 1001, (2, 2), official=True),
    "pointmaze-large-stitch-v0": World("pointmaze", 5000, 201, (2, 2), official=True),
    "pointmaze-giant-navigate-v0": World("pointmaze", 500, 2001, (2, 2), official=True),
    "pointmaze-giant-stitch-v0": World("pointmaze", 5000, 201, (2, 2), official=True),
    "pointmaze-teleport-navigate-v0": World("pointmaze", 1000, 1001, (2, 2), official=True),
    "pointmaze-teleport-stitch-v0": World("pointmaze", 5000, 201, (2, 2), official=True),
    **{f"antmaze-{maze}-navigate-v0": World("antmaze", 1000, 1001, (29, 8), True, 0.2) for maze in ("medium", "large")},
    "antmaze-giant-navigate-v0": World("antmaze", 500, 2001, (29, 8), True, 0.2),
    "antmaze-teleport-navigate-v0": World("antmaze", 1000, 1001, (29, 8), True, 0.2),
    **{f"antmaze-{maze}-stitch-v0": World("antmaze", 5000, 201, (29, 8), True, 0.2) for maze in _MAZES},
    **{f"antmaze-{maze}-explore-v0": World("antmaze", 10_000, 501, (29, 8), True, 1.0) for maze in _EXPLORED},
    "PointMaze_UMaze-v3": World("robotics", 600, 501, (4, 2)),
    "PointMaze_Medium-v3": World("robotics", 600, 501, (4, 2)),
    "PointMaze_Large-v3": World("robotics", 600, 501, (4, 2)),
    # Position and heading, each as far off as success allows if the others are too; any velocity.
    "parking-v0": World(
        "parking", 1000, 201, (6, 2), noise=0.3, goal=GoalSpec(tolerance=(0.005, 0.012, None, None, 0.14, 0.14))
    ),
    "proq/MountainCarPosition-v0": World("mountain_car", 400, 301, (2, 1), goal=GoalSpec([0], tolerance=0.05)),
    "proq/MountainCarState-v0": World(
        "mountain_car", 400, 301, (2, 1), goal=GoalSpec(tolerance=(0.05, 0.01)), file="proq/MountainCarPosition-v0"
    ),
    "proq/PendulumAngle-v0": World("pendulum", 500, 201, (3, 1), goal=GoalSpec([0, 1], tolerance=0.1)),
    "proq/ReacherFingertip-v0": World(
        "reacher", 1000, 101, (10, 2), goal=GoalSpec(function=_fingertip, tolerance=0.02)
    ),
    "proq/SpiralMaze-v0": _MAZE,
    "proq/ConveyorMaze-v0": _MAZE,
    "proq/FieldMaze-v0": _MAZE,
    "proq/Drone-v0": World("drone", 200, 501, (9, 3), goal=GoalSpec([0, 1, 2], tolerance=0.11)),
    "cube-single-play-v0": _CUBE_WORLD,
    "scene-play-v0": _SCENE_WORLD,
}
"""Datasets by id."""


def _with_oracle_goals(dataset_id: str) -> World:
    """The same data with the goals that OGBench calls oracle goals: the entries that a task asks for."""
    world = WORLDS[dataset_id]
    assert world.goal is not None and isinstance(world.goal.tolerance, tuple)
    asked = {i: t for i, t in enumerate(world.goal.tolerance) if t is not None}
    goal = GoalSpec(tuple(asked), tolerance=tuple(asked.values()))
    return World(**{**vars(world), "goal": goal, "file": dataset_id})


WORLDS |= {
    "cube-single-play-oraclerep-v0": _with_oracle_goals("cube-single-play-v0"),
    "scene-play-oraclerep-v0": _with_oracle_goals("scene-play-v0"),
}

POINTMAZE_IDS = tuple(name for name, world in WORLDS.items() if world.behaviour == "pointmaze")
ANTMAZE_IDS = tuple(name for name, world in WORLDS.items() if world.behaviour == "antmaze")
ROBOTICS_IDS = tuple(name for name, world in WORLDS.items() if world.behaviour == "robotics")
# Worlds that no setting was chosen for.
UNSEEN_IDS = (
    "parking-v0",
    "proq/MountainCarPosition-v0",
    "proq/MountainCarState-v0",
    "proq/PendulumAngle-v0",
    "proq/ReacherFingertip-v0",
    "proq/SpiralMaze-v0",
    "proq/ConveyorMaze-v0",
    "proq/FieldMaze-v0",
    "proq/Drone-v0",
    "cube-single-play-v0",
    "scene-play-v0",
)


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
            origin = cls(**{name: fields[name] for name in cls.__dataclass_fields__})
            if type(origin.dataset_id) is not str or origin.split not in SPLITS or type(origin.seed) is not int:
                raise ValueError("a name, a split or a seed is none")
            return origin
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"the array {PROVENANCE_KEY} is not one that zoo.generate writes") from error


def find_world(dataset_id: str) -> World | None:
    """What is known of a dataset; a maze of one's own is ``maze:<its file>``."""
    return _MAZE if dataset_id.startswith(MAZE_PREFIX) else WORLDS.get(dataset_id)


def unknown_id(dataset_id: str, known: Sequence[str] = ()) -> ValueError:
    """
    The error for an id that is not among the known ones, with the closest of them.

    :param known: those besides :data:`WORLDS`
    """
    closest = difflib.get_close_matches(dataset_id, [*known, *WORLDS], n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(closest)}?" if closest else f"known are {', '.join(WORLDS)}"
    return ValueError(f"unknown dataset {dataset_id!r}; {hint}")


def train_path(folder: Path, dataset_id: str) -> Path:
    """The file of a dataset's training split. That of a maze's changes with its layout."""
    if dataset_id.startswith(MAZE_PREFIX):
        layout = Path(dataset_id.removeprefix(MAZE_PREFIX)).expanduser()
        if not layout.is_file():
            raise ValueError(f"there is no file {layout} with the layout of a maze")
        name = f"maze-{layout.stem}-{hashlib.sha256(layout.read_bytes()).hexdigest()[:8]}"
    else:
        world = find_world(dataset_id)
        name = env_name((world and world.file) or dataset_id)
    return folder.expanduser() / f"{name}.npz"


def val_path(path: Path) -> Path:
    """Where OGBench looks for the validation split of a file."""
    return path.with_name(f"{path.stem}-val.npz")
