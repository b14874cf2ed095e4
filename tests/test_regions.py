"""Which straight hops pass through a part of goal space."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from proq_agent.planning.regions import crosses_box, crosses_region

INF = np.inf


@given(arrays(np.float64, (4, 2, 3), elements=st.integers(-3, 3).map(float)))
def test_the_exact_box_agrees_with_sampling(corners: np.ndarray) -> None:
    """On a coarse lattice a segment that touches the widened box comes within a sample of it."""
    low, high = np.sort(corners[0], axis=0)
    starts, ends = corners[1:, 0], corners[1:, 1]
    samples = starts[:, None] + np.linspace(0, 1, 1261)[:, None] * (ends - starts)[:, None]
    hit = crosses_box(low, high, dim=3)(starts, ends)
    assert (((samples >= low) & (samples <= high)).all(axis=2).any(axis=1) <= hit).all()
    assert (hit <= ((samples >= low - 0.01) & (samples <= high + 0.01)).all(axis=2).any(axis=1)).all()


def test_a_box_without_width_or_without_end_is_a_wall() -> None:
    starts, ends = np.array([[4.0, 0.0], [4.0, 6.0], [5.0, 1.0]]), np.array([[6.0, 0.0], [6.0, 6.0], [5.0, 2.0]])
    assert_array_equal(crosses_box([5.0, -INF], [5.0, 5.0], dim=2)(starts, ends), [True, False, True])


def test_a_region_is_sampled_densely_enough_for_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    def thin(points: np.ndarray) -> np.ndarray:
        return np.abs(points[:, 0] - 5.0) < 0.03

    starts = np.stack([np.arange(4.0), np.zeros(4)], axis=1)
    ends = starts + np.array([3.0, 0.0])
    for chunk in (1, 1 << 18):
        monkeypatch.setattr("proq_agent.planning.regions._CHUNK", chunk)
        assert_array_equal(crosses_region(thin, extent=20.0)(starts, ends), [False, False, True, True])


def test_bad_areas_are_named() -> None:
    with pytest.raises(ValueError, match="2 coordinates"):
        crosses_box([0.0], [1.0], dim=2)
    with pytest.raises(ValueError, match="low <= high"):
        crosses_box([1.0, 1.0], [0.0, 2.0], dim=2)
    with pytest.raises(ValueError, match="region must map"):
        crosses_region(lambda points: points > 0, extent=1.0)(np.zeros((2, 2)), np.ones((2, 2)))
