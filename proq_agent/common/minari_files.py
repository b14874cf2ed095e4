"""Minari datasets of this machine, which may be a stranger's: their metadata are read, but build nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from proq_agent.common.errors import within

MAX_METADATA_BYTES = 2**22
MAX_DEPTH = 10
# Environments of Gymnasium that build others, by names in their arguments.
_BUILDERS = re.compile(r"GymV\d+Environment")


class NamedEnvironment(NamedTuple):
    """The environment that a dataset says it is from."""

    id: str
    arguments: dict[str, Any]  #: of ``gymnasium.make``
    is_plain: bool  #: whether its name and these arguments are all there is to it, and can do no harm


def load_minari(dataset_id: str, trust: bool = False) -> Any:
    """
    Open a Minari dataset of this machine.

    :param dataset_id: its name
    :param trust: where its spaces are missing, build the environment that it names to find out. Runs code of its author
    :raises ImportError: without the package
    :raises ValueError: if the dataset is not there, or damaged, or not to be opened without trust
    """
    metadata = _metadata(dataset_id)
    import minari

    if not trust and not {"observation_space", "action_space"} <= metadata.keys():
        raise ValueError(
            f"the Minari dataset {dataset_id} does not tell its spaces, and to build its environment to find out would "
            "run code of its author; if you trust them, use minari.load_dataset, or --trust-dataset on a command line"
        )
    with within(f"the Minari dataset {dataset_id} cannot be opened", "fetch it again", ValueError):
        return minari.load_dataset(dataset_id)


def named_environment(dataset_id: str) -> NamedEnvironment | None:
    """
    The environment that a Minari dataset names for evaluation, or else that it was collected in; nothing is built.

    :param dataset_id: its name
    :return: None if it names none
    """
    metadata = _metadata(dataset_id)
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


def _metadata(dataset_id: str) -> dict[str, Any]:
    try:
        from minari.storage import get_dataset_path
    except ImportError as error:
        raise ImportError("Minari datasets need the package: pip install minari h5py") from error
    with within(f"{dataset_id} is no name of a Minari dataset", kind=ValueError):
        path = Path(get_dataset_path(dataset_id)) / "data" / "metadata.json"
    if not path.is_file():
        raise ValueError(f"there is no Minari dataset {dataset_id} here: minari download {dataset_id}")
    with within(f"{path} is damaged", "fetch the dataset again", ValueError):
        if path.stat().st_size > MAX_METADATA_BYTES:
            raise ValueError(f"it is larger than {MAX_METADATA_BYTES} bytes")
        metadata = json.loads(path.read_text())
        if not isinstance(metadata, dict):
            raise ValueError("it holds no names")
        return metadata
