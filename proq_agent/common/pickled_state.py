"""
The state dicts of format 1, which ``torch.save`` wrote: a zip of the tensors' bytes, and a pickle that places them.

A pickle is a program, and even ``weights_only`` lets it make a ``bytearray`` of any size. This reads the few
instructions that ``torch.save`` writes for tensors and plain values, and runs none: there is nothing that it could call
but the functions below.
"""

from __future__ import annotations

import io
import math
import pickletools
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

import torch as th

MAX_VALUES = 100_000  # and as many instructions; an agent has some thousands
MAX_SHARING = 4  # bytes of all tensors for each byte of the file; tied weights share theirs
_DTYPES = {
    "FloatStorage": th.float32,
    "DoubleStorage": th.float64,
    "HalfStorage": th.float16,
    "BFloat16Storage": th.bfloat16,
    "LongStorage": th.int64,
    "IntStorage": th.int32,
    "ShortStorage": th.int16,
    "CharStorage": th.int8,
    "ByteStorage": th.uint8,
    "BoolStorage": th.bool,
}


class _Storage(NamedTuple):
    dtype: th.dtype
    key: str
    size: int


def load_pickled_state(data: bytes) -> Any:
    """
    Read a state dict.

    :param data: what ``torch.save`` wrote
    :return: nested dicts, lists and tuples of tensors, numbers, strings and ``None``
    :raises Exception: of any kind, if it is malformed or holds anything else; the caller names the file
    """
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        infos = {info.filename.partition("/")[2]: info for info in file.infolist()}
        if any(info.compress_type != zipfile.ZIP_STORED for info in infos.values()):
            raise ValueError("it is compressed, which an agent file never is")
        if sum(info.file_size for info in file.infolist()) > len(data):
            raise ValueError("its members declare more bytes than it has")
        if "byteorder" in infos and file.read(infos["byteorder"]) != b"little":
            raise ValueError("it was written on a machine of another byte order")
        left = MAX_SHARING * len(data)
        storages: dict[str, bytearray] = {}

        def tensor(storage: _Storage, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> Any:
            nonlocal left
            numel = math.prod(size)
            left -= numel * storage.dtype.itemsize
            if left < 0 or min((*size, *stride, 0)) < 0:
                raise ValueError(f"a tensor of {numel} numbers in {storage.size}")
            if storage.key not in storages:
                storages[storage.key] = bytearray(file.read(infos[f"data/{storage.key}"]))
            content = storages[storage.key]
            if len(content) != storage.size * storage.dtype.itemsize:
                raise ValueError("a tensor's bytes are not as many as declared")
            flat = th.frombuffer(content, dtype=storage.dtype) if content else th.empty(0, dtype=storage.dtype)
            return flat.as_strided(size, stride, offset)

        return _read(file.read(infos["data.pkl"]), tensor)


def _read(program: bytes, tensor: Callable[..., Any]) -> Any:
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}
    n_values = 0

    def count(value: Any) -> None:
        """Walk it as a reader would: what is nested or shared over and over is refused before anybody does."""
        nonlocal n_values
        n_values += 1
        if n_values > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES} values")
        if isinstance(value, dict):
            value = [*value.keys(), *value.values()]
        if isinstance(value, list | tuple) and not isinstance(value, _Storage):
            for item in value:
                count(item)

    def popped() -> list[Any]:
        at = marks.pop()
        items = stack[at:]
        del stack[at:]
        return items

    argument: Any
    for number, (opcode, argument, _) in enumerate(pickletools.genops(program)):
        if number > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES} values")
        name = opcode.name
        if name in ("PROTO", "STOP"):
            continue
        if name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "MARK":
            marks.append(len(stack))
        elif name in ("NONE", "NEWTRUE", "NEWFALSE"):
            stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[name])
        elif name in ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"):
            stack.append(argument)
        elif name == "EMPTY_TUPLE":
            stack.append(())
        elif name == "EMPTY_LIST":
            stack.append([])
        elif name == "EMPTY_DICT":
            stack.append({})
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            stack[-int(name[-1]) :] = [tuple(stack[-int(name[-1]) :])]
        elif name == "TUPLE":
            stack.append(tuple(popped()))
        elif name == "GLOBAL":
            stack.append(_function(argument, tensor))
        elif name == "BINPERSID":
            kind, storage, key, _, size = stack.pop()
            if kind != "storage" or not isinstance(storage, th.dtype):
                raise ValueError("an object that is no tensor")
            stack.append(_Storage(storage, key, size))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(function(*arguments))
        elif name == "BUILD":
            stack.pop()  # the attributes of a state dict: versions of its modules
        elif name in ("SETITEM", "SETITEMS"):
            items = popped() if name == "SETITEMS" else [stack.pop(-2), stack.pop()]
            _as(dict, stack[-1]).update(zip(items[::2], items[1::2], strict=True))
        elif name in ("APPEND", "APPENDS"):
            items = popped() if name == "APPENDS" else [stack.pop()]
            _as(list, stack[-1]).extend(items)
        else:
            raise ValueError(f"it does more than place tensors ({name}), loading it could run foreign code")
    (state,) = stack
    count(state)
    return state


def _as(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(f"{value!r:.80} is no {kind.__name__}")
    return value


def _function(name: str, tensor: Callable[..., Any]) -> Any:
    module, _, function = name.partition(" ")
    if name == "torch._utils _rebuild_tensor_v2":
        return tensor
    if name == "torch._utils _rebuild_parameter":
        return lambda data, *_: data
    if name == "collections OrderedDict":
        return dict
    if module == "torch" and function in _DTYPES:
        return _DTYPES[function]
    raise ValueError(f"it names {name!r}, loading it could run foreign code")
