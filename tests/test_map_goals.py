"""Goals that the map chooses."""

from __future__ import annotations

import pytest
import torch as th

from proq_agent.common.goal_sampling import GoalMixture, GoalSampling
from proq_agent.proq.map_goals import N_HOPS, N_NEAR, choose_on_map


def distance(policy, one: th.Tensor, other: th.Tensor) -> th.Tensor:
    return policy.distances(*(policy.embed(policy.locate(points)) for points in (one, other)))


@pytest.fixture
def trained(tiny):
    return tiny().learn(20, log_interval=None).policy


@th.no_grad()
def test_value_goals_are_the_nearest_of_some_states_and_the_others_stay(trained, walks):
    goals = GoalSampling(value={"near": 0.25, "on_map": 0.5})
    batch, before = (goals.sample(walks, 40, th.Generator().manual_seed(1)) for _ in range(2))
    choose_on_map(trained, walks, batch, goals.value, th.Generator().manual_seed(2))
    candidates = walks.achieved_goals[walks.random_rows(N_NEAR, th.Generator().manual_seed(2))]
    part = goals.value.parts(40)["on_map"]
    states = batch.achieved_goals[part]
    least = th.stack([distance(trained, states, candidate.expand_as(states)) for candidate in candidates]).amin(dim=0)
    assert th.allclose(distance(trained, states, batch.value_goals[part]), least, atol=1e-4)
    assert th.equal(batch.value_goals, walks.achieved_goals[batch.value_rows])
    for kind in ("near", "uniform"):
        others = goals.value.parts(40)[kind]
        assert th.equal(batch.value_rows[others], before.value_rows[others])
    assert th.equal(batch.actor_goals, before.actor_goals)


@th.no_grad()
@pytest.mark.parametrize("quantile", [0.3, -1.0])
def test_actor_goals_are_any_state_within_a_hop_or_stay_ahead(trained, walks, quantile):
    goals = GoalSampling(actor={"on_map": 1.0})
    batch, before = (goals.sample(walks, 300, th.Generator().manual_seed(1)) for _ in range(2))
    candidates = walks.random_rows(N_HOPS, th.Generator().manual_seed(2))
    points = walks.achieved_goals[candidates]
    lengths = th.stack([distance(trained, batch.achieved_goals, p.expand_as(batch.achieved_goals)) for p in points], 1)
    max_hop = float(lengths.quantile(quantile)) if quantile > 0 else -1.0
    choose_on_map(trained, walks, batch, goals.actor, th.Generator().manual_seed(2), max_hop)
    within = (lengths <= max_hop).any(dim=1)
    reached = distance(trained, batch.achieved_goals, batch.actor_goals)
    assert (reached[within] <= max_hop + 1e-3).all()
    assert th.equal(batch.actor_rows[~within], before.actor_rows[~within])
    assert within.any() == (quantile > 0)
    nearest = candidates[lengths.argmin(dim=1)]
    assert quantile < 0 or (batch.actor_rows[within] != nearest[within]).any()  # not always the same one


@pytest.mark.parametrize(
    "mixture", [{"value": {"near_in_time": 0.5}}, {"value": {"on_map": 0.5}}, {"actor": {"on_map": 0.5}}]
)
def test_shares_of_goals_change_what_is_learned_and_repeat_with_the_seed(tiny, mixture):
    plain, one, two = (
        tiny(map_fraction=0.5, actor_fraction=0.5, goals=goals).learn(6, log_interval=None).policy.state_dict()
        for goals in ({}, mixture, mixture)
    )
    assert all(th.equal(one[name], two[name]) for name in one)
    part = "actor" if "actor" in mixture else "encoder"
    assert any(not th.equal(plain[name], one[name]) for name in one if name.startswith(part))


def test_without_a_share_nothing_is_drawn(trained, walks):
    generator = th.Generator().manual_seed(3)
    batch = GoalSampling().sample(walks, 10, generator)
    state = generator.get_state()
    choose_on_map(trained, walks, batch, GoalMixture(uniform=1.0), generator)
    assert th.equal(state, generator.get_state())
