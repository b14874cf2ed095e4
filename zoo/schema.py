"""Which hyperparameters an algorithm has, read off its constructor, its groups of settings and its policy."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv

from proq_agent.common.settings import Settings, as_settings, to_dict

if TYPE_CHECKING:
    from proq_agent.common.offline import OfflineAlgorithm


POLICY = "policy_kwargs"
Schema = dict[str, Any]  # by name, the type of a value or the schema of a group

_SCHEDULE = re.compile(r"lin_([^_]+)(?:_([^_]+))?")
# Arguments that say where and how to run, not what to learn; the command line has options for them.
_NOT_HYPERPARAMETERS = {
    "self", "policy", "env", "device", "dataset", "observation_space", "action_space", "tensorboard_log",
    "stats_window_size", "verbose", "seed", "_init_setup_model", "lr_schedule",
}  # fmt: skip


def schema_of(algorithm: type[OfflineAlgorithm]) -> Schema:
    """The constructor's arguments; those of a group or of the policy are a schema of their own."""
    schema = {name: _group_schema(hint) or hint for name, (hint, _) in _arguments(algorithm).items()}
    if POLICY in schema:
        schema[POLICY] = {name: hint for name, (hint, _) in _policy_arguments(algorithm).items()}
    return schema


def with_defaults(algorithm: type[OfflineAlgorithm], hyperparams: Mapping[str, Any]) -> dict[str, Any]:
    """
    All hyperparameters, groups as plain dicts.

    :param algorithm: knows the defaults
    :param hyperparams: those that are not left at their defaults
    :raises ValueError: if a group refuses its settings
    """
    result: dict[str, Any] = {}
    for name, (hint, default) in _arguments(algorithm).items():
        value, group = hyperparams.get(name, default), _group(hint)
        if group is not None:
            value = to_dict(as_settings(group, value))
        elif name == POLICY:
            value = {key: own for key, (_, own) in _policy_arguments(algorithm).items()} | dict(value or {})
        result[name] = value
    return result


def _arguments(algorithm: type[OfflineAlgorithm]) -> dict[str, tuple[Any, Any]]:
    """Type and default of each hyperparameter of a constructor."""
    return _signature(algorithm.__init__, _NOT_HYPERPARAMETERS)


def _policy_arguments(algorithm: type[OfflineAlgorithm]) -> dict[str, tuple[Any, Any]]:
    """Those of the policy; what has no default there is given by the algorithm."""
    arguments = _signature(algorithm.policy_aliases["MultiInputPolicy"].__init__, _NOT_HYPERPARAMETERS)
    return {name: (hint, own) for name, (hint, own) in arguments.items() if own is not inspect.Parameter.empty}


def _signature(function: Callable[..., Any], excluded: set[str]) -> dict[str, tuple[Any, Any]]:
    hints = get_type_hints(function, localns={"VecEnv": VecEnv})  # a forward reference in SB3's GymEnv
    return {
        name: (hints[name], parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in excluded and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _group(hint: Any) -> Any:
    """The class of settings that an argument takes, if it does."""
    groups = (option for option in _options(hint) if isinstance(option, type) and issubclass(option, Settings))
    return next(groups, None)


def _group_schema(hint: Any) -> Schema | None:
    group = _group(hint)
    return {name: _group_schema(h) or h for name, h in get_type_hints(group).items()} if group else None


# ---- names ---------------------------------------------------------------------------------------------


def dotted_names(schema: Schema, prefix: str = "") -> Iterator[str]:
    """Names of all values: ``batch_size``, ``policy_kwargs.dropout`` ..."""
    for name, hint in schema.items():
        if isinstance(hint, dict):
            yield from dotted_names(hint, f"{prefix}{name}.")
        else:
            yield prefix + name


def unknown(name: str, schema: Schema) -> str:
    """What to say of a name that a schema does not have: the closest one that it has, or that a group of it has."""
    by_last = {dotted.rpartition(".")[2]: dotted for dotted in dotted_names(schema)} | {key: key for key in schema}
    closest = difflib.get_close_matches(name, by_last, n=1, cutoff=0.5)
    hint = f"did you mean {by_last[closest[0]]}?" if closest else f"known are {', '.join(schema)}"
    return f"unknown hyperparameter {name!r:.80}; {hint}"


# ---- values --------------------------------------------------------------------------------------------


def convert(value: Any, hint: Any) -> Any:
    """The value as the type that the hint asks for; the error completes the sentence "it must be ..."."""
    options = _options(hint)
    for option in options:
        accepted, result = _match(value, option)
        if accepted:
            return result
    wanted = " or ".join(_describe(option) for option in options)
    remedy = ""
    if isinstance(value, str) and {int, float} & set(options):
        with suppress(ValueError, OverflowError):  # no number, or none that is finite
            remedy = f"; YAML takes {value:.40} for a string: write {_as_yaml_number(value, float in options)}"
    raise ValueError(f"{wanted}, got {type(value).__name__} {value!r:.80}{remedy}")


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


def to_plain(hyperparams: Any) -> Any:
    """
    The way back: hyperparameters as values that YAML can hold and :func:`convert` reads.

    :param hyperparams: values, dicts of them, groups of settings
    """
    if isinstance(hyperparams, Mapping):
        return {key: to_plain(inner) for key, inner in hyperparams.items()}
    if isinstance(hyperparams, Settings):
        return to_plain(to_dict(hyperparams))
    if isinstance(hyperparams, LinearSchedule):
        return f"lin_{hyperparams.start}_{hyperparams.end}"
    return list(hyperparams) if isinstance(hyperparams, tuple) else hyperparams
