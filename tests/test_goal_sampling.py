"""The goals that are drawn for a batch, kind by kind."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from hypothesis import given
from hypothesis import strategies as st
from numbered import numbered

from proq_agent import GoalDataset
from proq_agent.common.dataset import TIME_WINDOW
from proq_agent.common.goal_sampling import GoalBatch, GoalMixture, GoalSampling

KINDS = tuple(GoalMixture.__dataclass_fields__)


def sample(dataset: GoalDataset, size: int, seed: int = 0, **sampling) -> GoalBatch:
    return GoalSampling(**sampling).sample(dataset, size, th.Generator().manual_seed(seed))


@given(lengths=st.lists(st.integers(2, 9), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_transitions_and_actor_goals_stay_within_their_trajectory(lengths, seed):
    dataset = numbered(lengths)
    batch = sample(dataset, 64, seed)
    assert th.equal(batch.next_achieved_goals[:, 0], batch.achieved_goals[:, 0])
    assert th.equal(batch.next_achieved_goals[:, 1], batch.achieved_goals[:, 1] + 1)
    assert th.equal(batch.next_observations, batch.next_achieved_goals)
    assert th.equal(batch.actions[:, 0], batch.achieved_goals[:, 1])
    assert th.equal(batch.actor_goals[:, 0], batch.achieved_goals[:, 0])
    assert (batch.actor_goals[:, 1] > batch.achieved_goals[:, 1]).all()
    assert dataset.n_transitions == sum(lengths) - len(lengths)
    assert dataset.n_trajectories == len(lengths)


@given(shares=st.lists(st.floats(0, 1), min_size=len(KINDS), max_size=len(KINDS)), seed=st.integers(0, 9))
def test_goals_are_the_states_of_their_rows_whatever_the_mixture(shares, seed):
    scale = max(1.0, sum(shares)) * (1.0 + 1e-9)
    mixture = dict(zip(KINDS, (share / scale for share in shares), strict=True))
    dataset = numbered([4, 30, 7])
    batch = sample(dataset, 50, seed, value=mixture, actor=mixture)
    for goals, rows in ((batch.value_goals, batch.value_rows), (batch.actor_goals, batch.actor_rows)):
        assert th.equal(goals, dataset.achieved_goals[rows])
    assert th.equal(batch.achieved_goals, dataset.achieved_goals[batch.rows])


@given(shares=st.lists(st.floats(0, 1), min_size=len(KINDS), max_size=len(KINDS)), size=st.integers(1, 300))
def test_every_row_is_of_one_kind_and_the_shares_are_kept(shares, size):
    scale = max(1.0, sum(shares)) * (1.0 + 1e-9)
    mixture = GoalMixture(**dict(zip(KINDS, (share / scale for share in shares), strict=True))).filled("uniform")
    parts = mixture.parts(size)
    rows = [row for part in parts.values() for row in range(size)[part]]
    assert sorted(rows) == list(range(size))
    for kind, share in mixture.shares.items():
        assert abs(len(range(size)[parts[kind]]) - share * size) <= 1.0 + 1e-6


def test_each_kind_has_its_own_rows_beside_the_others():
    dataset = numbered([200] * 50)
    mixture = {"near": 0.3, "near_in_time": 0.3, "current": 0.2}
    batch = sample(dataset, 1000, value=mixture)
    parts = GoalSampling(value=mixture).value.parts(1000)
    steps = (batch.value_rows - batch.rows).abs()
    same = batch.achieved_goals[:, 0] == batch.value_goals[:, 0]
    assert (steps[parts["current"]] == 0).all()
    in_time = parts["near_in_time"]
    assert same[in_time].all() and (steps[in_time] > 0).all() and (steps[in_time] <= TIME_WINDOW).all()
    assert same[parts["near"]].float().mean() < 0.9 and same[parts["uniform"]].float().mean() < 0.1


def test_every_transition_is_drawn_equally_often_and_value_goals_are_uniform():
    batch = sample(numbered([3, 8]), 90_000)
    _, counts = th.unique(batch.observations, dim=0, return_counts=True)
    assert len(counts) == 9 and (counts / 10_000 - 1).abs().max() < 0.05
    _, counts = th.unique(batch.value_goals, dim=0, return_counts=True)
    assert len(counts) == 11 and (counts * 11 / 90_000 - 1).abs().max() < 0.06


def test_future_goals_lie_at_geometric_offsets():
    batch = sample(numbered([5000]), 50_000, discount=0.9)
    early = batch.observations[:, 1] < 4000
    offsets = (batch.actor_goals - batch.achieved_goals)[early, 1]
    assert offsets.min() == 1
    assert offsets.mean().item() == pytest.approx(10.0, rel=0.03)
    assert (offsets == 1).float().mean().item() == pytest.approx(0.1, abs=0.01)


def test_uniform_future_goals_are_spread_to_the_end_of_the_trajectory():
    batch = sample(numbered([11, 11]), 40_000, actor={"future_uniform": 1.0})
    first = batch.observations[:, 1] == 0
    steps, counts = th.unique(batch.actor_goals[first, 1], return_counts=True)
    assert steps.tolist() == list(range(1, 11))
    shares = counts / counts.sum()
    assert (shares[1:-1] * 9 - 1).abs().max() < 0.15  # of the nine intervals, half of one at either end
    assert (shares[[0, -1]] * 18 - 1).abs().max() < 0.2
    assert th.equal(batch.actor_goals[:, 0], batch.achieved_goals[:, 0])


def test_near_goals_are_nearer_than_uniform_ones_in_every_scale():
    rng = np.random.default_rng(0)
    states = rng.uniform(size=(2000, 2)).astype(np.float32) * [1.0, 1000.0]
    dataset = GoalDataset(states, np.zeros((2000, 1)), np.arange(2000) % 10 == 9)
    batch = sample(dataset, 400, value={"near": 0.5})
    apart = ((batch.value_goals - batch.achieved_goals) / th.tensor([1.0, 1000.0])).norm(dim=1)
    assert apart[:200].max() < 0.2 < apart[200:].median()


def test_goals_near_in_time_lie_before_or_after_on_the_same_trajectory():
    batch = sample(numbered([300, 20, 100]), 6000, value={"near_in_time": 0.5})
    same = batch.achieved_goals[:3000, 0] == batch.value_goals[:3000, 0]
    offsets = (batch.value_goals - batch.achieved_goals)[:3000, 1]
    assert same.all() and set(offsets.abs().tolist()) == set(range(1, TIME_WINDOW + 1))
    assert (offsets < 0).float().mean().item() == pytest.approx(0.45, abs=0.05)  # not from the first rows
    assert (batch.achieved_goals[3000:, 0] != batch.value_goals[3000:, 0]).any()


def test_rewards_are_minus_one_until_the_goal_where_the_episode_ends():
    batch = sample(numbered([50]), 100, value={"current": 0.25})
    reached = batch.value_rows == batch.rows
    assert reached[:25].all() and not reached.all()
    assert th.equal(batch.masks, (~reached).float()) and th.equal(batch.rewards, reached.float() - 1.0)


def test_sampling_repeats_with_the_generator_and_leaves_global_randomness_alone():
    dataset = numbered([20, 30])
    state = th.get_rng_state()
    one, two = (sample(dataset, 16, 5, value={"near": 0.5}) for _ in range(2))
    assert all(th.equal(a, b) for a, b in zip(one, two, strict=True))
    assert th.equal(state, th.get_rng_state())


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"discount": 1.0}, "discount"),
        ({"value": {"near": 1.5}}, "near"),
        ({"actor": {"on_map": -0.1}}, "on_map"),
        ({"value": {"near": 0.7, "near_in_time": 0.4}}, "add up to 1 at most, got near 0.7, near_in_time 0.4"),
        ({"actor": {"nere": 0.1}}, "did you mean near"),
        ({"value": 0.3}, "a dict of its settings"),
    ],
)
def test_impossible_mixtures_are_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        GoalSampling(**bad)
