from __future__ import annotations

import numpy as np
import pytest

from zoo.exploring.prospects import Leg, expected_steps

NOWHERE = np.zeros((2, 2))


def leg(steps: float, entrance: int | None = None, odds: float = 1.0, trusted: bool = True) -> Leg:
    return Leg(NOWHERE, steps, entrance, trusted, odds)


def test_without_chance_it_is_the_length_of_the_way() -> None:
    assert expected_steps(leg(12.5), {}, np.empty(0)) == 12.5
    assert expected_steps(leg(12.5, trusted=False), {}, np.empty(0)) == np.inf


def test_an_exit_may_lead_back_to_its_portal() -> None:
    """10 steps to the portal, and from there x = 2 + 20 / 2 + (5 + x) / 2 = 29."""
    after = {0: [leg(20.0, odds=0.5), leg(5.0, entrance=0, odds=0.5)]}
    assert expected_steps(leg(10.0, entrance=0), after, np.array([2.0])) == pytest.approx(39.0)


def test_only_the_cases_count_in_which_it_gets_there() -> None:
    """A quarter to the goal, a quarter by way of another portal, of which every fourth leads there; half are lost."""
    after = {
        0: [leg(8.0, odds=0.25), leg(4.0, entrance=1, odds=0.25), leg(1.0, odds=0.5, trusted=False)],
        1: [leg(6.0, odds=0.25), leg(1.0, odds=0.75, trusted=False)],
    }
    reached, steps = 0.25 + 0.25 * 0.25, 0.25 * (1 + 8) + 0.25 * 0.25 * (1 + 4 + 3 + 6)
    assert expected_steps(leg(10.0, entrance=0), after, np.array([1.0, 3.0])) == pytest.approx(10 + steps / reached)
