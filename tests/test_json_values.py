"""Hyperparameters and spaces survive the way through JSON, and a stranger's JSON does no harm."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch as th
from agent_files import assert_same
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule

from proq_agent.common.json_values import (
    CheckpointError,
    from_json_value,
    space_from_json,
    space_to_json,
    to_json_value,
)

DTYPES = ["bool", "int8", "int64", "uint8", "uint64", "float16", "float32", "float64"]
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
tagged = st.sampled_from(["__tuple__", "__float__", "__dict__", "__array__", "__eval__"])
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=4) | tagged, inner, max_size=3)
    ),
    max_leaves=12,
)


@given(values)
def test_json_values_round_trip(value: Any) -> None:
    text = json.dumps(to_json_value(value, "value"), allow_nan=False)
    assert_same(from_json_value(json.loads(text)), value)


@given(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3), st.randoms())
def test_arrays_round_trip(dtype: str, shape: list[int], random: Any) -> None:
    data = [random.choice([0, 1, 100] + [math.inf, -math.inf] * dtype.startswith("f")) for _ in range(math.prod(shape))]
    array = np.array(data, dtype=dtype).reshape(shape)
    assert_same(from_json_value(json.loads(json.dumps(to_json_value(array, "array")))), array)


def test_numpy_scalars_and_devices_become_plain() -> None:
    value = {"a": np.float32(0.5), "b": np.int64(2**62), "c": np.bool_(True), "d": th.device("cpu"), "e": np.str_("x")}
    plain = {"a": 0.5, "b": 2**62, "c": True, "d": "cpu", "e": "x"}
    assert_same(to_json_value(value, "value"), plain)
    assert to_json_value(np.float64("nan"), "value") == {"__float__": "nan"}


@pytest.mark.parametrize(
    "schedule",
    [
        ConstantSchedule(3e-4),
        LinearSchedule(1e-3, 1e-5, 0.7),
        FloatSchedule(3e-4),
        FloatSchedule(LinearSchedule(1e-3, 0.0, 1.0)),
    ],
)
def test_schedules_round_trip(schedule: Any) -> None:
    back = from_json_value(json.loads(json.dumps(to_json_value(schedule, "learning_rate"))))
    assert repr(back) == repr(schedule) and type(back) is type(schedule)
    assert [back(x) for x in (1.0, 0.5, 0.1)] == [schedule(x) for x in (1.0, 0.5, 0.1)]


def test_classes_round_trip() -> None:
    value = {"activation_fn": th.nn.GELU, "optimizer_class": th.optim.AdamW}
    assert to_json_value(value, "policy_kwargs")["activation_fn"] == {"__activation__": "GELU"}
    assert from_json_value(to_json_value(value, "policy_kwargs")) == value


class GELU(th.nn.Module):
    """Only its name is that of a known activation."""


@pytest.mark.parametrize(
    "value",
    [lambda x: x, FloatSchedule(lambda x: x), GELU, th.nn.GELU(), {1: 2}, {1}, 1j, b"x", np.zeros(10_001), object()],
)
def test_what_json_cannot_say_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ValueError, match=r"policy_kwargs\.thing"):
        to_json_value({"thing": value}, "policy_kwargs")


@pytest.mark.parametrize(
    "value",
    [
        {"__eval__": "1 + 1"},
        {"__activation__": "Linear"},
        {"__activation__": ["GELU"]},
        {"__float__": "1.0"},
        {"__tuple__": "abc"},
        {"__dict__": 3},
        {"__array__": {"dtype": "object", "shape": [1], "data": [0]}},
        {"__array__": {"dtype": "float32", "shape": [2], "data": [0]}},
        {"__array__": {"dtype": "float32"}},
        {"__schedule__": ["LinearSchedule", 1.0]},
        {"__schedule__": ["ConstantSchedule", "x"]},
        {"__schedule__": ["system", "true"]},
        {"__schedule__": []},
    ],
)
def test_malformed_values_are_refused(value: Any) -> None:
    with pytest.raises(CheckpointError):
        from_json_value([value])


@st.composite
def boxes(draw: st.DrawFn) -> spaces.Box:
    dtype = np.dtype(draw(st.sampled_from(["int8", "int64", "uint8", "float32", "float64"])))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    if dtype.kind == "f":
        numbers: st.SearchStrategy[Any] = st.floats(width=8 * dtype.itemsize, allow_nan=False)
    else:
        numbers = st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    size = math.prod(shape)
    pairs = [sorted(draw(st.tuples(numbers, numbers))) for _ in range(1 if draw(st.booleans()) else size)]
    bounds = np.array(pairs * size if len(pairs) == 1 else pairs, dtype=dtype).reshape(-1, 2)[:size]
    return spaces.Box(bounds[:, 0].reshape(shape), bounds[:, 1].reshape(shape), dtype=dtype)


@given(boxes() | st.dictionaries(st.text(max_size=5), boxes(), max_size=3).map(spaces.Dict))
def test_spaces_round_trip(space: Any) -> None:
    back = space_from_json(json.loads(json.dumps(space_to_json(space), allow_nan=False)))
    assert type(back) is type(space)
    if isinstance(space, spaces.Dict):
        assert list(back) == list(space)
    for one, two in (
        zip(back.values(), space.values(), strict=True) if isinstance(space, spaces.Dict) else [(back, space)]
    ):
        assert one.dtype == two.dtype and one.shape == two.shape
        for name in ("low", "high", "bounded_below", "bounded_above"):
            assert_same(getattr(one, name), getattr(two, name))


def test_uniform_bounds_are_stored_once() -> None:
    description = space_to_json(spaces.Box(-np.inf, 255, (84, 84, 3), np.float32))
    assert (description["low"], description["high"]) == ({"__float__": "-inf"}, 255.0)


@pytest.mark.parametrize("space", [spaces.Text(3), spaces.Discrete(2), spaces.Dict(a=spaces.MultiBinary(2))])
def test_other_spaces_are_refused(space: Any) -> None:
    with pytest.raises(ValueError, match="cannot be stored"):
        space_to_json(space)


@pytest.mark.parametrize(
    "description",
    [
        {},
        [],
        {"type": "os.system"},
        {"type": "Box", "shape": [2], "dtype": "object", "low": 0, "high": 1},
        {"type": "Box", "shape": [2], "dtype": "float32", "low": 2, "high": 1},
        {"type": "Box", "shape": [10**6, 10**6], "dtype": "float32", "low": 0, "high": 1},
        {"type": "Box", "shape": [2], "dtype": "uint8", "low": 0, "high": 256},
        {"type": "Dict", "spaces": []},
    ],
)
def test_malformed_spaces_are_refused(description: Any) -> None:
    with pytest.raises(CheckpointError):
        space_from_json(description)
