from __future__ import annotations

import pytest
import torch as th

from proq_agent.quasimetric.multipliers import Multipliers


def test_a_multiplier_rises_while_violated_and_falls_while_satisfied():
    multipliers = Multipliers(("a", "b"), learning_rate=0.1, max_value=1e3)
    for _ in range(10):
        multipliers.update(a=th.tensor(0.5), b=th.tensor(-0.5))
    assert multipliers["a"] > 1.5 and multipliers["b"] < 0.7


def test_only_named_multipliers_move():
    multipliers = Multipliers(("a", "b"), learning_rate=0.1, max_value=1e3)
    multipliers.update(a=th.tensor(1.0))
    multipliers.update(a=th.tensor(1.0))
    assert multipliers["b"] == 1.0


def test_a_thousand_is_reached_within_two_thousand_updates():
    multipliers = Multipliers(("a",), learning_rate=1e-2, max_value=1e5)
    for _ in range(2000):
        multipliers.update(a=th.tensor(0.01))
    assert multipliers["a"] > 1e3


def test_the_upper_bound_holds():
    multipliers = Multipliers(("a",), learning_rate=1.0, max_value=50.0)
    for _ in range(50):
        multipliers.update(a=th.tensor(1e9))
    assert multipliers["a"].item() == pytest.approx(50.0, rel=1e-5)


def test_no_gradient_flows_into_a_multiplier_through_a_loss():
    multipliers = Multipliers(("a",), learning_rate=0.1, max_value=10.0)
    assert not multipliers["a"].requires_grad


def test_a_bound_below_the_start_is_refused():
    with pytest.raises(ValueError, match="max_value"):
        Multipliers(("a",), 0.1, 0.5)
