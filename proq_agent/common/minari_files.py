"""Minari datasets of this machine, which may be a stranger's: their metadata are read, but build nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from proq_agent.common.errors import within
from proq_agent.common.files import readable_bytes
from proq_agent.common.hdf5 import HDF5Arrays

MAX_METADATA_BYTES = 2**22
MAX_DEPTH = 10
TRUST = "if you trust its author, give what minari.load_dataset returns, or --trust-dataset on a command line"
_INSTALL = "Minari datasets need the package: pip install minari h5py"
# Environments of Gymnasium that build others, by names in their arguments.
_BUILDERS = re.compile(r"GymV\d+Environment")


class NamedEnvironment(NamedTuple):
    """The environment that a dataset says it is from."""

    id: str
    arguments: dict[str, Any]  #: of ``gymnasium.make``
    is_plain: bool  #: whether its name and these arguments are all there is to it, and can do no harm


class Recording(NamedTuple):
    """What a dataset holds."""

    episodes: Iterator[tuple[Any, np.ndarray]]  #: observations and actions of each, read when they are asked for
    action_space: spaces.Box


def read_minari(dataset_id: str) -> Recording:
    """
    Read a Minari dataset of this machine within bounds, and nothing but numbers in its own folder.

    :param dataset_id: its name
    :raises ImportError: without the package
    :raises ValueError: naming the file and the remedy, whatever is wrong with it
    """
    return read_minari_folder(_data_folder(dataset_id), dataset_id)


def read_minari_folder(folder: Path, name: str) -> Recording:
    """
    Read a Minari dataset wherever it lies, as :func:`read_minari` does.

    :param folder: with ``metadata.json``
    :param name: of the dataset, for errors
    """
    metadata = _metadata(folder)
    if "action_space" not in metadata:
        raise ValueError(
            f"the Minari dataset {name} does not tell its action space, and to build its environment to find out "
            f"would run code of its author; {TRUST}"
        )
    if metadata.get("data_format", "hdf5") != "hdf5":
        raise ValueError(f"the Minari dataset {name} is of another format than hdf5; {TRUST}")
    with within(f"the action space of the Minari dataset {name} cannot be used", kind=ValueError):
        action_space = _box(json.loads(metadata["action_space"]))
    return Recording(_episodes(folder / "main_data.hdf5", metadata.get("total_episodes")), action_space)


def _episodes(path: Path, n_episodes: Any) -> Iterator[tuple[Any, np.ndarray]]:
    with within(f"{path} cannot be read", "fetch the dataset again", ValueError):
        if not path.resolve().is_relative_to(path.parent.resolve()):
            raise ValueError("it is a link out of the dataset's folder")
        if not path.is_file():  # who opens a pipe waits for its other end
            raise ValueError("it is no file")
        with HDF5Arrays(path, readable_bytes(path.stat().st_size)) as arrays:
            if type(n_episodes) is not int or n_episodes > len(arrays.file):
                raise ValueError(f"it holds {len(arrays.file)} episodes, and not {n_episodes!r:.40}")
            for number in range(n_episodes):
                episode = arrays.part(arrays.file, f"episode_{number}")
                seen: Any = arrays.part(episode, "observations")
                if isinstance(seen, Mapping):
                    seen = {key: arrays.numbers(arrays.part(seen, key)) for key in ("observation", "achieved_goal")}
                else:
                    seen = arrays.numbers(seen)
                yield seen, arrays.numbers(arrays.part(episode, "actions"))


def _box(description: dict[str, Any]) -> spaces.Box:
    """From JSON as Minari writes it."""
    if description["type"] != "Box" or description["dtype"] not in ("float32", "float64"):
        raise ValueError(f"actions must be points of a Box, and not of {description!r:.80}")
    low, high = (np.array(description[name], dtype=description["dtype"]) for name in ("low", "high"))
    return spaces.Box(low, high, dtype=low.dtype.type)


def load_minari(dataset_id: str) -> Any:
    """
    Open a Minari dataset of this machine with the package itself, which may build the environment that it describes and
    reads whatever it refers to. Runs code of its author.

    :param dataset_id: its name
    :raises ImportError: without the package
    :raises ValueError: if the dataset is not there, or damaged
    """
    _metadata(_data_folder(dataset_id))
    import minari

    with within(f"the Minari dataset {dataset_id} cannot be opened", "fetch it again", ValueError):
        return minari.load_dataset(dataset_id)


def named_environment(dataset_id: str) -> NamedEnvironment | None:
    """
    The environment that a Minari dataset names for evaluation, or else that it was collected in; nothing is built.

    :param dataset_id: its name
    :return: None if it names none
    """
    metadata = _metadata(_data_folder(dataset_id))
    text = metadata.get("eval_env_spec") or metadata.get("env_spec")
    if text is None:
        return None
    with within(f"the Minari dataset {dataset_id} names no proper environment", kind=ValueError):
        spec = json.loads(text)
        name, arguments, steps = spec["id"], dict(spec.get("kwargs") or {}), spec.get("max_episode_steps")
        if not isinstance(name, str):
            raise ValueError(f"{name!r:.40} is no name")
        arguments |= {} if steps is None else {"max_episode_steps": steps}
        # GoalDict, which brings goals into our form, is put around every environment anyway.
        wrappers = [wrapper for wrapper in spec.get("additional_wrappers") or () if wrapper["name"] != "GoalDict"]
        is_plain = ":" not in name and not _BUILDERS.match(name) and not wrappers and _is_plain(arguments)
        return NamedEnvironment(name, arguments, is_plain)


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Numbers, words, and lists of them: no path, no module, no address."""
    if isinstance(value, dict):
        return depth < MAX_DEPTH and all(_is_plain(part, depth + 1) for item in value.items() for part in item)
    if isinstance(value, list):
        return depth < MAX_DEPTH and all(_is_plain(item, depth + 1) for item in value)
    return not isinstance(value, str) or re.fullmatch(r"[\w-]{0,40}", value) is not None


def check_h5py() -> None:
    """
    :raises ImportError: with the remedy, if the package is missing
    """
    try:
        import h5py  # noqa: F401
    except ImportError as error:
        raise ImportError(_INSTALL) from error


def _data_folder(dataset_id: str) -> Path:
    check_h5py()
    try:
        from minari.storage import get_dataset_path
    except ImportError as error:
        raise ImportError(_INSTALL) from error
    with within(f"{dataset_id} is no name of a Minari dataset", kind=ValueError):
        folder = Path(get_dataset_path(dataset_id)) / "data"
    if not (folder / "metadata.json").is_file():
        raise ValueError(f"there is no Minari dataset {dataset_id} here: minari download {dataset_id}")
    return folder


def _metadata(folder: Path) -> dict[str, Any]:
    path = folder / "metadata.json"
    with within(f"{path} is damaged", "fetch the dataset again", ValueError):
        if path.stat().st_size > MAX_METADATA_BYTES:
            raise ValueError(f"it is larger than {MAX_METADATA_BYTES} bytes")
        metadata = json.loads(path.read_text())
        if not isinstance(metadata, dict):
            raise ValueError("it holds no names")
        return metadata
