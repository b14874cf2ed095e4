"""Goals that the map chooses."""

from __future__ import annotations

import pytest
import torch as th

from proq_agent.proq.map_goals import nearest_on_map, within_hop


def distance(policy, one: th.Tensor, other: th.Tensor) -> th.Tensor:
    return policy.distances(*(policy.embed(policy.locate(points)) for points in (one, other)))


@pytest.fixture
def trained(tiny):
    return tiny().learn(20, log_interval=None).policy


@th.no_grad()
def test_the_nearest_is_the_nearest_of_the_candidates(trained, walks):
    states, candidates = walks.achieved_goals[:20], walks.achieved_goals[100:130]
    goals = nearest_on_map(trained, states, candidates)
    least = th.stack([distance(trained, states, candidate.expand_as(states)) for candidate in candidates]).amin(dim=0)
    assert th.allclose(distance(trained, states, goals), least, atol=1e-4)


@th.no_grad()
def test_goals_within_a_hop_are_drawn_from_all_that_are(trained, walks):
    state, candidates = walks.achieved_goals[:1], walks.achieved_goals[100:130].unique(dim=0)
    lengths = distance(trained, state.expand_as(candidates), candidates)
    max_hop = float(lengths.median())
    nowhere = th.full((2000, 2), -1.0)
    generator = th.Generator().manual_seed(0)
    goals = within_hop(trained, state.expand(2000, -1), candidates, nowhere, max_hop, generator)
    assert th.equal(goals.unique(dim=0), candidates[lengths <= max_hop])
    assert th.equal(within_hop(trained, state.expand(2000, -1), candidates, nowhere, -1.0, generator), nowhere)


@pytest.mark.parametrize("share", ["value_time_share", "value_map_share", "actor_map_share"])
def test_shares_of_goals_change_what_is_learned_and_repeat_with_the_seed(tiny, share):
    plain, one, two = (
        tiny(map_fraction=0.5, actor_fraction=0.5, **kwargs).learn(6, log_interval=None).policy.state_dict()
        for kwargs in ({}, {share: 0.5}, {share: 0.5})
    )
    assert all(th.equal(one[name], two[name]) for name in one)
    part = "actor" if share == "actor_map_share" else "encoder"
    assert any(not th.equal(plain[name], one[name]) for name in one if name.startswith(part))
