"""Hyperparameter files: plain YAML, every key and value checked against the constructors before anything runs."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv

from proq_agent import ProQ
from proq_agent.common.goal_sampling import GoalSampling
from proq_agent.common.settings import Settings, to_dict
from proq_agent.planning.settings import PlanningSettings
from proq_agent.proq.policies import ProQPolicy
from proq_agent.proq.settings import DistanceSettings, KeypointSettings

DEFAULT_FILE = Path(__file__).parent / "hyperparams" / "proq.yml"
PRESETS = ("tuned", "paper")
N_TIMESTEPS = "n_timesteps"

_SCHEDULE = re.compile(r"lin_([^_]+)(?:_([^_]+))?")
# Arguments that say where and how to run, not what to learn; the command line has options for them.
_NOT_HYPERPARAMETERS = {
    "self", "policy", "env", "device", "dataset", "observation_space", "action_space", "tensorboard_log",
    "stats_window_size", "verbose", "seed", "_init_setup_model", "legacy",
}  # fmt: skip
_GIVEN_BY_PROQ = {"self", "observation_space", "action_space", "lr_schedule", "n_keypoints"}


def load_hyperparams(
    env_id: str,
    preset: str = "tuned",
    conf_file: str | Path | None = None,
    overrides: Sequence[str] = (),
) -> tuple[dict[str, Any], int]:
    """
    Look up the hyperparameters for an environment.

    :param env_id: name of the entry; ``default`` is used where there is none
    :param preset: ``tuned``, or ``paper`` for the entry of that name, whatever the environment
    :param conf_file: a file like ``zoo/hyperparams/proq.yml``, which is the default
    :param overrides: ``key:value`` with the value in YAML; ``policy_kwargs.key:value`` for one key of that dict
    :return: keyword arguments for :class:`~proq_agent.ProQ`, and the number of updates
    :raises ValueError: naming file, line and the nearest valid key
    """
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}; choose one of {', '.join(PRESETS)}")
    entry = _read_entry(Path(conf_file or DEFAULT_FILE).expanduser(), env_id if preset == "tuned" else preset)
    for override in overrides:
        key, value = _parse_override(override)
        if key.startswith("policy_kwargs."):
            inner = key.removeprefix("policy_kwargs.")
            entry["policy_kwargs"] = entry.get("policy_kwargs", {}) | {inner: value[inner]}
        else:
            entry[key] = value
    if N_TIMESTEPS not in entry:
        raise ValueError(f"{conf_file or DEFAULT_FILE}: the entry for {env_id} has no {N_TIMESTEPS}")
    n_timesteps = entry.pop(N_TIMESTEPS)
    return entry, n_timesteps


def hyperparams_of(model: ProQ) -> dict[str, Any]:
    """All hyperparameters of an agent, in the form of :func:`load_hyperparams`, the defaults included."""
    return {
        name: getattr(model, name) for name in _allowed(ProQ.__init__, _NOT_HYPERPARAMETERS) if hasattr(model, name)
    }


def to_plain(hyperparams: dict[str, Any]) -> dict[str, Any]:
    """
    The way back: keyword arguments as values that YAML can hold and :func:`load_hyperparams` reads.

    :param hyperparams: as returned by :func:`load_hyperparams`
    """

    def plain(value: Any) -> Any:
        value = to_dict(value)
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, LinearSchedule):
            return f"lin_{value.start}_{value.end}"
        return list(value) if isinstance(value, tuple) else value

    return plain(hyperparams)


# ---- reading, with line numbers ------------------------------------------------------------------------


def _read_entry(path: Path, name: str) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"there is no hyperparameter file {path}")
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        entries = _items(root, root, str(path))
        item = entries.get(name, entries.get("default") if name not in PRESETS else None)
        if item is None:
            neither = "" if name in PRESETS else " and no default"
            raise ValueError(f"{path}: there is no entry {name}{neither}; it has {', '.join(entries) or 'none'}")
        return _check_entry(*item, _allowed(ProQ.__init__, _NOT_HYPERPARAMETERS) | {N_TIMESTEPS: int}, str(path))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML: {error}") from error


def _items(
    at: yaml.Node | None, node: yaml.Node | None, where: str, within: tuple[yaml.Node, ...] = ()
) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    """
    The nodes of a mapping's keys and values; merged keys (``<<``) are those that are not given directly.

    :param at: the key of the mapping, whose line errors name: that of a value may be the one of its anchor
    :param within: mappings that this one is merged into
    """
    if not isinstance(node, yaml.MappingNode):
        raise ValueError(f"{_place(where, at)}: expected 'key: value' lines")
    if node in within:
        raise ValueError(f"{_place(where, at)}: this merges an entry into itself")
    direct: dict[str, tuple[yaml.Node, yaml.Node]] = {}
    merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            for source in reversed(value.value if isinstance(value, yaml.SequenceNode) else [value]):
                merged |= _items(key, source, where, (*within, node))
        elif not isinstance(key, yaml.ScalarNode):
            raise ValueError(f"{_place(where, key)}: a key must be a name, not a list or a mapping")
        elif key.value in direct:
            raise ValueError(f"{_place(where, key)}: {key.value} is given twice")
        else:
            direct[key.value] = key, value
    return merged | direct


def _place(where: str, node: yaml.Node | None) -> str:
    return where if node is None or where.startswith("-params") else f"{where}, line {node.start_mark.line + 1}"


def _check_entry(at: yaml.Node | None, node: yaml.Node, allowed: dict[str, Any], where: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, (key, value) in _items(at, node, where).items():
        if name not in allowed:
            raise ValueError(f"{_place(where, key)}: {_unknown(name, allowed)}")
        groups = [hint for hint in get_args(allowed[name]) if isinstance(hint, type) and issubclass(hint, Settings)]
        if isinstance(allowed[name], type) and issubclass(allowed[name], Settings):
            groups = [allowed[name]]
        if name == "policy_kwargs":
            result[name] = _check_entry(key, value, _allowed(ProQPolicy.__init__, _GIVEN_BY_PROQ), where)
        elif groups:
            result[name] = _check_entry(key, value, get_type_hints(groups[0]), where)
        else:
            plain = yaml.SafeLoader("").construct_document(value)
            try:
                result[name] = _convert(plain, allowed[name])
            except ValueError as error:
                raise ValueError(f"{_place(where, key)}: {name} must be {error}") from None
        if name == N_TIMESTEPS and result[name] < 1:
            raise ValueError(f"{_place(where, key)}: {name} must be at least 1, got {result[name]}")
    return result


def _parse_override(override: str) -> tuple[str, Any]:
    """The key of ``key:value``, and its checked value; of ``policy_kwargs.key:value``, a dict with that key."""
    key, colon, text = override.partition(":")
    if not colon or not text.strip():
        raise ValueError(f"-params {override}: write key:value, as in batch_size:512")
    allowed = _allowed(ProQ.__init__, _NOT_HYPERPARAMETERS) | {N_TIMESTEPS: int}
    try:
        value = yaml.compose(text, Loader=yaml.SafeLoader)
        if value is None:
            raise ValueError(f"-params {override}: the value is only a comment")
        for name in reversed(key.split(".")):
            mark = value.start_mark
            scalar = yaml.ScalarNode("tag:yaml.org,2002:str", name, mark, mark)
            value = yaml.MappingNode("tag:yaml.org,2002:map", [(scalar, value)], mark, mark)
        return key, _check_entry(None, value, allowed, f"-params {override}")[key.split(".")[0]]
    except yaml.YAMLError as error:
        raise ValueError(f"-params {override}: the value is not valid YAML: {error}") from error


# ---- checking against the constructors -----------------------------------------------------------------


def _allowed(function: Callable[..., Any], excluded: set[str]) -> dict[str, Any]:
    """Names and types of a constructor's arguments."""
    hints = get_type_hints(function, localns={"VecEnv": VecEnv})  # a forward reference in SB3's GymEnv
    allowed = {name: hints[name] for name in inspect.signature(function).parameters if name not in excluded}
    if function is ProQ.__init__:
        allowed |= {name: _hint_of(place) for name, place in ProQ.renamed.places.items()}
        allowed |= {name: type(value) for name, value in ProQ.renamed.gone.items()}
    return allowed


