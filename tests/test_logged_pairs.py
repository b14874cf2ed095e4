"""Pairs of states some steps apart: the right ones, and without a look at every row."""

from __future__ import annotations

import numpy as np
import torch as th
from hypothesis import given
from hypothesis import strategies as st
from numbered import numbered

from proq_agent.common.logged_pairs import leads_up_to, pairs_apart
from proq_agent.common.trajectory_index import TrajectoryIndex


@given(
    lengths=st.lists(st.integers(2, 8), min_size=1, max_size=6),
    lead=st.integers(1, 9),
    cut=st.lists(st.integers(0, 47), max_size=4),
)
def test_every_state_that_is_followed_so_many_steps_later_may_be_drawn(lengths, lead, cut):
    dataset = numbered(lengths)
    rows = np.array([row for row in cut if row < len(dataset)], dtype=int)
    if len(np.union1d(dataset.trajectory_ends, rows)) < len(dataset):
        dataset = dataset.cut(rows)
    everything = th.arange(len(dataset))
    expected = everything[dataset.ahead(everything, lead) == everything + lead]
    followed = dataset._index.followed(lead)
    assert th.equal(followed.rows(th.arange(followed.total)), expected)
    assert dataset.most_steps == int((dataset.ahead(everything, len(dataset)) - everything).max())
    drawn, later = pairs_apart(dataset, lead, th.Generator().manual_seed(0))
    assert set(drawn.tolist()) <= set(expected.tolist()) and th.equal(later, drawn + lead)
    assert len(drawn) > 0 or len(expected) == 0


def test_pairs_of_more_rows_than_memory_holds_are_drawn():
    dataset, billion = numbered([3]), 10**9
    dataset._index = TrajectoryIndex(np.arange(1, 1001) * billion - 1, th.device("cpu"))
    rows, later = pairs_apart(dataset, 10, th.Generator().manual_seed(0))
    assert (later - rows == 10).all() and (rows // billion == later // billion).all() and rows.max() > 900 * billion
    assert leads_up_to(dataset, 100.0)[-1] == 100
