"""Hyperparameters and spaces as plain JSON, so that an agent file need not pickle them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch as th
from gymnasium import Space, spaces
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule

from proq_agent.common.errors import CheckpointError, within

MAX_SPACE_SIZE = 2**20  # elements of all spaces together; beyond it a few bytes of JSON could ask for all memory
MAX_SPACES = 64
MAX_JSON_ARRAY_SIZE = 10_000  # longer arrays belong into the tensors

_DTYPES = {"bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))}
_DTYPES |= {"float16", "float32", "float64"}
_SCHEDULES: dict[type, tuple[str, ...]] = {
    ConstantSchedule: ("val",),
    LinearSchedule: ("start", "end", "end_fraction"),
    FloatSchedule: ("value_schedule",),
}
_ACTIVATIONS = "CELU ELU GELU Hardswish Identity LeakyReLU Mish ReLU ReLU6 SELU Sigmoid SiLU Softplus Tanh"
_OPTIMIZERS = "Adam AdamW Adamax NAdam RAdam RMSprop SGD"
_CLASSES: dict[str, dict[str, type]] = {
    "__activation__": {name: getattr(th.nn, name) for name in _ACTIVATIONS.split()},
    "__optimizer__": {name: getattr(th.optim, name) for name in _OPTIMIZERS.split()},
}


def to_json_value(value: Any, where: str) -> Any:
    """
    Turn a hyperparameter into JSON that :func:`from_json_value` turns back.

    Tuples, non-finite floats, arrays, SB3's schedules and the usual activation and optimiser classes become
    an object with one ``__tag__``. NumPy scalars come back as Python numbers, a ``torch.device`` as its name.

    :param value: The value.
    :param where: Name of the attribute, for the error message.
    :return: JSON-able value.
    :raises ValueError: If the value has no JSON form.
    """
    if isinstance(value, np.bool_ | np.integer | np.floating | np.str_):
        kinds: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "U": str}
        value = kinds[value.dtype.kind](value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"__float__": str(value)}
    if isinstance(value, th.device):
        return str(value)
    if type(value) is list:
        return [to_json_value(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if type(value) is tuple:
        return {"__tuple__": to_json_value(list(value), where)}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        plain = {str(key): to_json_value(item, f"{where}.{key}") for key, item in value.items()}
        return {"__dict__": plain} if _tag(plain) else plain
    if isinstance(value, np.ndarray) and str(value.dtype) in _DTYPES and value.size <= MAX_JSON_ARRAY_SIZE:
        data = to_json_value(value.ravel().tolist(), where)
        return {"__array__": {"dtype": str(value.dtype), "shape": list(value.shape), "data": data}}
    if type(value) in _SCHEDULES:
        arguments = [to_json_value(getattr(value, name), f"{where}.{name}") for name in _SCHEDULES[type(value)]]
        return {"__schedule__": [type(value).__name__, *arguments]}
    for tag, classes in _CLASSES.items():
        if isinstance(value, type) and classes.get(value.__name__) is value:
            return {tag: value.__name__}
    raise ValueError(
        f"{where}: {value!r:.80} cannot be stored as JSON. Use plain values, small arrays, SB3's schedules "
        "or a common activation class of torch.nn, or have it pickled (readers then need trust_pickle=True)"
    )


def from_json_value(value: Any) -> Any:
    """
    The inverse of :func:`to_json_value`. Only names on fixed lists are ever turned into classes.

    :param value: JSON value.
    :return: The Python value.
    :raises CheckpointError: If the JSON is not of that form.
    """
    with within("malformed value in the agent file"):
        return _decode(value)


def _tag(value: dict[str, Any]) -> str | None:
    key = next(iter(value)) if len(value) == 1 else ""
    return key if key.startswith("__") and key.endswith("__") else None


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    tag = _tag(value)
    if tag is None:
        return {key: _decode(item) for key, item in value.items()}
    content = value[tag]
    if tag == "__dict__":
        return {key: _decode(item) for key, item in content.items()}
    if tag == "__float__" and content in ("inf", "-inf", "nan"):
        return float(content)
    if tag == "__tuple__" and isinstance(content, list):
        return tuple(_decode(content))
    if tag == "__array__":
        array = np.array(_decode(content["data"]), dtype=_dtype(content["dtype"]))
        return array.reshape(_shape(content["shape"]))
    if tag == "__schedule__":
        schedule = {kind.__name__: kind for kind in _SCHEDULES}[content[0]]
        arguments = [_decode(item) for item in content[1:]]
        kinds = (int, float, *_SCHEDULES) if schedule is FloatSchedule else (int, float)
        if len(arguments) == len(_SCHEDULES[schedule]) and all(isinstance(item, kinds) for item in arguments):
            return schedule(*arguments)
    elif tag in _CLASSES:
        return _CLASSES[tag][content]
    raise CheckpointError(f"malformed value in the agent file: {value!r:.80}")


def _dtype(name: Any) -> np.dtype[Any]:
    if name not in _DTYPES:
        raise CheckpointError(f"{name!r} is not one of the number types of an agent file: {', '.join(sorted(_DTYPES))}")
    return np.dtype(name)


def _shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, list) or not all(type(length) is int and length >= 0 for length in shape):
        raise CheckpointError(f"{shape!r:.80} is not the shape of an array")
    return tuple(shape)


def _check_size(description: dict[str, Any]) -> None:
    """Before anything is built: a shape is a few bytes, whatever it asks for."""
    waiting, n_spaces, size = [description], 0, 0
    while waiting:
        space = waiting.pop()
        n_spaces += 1
        if space["type"] == "Dict":
            waiting += space["spaces"].values()
        else:
            size += math.prod(_shape(space["shape"]))
    if n_spaces > MAX_SPACES or size > MAX_SPACE_SIZE:
        raise CheckpointError(
            f"{n_spaces} spaces with {size} elements are too many; an agent file has room for {MAX_SPACES} spaces "
            f"with {MAX_SPACE_SIZE} elements together"
        )


def space_to_json(space: Space[Any]) -> dict[str, Any]:
    """
    Describe a space in JSON.

    :param space: a ``Box``, or a ``Dict`` of them
    :return: JSON-able description for :func:`space_from_json`
    :raises ValueError: if the space is of another kind, or too large
    """
    description = _describe(space)
    _check_size(description)
    return description


def _describe(space: Space[Any]) -> dict[str, Any]:
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {str(key): _describe(item) for key, item in space.spaces.items()}}
    if not isinstance(space, spaces.Box):
        raise ValueError(f"{space!r:.80} cannot be stored; use a Box or a Dict of them")
    low, high = (_bound_to_json(bound) for bound in (space.low, space.high))
    return {"type": "Box", "dtype": _dtype(str(space.dtype)).name, "shape": list(space.shape), "low": low, "high": high}


def space_from_json(description: dict[str, Any]) -> Space[Any]:
    """
    The inverse of :func:`space_to_json`.

    :param description: JSON description
    :return: the space
    :raises CheckpointError: if the description is malformed
    """
    with within("malformed space in the agent file"):
        _check_size(description)
        return _build(description)


def _build(description: dict[str, Any]) -> Space[Any]:
    if description["type"] == "Dict":
        return spaces.Dict({key: _build(item) for key, item in description["spaces"].items()})
    if description["type"] != "Box":
        raise CheckpointError(f"unknown kind of space {description['type']!r:.80}")
    dtype, shape = _dtype(description["dtype"]), _shape(description["shape"])
    low, high = (np.array(_decode(description[name]), dtype=dtype) for name in ("low", "high"))
    low, high = (np.full(shape, bound) if bound.ndim == 0 else bound.reshape(shape) for bound in (low, high))
    return spaces.Box(low, high, dtype=dtype)


def _bound_to_json(bound: np.ndarray) -> Any:
    uniform = bound.size and (bound == bound.flat[0]).all()
    return to_json_value(bound.flat[0] if uniform else bound.tolist(), "bound")
