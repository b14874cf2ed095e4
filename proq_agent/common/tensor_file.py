"""
Nested state as two members of an agent file that can hold nothing else: tensors, and plain values around them.

``<name>.safetensors`` holds the tensors, in the format of that name: an index of names, types and shapes, then their
bytes, so that no file unfolds to more than its size. ``<name>.json`` holds what is around them: numbers, strings,
lists, ``{"tuple": [...]}``, ``{"dict": [[key, value], ...]}`` and ``{"tensor": name}``. A plain dict of tensors needs
no such member, and other tools read it as it is.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from typing import Any

import safetensors.torch
import torch as th

TENSORS, REST = ".safetensors", ".json"
MAX_INDEX_BYTES = 2**22  # of JSON, which takes some 25 times its size in memory
MAX_DEPTH = 20


def dump_state(name: str, state: Any) -> dict[str, bytes]:
    """
    Turn a state dict into members of an agent file.

    :param name: of the members
    :param state: nested dicts, lists and tuples of tensors, numbers, strings and ``None``
    :raises ValueError: naming what else there is, or what is not finite
    """
    tensors: dict[str, th.Tensor] = {}
    rest = _take_apart(state, name, tensors, 0)
    members = {name + TENSORS: safetensors.torch.save(tensors, {"format": "pt"})}
    if rest != _plain_dict(tensors):
        members[name + REST] = json.dumps(rest, allow_nan=False).encode()
    if any(len(data) > MAX_INDEX_BYTES for key, data in members.items() if key.endswith(REST)):
        raise ValueError(f"{name}: too many plain values; put large arrays into tensors")
    return members


def load_state(name: str, members: dict[str, bytes]) -> Any:
    """
    The inverse of :func:`dump_state`.

    :param name: of the members
    :param members: of the whole file
    :raises Exception: of any kind, if they are malformed; the caller names the file
    """
    data = members[name + TENSORS]
    if max(int.from_bytes(data[:8], "little"), len(members.get(name + REST, b""))) > MAX_INDEX_BYTES:
        raise ValueError(f"its index is larger than {MAX_INDEX_BYTES} bytes")
    tensors = dict(sorted(safetensors.torch.load(data).items()))
    if name + REST not in members:
        return tensors
    state = _put_together(json.loads(members[name + REST]), tensors, 0)
    if tensors:
        raise ValueError(f"the tensors {sorted(tensors)[:3]} have no place in {name}{REST}")
    return state


def check_finite(state: Any, where: str, may_be_infinite: tuple[str, ...] = ()) -> None:
    """
    Refuse numbers that are none.

    :param state: nested dicts, lists and tuples
    :param where: its name, for the error
    :param may_be_infinite: names of tensors in which infinity has a meaning
    :raises ValueError: naming the tensor
    """
    if isinstance(state, dict):
        for key, item in state.items():
            check_finite(item, f"{where}.{key}", may_be_infinite)
    elif isinstance(state, list | tuple):
        for index, item in enumerate(state):
            check_finite(item, f"{where}[{index}]", may_be_infinite)
    elif isinstance(state, th.Tensor):
        bad = state.isnan() if where.rpartition(".")[2] in may_be_infinite else ~state.isfinite()
        if not state.is_meta and bad.any():
            raise ValueError(f"{where} holds numbers that are not finite ({int(bad.sum())} of {state.numel()})")
    elif isinstance(state, float) and not math.isfinite(state):
        raise ValueError(f"{where} is {state}, not a finite number")


def _plain_dict(tensors: dict[str, th.Tensor]) -> dict[str, Any]:
    return {"dict": [[name, {"tensor": name}] for name in tensors]}


def _take_apart(value: Any, where: str, tensors: dict[str, th.Tensor], depth: int) -> Any:
    """Exact types: NumPy's float64 *is* a float, and would come back as another."""
    if depth > MAX_DEPTH:
        raise ValueError(f"{where} is nested more than {MAX_DEPTH} deep")
    if isinstance(value, th.Tensor):
        name = where.partition(".")[2] or where
        while name in tensors:  # as of {"a.b": ..., "a": {"b": ...}}
            name += "_"
        tensors[name] = value.detach().cpu().clone(memory_format=th.contiguous_format)
        return {"tensor": name}
    if type(value) in (dict, OrderedDict):
        for key in value:
            if type(key) not in (str, int):
                raise ValueError(f"{where}: the key {key!r} is neither a string nor an integer")
        items = [[key, _take_apart(item, f"{where}.{key}", tensors, depth + 1)] for key, item in value.items()]
        return {"dict": items}
    if type(value) in (list, tuple, th.Size):
        parts = [_take_apart(item, f"{where}[{index}]", tensors, depth + 1) for index, item in enumerate(value)]
        return parts if type(value) is list else {"tuple": parts}
    if type(value) not in (bool, int, float, str, type(None)):
        raise ValueError(
            f"{where} is a {type(value).__module__}.{type(value).__qualname__}; "
            "state dicts may hold tensors, plain numbers, strings and None"
        )
    return value


def _put_together(value: Any, tensors: dict[str, th.Tensor], depth: int) -> Any:
    """Each tensor is taken out of ``tensors`` as it is used: twice the same would need twice the memory."""
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    if isinstance(value, list):
        return [_put_together(item, tensors, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors.pop(content)
    if kind == "tuple" and isinstance(content, list):
        return tuple(_put_together(content, tensors, depth))
    if kind == "dict":
        items = [(key, _put_together(item, tensors, depth + 1)) for key, item in content]
        if all(type(key) in (str, int) for key, _ in items) and len(dict(items)) == len(items):
            return dict(items)
    raise ValueError(f"malformed value {value!r:.80}")