def _hint_of(place: str) -> Any:
    """The type of a setting within a group."""
    group, *rest = place.split(".")
    hint: Any = {"goals": GoalSampling, "distance": DistanceSettings, "keypoints": KeypointSettings}.get(
        group, PlanningSettings
    )
    for name in rest:
        hint = get_type_hints(hint)[name]
    return hint


def _unknown(key: str, allowed: dict[str, Any]) -> str:
    closest = difflib.get_close_matches(key, allowed, n=1, cutoff=0.5)
    hint = f"did you mean {closest[0]}?" if closest else f"known are {', '.join(allowed)}"
    return f"unknown hyperparameter {key!r}; {hint}"


def _convert(value: Any, hint: Any) -> Any:
    """The value as the type that the hint asks for; the error completes the sentence "it must be ..."."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for option in options:
        accepted, result = _match(value, option)
        if accepted:
            return result
    wanted = " or ".join(_describe(option) for option in options)
    remedy = ""
    if isinstance(value, str) and {int, float} & set(options):
        with suppress(ValueError):
            remedy = f"; YAML takes {value} for a string: write {_as_yaml_number(value, float in options)}"
    raise ValueError(f"{wanted}, got {type(value).__name__} {value!r}{remedy}")


def _match(value: Any, option: Any) -> tuple[bool, Any]:
    if option in (bool, str, NoneType):
        return isinstance(value, option), value
    if option is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    if option is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number, float(value) if number else value
    if get_origin(option) is Literal:
        return value in get_args(option), value
    if get_origin(option) is Callable:
        schedule = _schedule(value)
        return schedule is not None, schedule
    if get_origin(option) is Sequence:
        inner = get_args(option)[0]
        matches = [_match(item, inner) for item in value] if isinstance(value, list) else [(False, None)]
        return all(accepted for accepted, _ in matches), [result for _, result in matches]
    raise TypeError(f"a hyperparameter of type {option} cannot be read from YAML")


def _schedule(value: Any) -> LinearSchedule | None:
    """``lin_A`` falls from A to 0 over the training, ``lin_A_B`` from A to B."""
    match = _SCHEDULE.fullmatch(value) if isinstance(value, str) else None
    try:
        return LinearSchedule(float(match[1]), float(match[2] or 0.0), 1.0) if match else None
    except ValueError:
        return None


def _describe(option: Any) -> str:
    if get_origin(option) is Callable:
        return "a schedule like lin_1.0e-3_5.0e-5"
    if get_origin(option) is Sequence:
        return "a list of whole numbers like [128, 128]"
    if get_origin(option) is Literal:
        return " or ".join(repr(choice) for choice in get_args(option))
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text", NoneType: "null"}
    return names.get(option, str(option))


def _as_yaml_number(text: str, fractional: bool) -> str:
    number = float(text)
    return yaml.safe_dump(number if fractional else int(number)).splitlines()[0]
