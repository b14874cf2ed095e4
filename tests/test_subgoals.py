"""Goals as OGBench draws them, and HIQL's subgoals."""

from __future__ import annotations

import pytest
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered import numbered

from proq_agent.common.goal_conditioned import HindsightGoals
from proq_agent.crl.crl import CRLGoals
from proq_agent.hiql.subgoals import with_subgoals
from proq_agent.qrl.qrl import QRLGoals


def test_values_have_present_future_and_random_goals_and_actors_future_ones():
    batch = HindsightGoals(discount=0.9).sample(numbered([2000] * 20), 10_000, th.Generator().manual_seed(0))
    same_trajectory = batch.value_goals[:, 0] == batch.achieved_goals[:, 0]
    steps = batch.value_rows - batch.rows
    assert (steps == 0).float().mean().item() == pytest.approx(0.2, abs=0.01)
    future = same_trajectory & (steps > 0) & (steps < 200)
    assert future.float().mean().item() == pytest.approx(0.5, abs=0.01)
    assert steps[future].float().mean().item() == pytest.approx(10.0, rel=0.1)
    assert same_trajectory.float().mean().item() == pytest.approx(0.7 + 0.3 / 20, abs=0.01)
    assert th.equal(batch.actor_goals[:, 0], batch.achieved_goals[:, 0])
    share_of_the_way = (batch.actor_rows - batch.rows) / (1999 - batch.achieved_goals[:, 1])
    assert share_of_the_way.mean().item() == pytest.approx(0.5, abs=0.01)


def test_distances_have_random_goals_and_contrasts_future_ones():
    dataset = numbered([50] * 100)
    for goals, share in ((QRLGoals(), 0.01), (CRLGoals(), 1.0)):
        batch = goals.sample(dataset, 10_000, th.Generator().manual_seed(0))
        same_trajectory = batch.value_goals[:, 0] == batch.achieved_goals[:, 0]
        assert same_trajectory.float().mean().item() == pytest.approx(share, abs=0.005)
        if share == 1.0:
            assert (batch.value_rows > batch.rows).all()


def test_what_is_not_said_of_the_actors_goals_is_anywhere_in_the_future():
    assert HindsightGoals(actor={"uniform": 0.5}).actor.shares == {"uniform": 0.5, "future_uniform": 0.5}


@given(
    lengths=st.lists(st.integers(2, 12), min_size=1, max_size=4),
    steps=st.integers(1, 15),
    share=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 99),
)
@settings(deadline=None)
def test_subgoals_lie_ahead_and_targets_not_beyond_a_goal_that_follows(lengths, steps, share, seed):
    dataset, goals = numbered(lengths), HindsightGoals(actor={"uniform": share})
    batch = goals.sample(dataset, 40, th.Generator().manual_seed(seed))
    subgoals = with_subgoals(batch, dataset, goals.actor, steps)
    trajectory, time = batch.achieved_goals.T
    last = th.tensor(lengths)[trajectory.long()] - 1
    assert th.equal(subgoals.low_actor_goals[:, 0], trajectory)
    assert th.equal(subgoals.low_actor_goals[:, 1], th.minimum(time + steps, last))
    assert th.equal(subgoals.target_goals[:, 0], trajectory)
    assert th.equal(subgoals.target_goals, subgoals.target_observations)
    parts = goals.actor.parts(40)
    if share > 0.0:
        random = parts["uniform"]
        assert th.equal(subgoals.target_goals[random], subgoals.low_actor_goals[random])
    if share < 1.0:
        future = parts["future_uniform"]
        nearer = th.minimum(subgoals.low_actor_goals[future, 1], batch.actor_goals[future, 1])
        assert th.equal(subgoals.target_goals[future, 1], nearer)
    for name in ("observations", "next_observations", "actions", "value_goals", "actor_goals", "rewards", "masks"):
        assert th.equal(getattr(subgoals, name), getattr(batch, name))
