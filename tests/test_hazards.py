"""Hops through regions of risk arrive with (1 - rate)^steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proq_agent.chance.edges import ChanceEdge
from proq_agent.chance.hazards import Hazards

EXITS = {"exits": np.zeros((1, 2)), "probabilities": np.ones(1), "count": 100}


def box(centre: list[float], half: list[float], rate: float, turn: float = 0.0) -> ChanceEdge:
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    axes = rotation / np.array(half)[:, None]
    return ChanceEdge(np.array(centre), float(np.linalg.norm(half)), **EXITS, rate=rate, axes=axes)


def test_a_hop_pays_for_the_steps_it_spends_inside() -> None:
    hazards = Hazards([box([5.0, 0.0], [2.0, 10.0], 0.1)])
    starts, ends = np.array([[0.0, 0.0]]), np.array([[10.0, 0.0], [5.0, 0.0], [2.0, 9.0], [0.0, 0.0]])
    survival, losses = hazards.risks(starts, ends, np.array([20.0, 10.0, 15.0, 0.0]))
    np.testing.assert_allclose(survival, [0.9**8, 0.9**4, 1.0, 1.0])  # 4 of 10, 2 of 5, none
    np.testing.assert_allclose(survival + losses[:, 0], 1.0)


def test_a_hop_along_the_border_pays_for_straying() -> None:
    edge = replace(box([5.0, 0.0], [5.0, 1.0], 0.1, turn=np.pi), step=np.full(2, 0.2))  # strays by up to three steps
    starts, ends = np.array([[0.0, 0.9], [0.0, 1.5], [0.0, 1.7]]), np.array([[10.0, 0.9], [10.0, 1.5], [10.0, 1.7]])
    survival, _ = Hazards([edge]).risks(starts, ends, np.full(3, 50.0))
    np.testing.assert_allclose(survival, [0.9**50, 0.9**5, 1.0])


def test_steps_are_counted_along_the_line_where_their_length_is_known() -> None:
    edge = replace(box([5.0, 0.0], [5.0, 9.0], 0.1), step=np.array([0.5, 2.0]))
    starts, ends = np.array([[0.0, 0.0]]), np.array([[5.0, 0.0], [0.001, 8.0]])
    survival, _ = Hazards([edge]).risks(starts, ends, np.full(2, 99.0))
    np.testing.assert_allclose(survival, [0.9**10, 0.9**4], rtol=1e-3)


def test_who_is_slower_spends_more_steps_inside_but_strays_no_farther() -> None:
    edge = replace(box([5.0, 0.0], [5.0, 1.0], 0.1), step=np.full(2, 0.2), pace=0.5)
    starts, ends = np.array([[0.0, 0.0], [0.0, 1.5], [0.0, 1.7]]), np.array([[10.0, 0.0], [10.0, 1.5], [10.0, 1.7]])
    survival, _ = Hazards([edge]).risks(starts, ends, np.full(3, 50.0))
    np.testing.assert_allclose(survival, [0.9**100, 0.9**10, 1.0])


def test_overlapping_regions_share_what_is_lost() -> None:
    hazards = Hazards([box([5.0, 0.0], [5.0, 1.0], 0.1), box([5.0, 0.0], [2.5, 1.0], 0.2)])
    (survival,), (losses,) = hazards.risks(np.zeros((1, 2)), np.array([[10.0, 0.0]]), np.array([20.0]))
    assert survival == pytest.approx(0.9**20 * 0.8**10)
    assert losses.sum() == pytest.approx(1.0 - survival)
    assert losses[1] / losses[0] == pytest.approx(10 * np.log(0.8) / (20 * np.log(0.9)))


def test_portals_are_no_hazards_and_keep_their_numbers() -> None:
    portal = ChanceEdge(np.array([5.0, 0.0]), 1.0, **EXITS, rate=0.9)
    hazards = Hazards([portal, box([5.0, 0.0], [1.0, 1.0], 0.1)])
    survival, losses = hazards.risks(np.zeros((1, 2)), np.array([[10.0, 0.0]]), np.array([10.0]))
    assert survival == pytest.approx(0.9**2) and losses.shape == (1, 2) and losses[0, 0] == 0.0
    assert len(Hazards([portal])) == 0


def test_what_is_no_hop_risks_nothing() -> None:
    hazards = Hazards([box([5.0, 0.0], [1.0, 1.0], 0.1)])
    survival, losses = hazards.risks(np.zeros((1, 2)), np.array([[10.0, 0.0]] * 2), np.array([10.0, np.inf]))
    assert survival[0] < survival[1] == 1.0 and not losses[1].any()


@settings(max_examples=50, deadline=None)
@given(
    turn=st.floats(0.0, 3.2),
    half=st.tuples(st.floats(0.3, 4.0), st.floats(0.3, 4.0)),
    ends=st.lists(st.floats(-6.0, 6.0), min_size=4, max_size=4),
)
def test_shares_are_those_of_many_samples(turn: float, half: tuple[float, float], ends: list[float]) -> None:
    edge = box([0.5, -0.5], list(half), 0.01, turn)
    start, end = np.array(ends[:2]), np.array(ends[2:])
    samples = start + (np.arange(4000)[:, None] + 0.5) / 4000 * (end - start)
    survival, _ = Hazards([edge]).risks(start[None], end[None], np.array([100.0]))
    assert np.log(survival[0]) / np.log(0.99) / 100 == pytest.approx(edge.contains(samples).mean(), abs=1e-3)
