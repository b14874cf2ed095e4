"""What an agent is shown, and what it answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch as th
from tiny_goal import tiny_model

from proq_agent import ProQ

KEYS = ("observation", "achieved_goal", "desired_goal")


def observation(n: int | None = None, **changes: Any) -> dict[str, Any]:
    return {key: np.full((2,) if n is None else (n, 2), 0.4, np.float32) for key in KEYS} | changes


@pytest.fixture(scope="module")
def model() -> ProQ:
    return tiny_model(planning={"patience": 3})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "value",
    [
        0.5,
        np.float32(0.5),
        np.zeros(()),
        np.zeros((2, 2, 2)),
        np.zeros(3),
        np.zeros((0, 2)),
        [np.nan, 0.0],
        [1e300, 0.0],
        [10**400, 0],
        [1j, 0.0],
        ["a", "b"],
        [[0.0], [1.0, 2.0]],
        None,
        {"a": 1},
        object(),
        b"ab",
        th.zeros(2, requires_grad=True),
        th.zeros(2, device="meta"),
        np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
    ],
)
def test_an_observation_of_another_form_is_one_clear_error(model: ProQ, key: str, value: Any) -> None:
    for n in (None, 3):
        with pytest.raises(ValueError, match=r"the observation's (\w+) (has|is)") as caught:
            model.predict(observation(n, **{key: value}))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [[0.4, 0.4], (0.4, 0.4), np.array([0, 1]), np.array([True, False]), th.zeros(2)])
def test_whatever_holds_the_numbers_will_do(model: ProQ, value: Any) -> None:
    action, _ = model.predict(dict.fromkeys(KEYS, value), deterministic=True)
    assert action.shape == (2,)


@pytest.mark.parametrize(
    "state",
    [
        3,
        "state",
        (),
        (np.zeros((1, 2)),) * 4,
        (np.zeros((1, 2)), np.zeros(1), np.zeros(1)),
        (np.zeros((1, 3)), np.zeros(1), np.zeros(1), np.zeros(1)),
        (np.zeros((1, 2)), np.zeros(2), np.zeros(1), np.zeros(1)),
        (np.zeros(2), np.zeros(1), np.zeros(1), np.zeros(1)),
        (np.zeros((1, 2)), np.array(["a"]), np.zeros(1), np.zeros(1)),
        (None,) * 4,
    ],
)
def test_a_malformed_state_is_one_clear_error(model: ProQ, state: Any) -> None:
    with pytest.raises(ValueError, match=r"state must be what the last predict\(\) returned"):
        model.predict(observation(), state)
    with pytest.raises(ValueError, match=r"state must be what the last predict\(\) returned"):
        model.predict(observation(3), state)


def test_episode_starts_are_as_many_as_agents(model: ProQ) -> None:
    _, state = model.predict(observation(3))
    with pytest.raises(ValueError, match=r"episode_start has shape \(2,\), expected \(3,\)"):
        model.predict(observation(3), state, np.zeros(2, bool))
    model.predict(observation(3), state, np.ones(3, bool))
    model.predict(observation(2), state)  # others: they begin anew


def test_an_action_is_finite_or_an_error(model: ProQ) -> None:
    broken = tiny_model()
    broken.policy.log_std.data.fill_(th.nan)
    for n in (None, 3):
        with pytest.raises(ValueError, match="the agent's action is not finite"):
            broken.predict(observation(n))
        assert np.isfinite(model.predict(observation(n))[0]).all()
