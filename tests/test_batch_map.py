"""What planning is told of a policy is what the policy says."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from numpy.testing import assert_allclose, assert_array_equal

from proq_agent.proq.batch_map import BatchMap

POINTS = np.random.default_rng(0).uniform(0.0, 5.0, (6, 2)).astype(np.float32)


@pytest.fixture
def policy(tiny):
    return tiny().learn(4, log_interval=None).policy.eval()


def test_places_and_distances_are_the_policys(policy):
    goal_map = BatchMap(policy)
    places, ends = goal_map.place(POINTS), goal_map.place(POINTS[::-1].copy())
    with th.no_grad():
        locations = policy.locate(th.from_numpy(POINTS))
        embeddings = policy.embed(locations)
        expected = policy.pairwise_distances(embeddings, embeddings).numpy()
    assert_array_equal(places.locations, locations)
    assert_array_equal(goal_map.pairwise(places, places), expected)
    to_nodes, to_goals = goal_map.distances(places, goal_map.targets(places, ends))
    assert_array_equal(to_nodes, expected)
    assert_allclose(to_goals, expected[np.arange(6), np.arange(6)[::-1]], rtol=1e-6)
    assert_array_equal(goal_map.keypoints, policy.keypoints.numpy())


def test_reachable_is_where_the_classifier_says_so(policy):
    with th.no_grad():
        logits = policy.classifier(policy.encode(th.from_numpy(POINTS)))[:, 0]
        policy.classifier.output.bias -= logits.median()  # some are, some are not
    expected = (logits >= logits.median()).numpy()
    assert_array_equal(BatchMap(policy).reachable(POINTS), expected)
    assert expected.any() and not expected.all()


def test_rows_can_be_taken_out_and_joined(policy):
    goal_map = BatchMap(policy)
    places = goal_map.place(POINTS)
    joined = goal_map.join([places[:2], places[np.array([4, 5])]])[np.array([3, 0])]
    assert len(joined) == 2
    for one, other in zip(vars(joined).values(), vars(places).values(), strict=True):
        assert_array_equal(one, other[[5, 0]])


def test_agents_act_towards_the_chosen_nodes_or_their_own_goals(policy):
    goal_map = BatchMap(policy)
    states, nodes = goal_map.place(POINTS[:3]), goal_map.place(POINTS[3:])
    goals = goal_map.place(POINTS[:3] + 1.0)
    chosen = np.array([2, 3, 0])
    actions = goal_map.act(POINTS[:3], states, goal_map.targets(nodes, goals), chosen, True, None)
    targets = th.stack([nodes.locations[2], goals.locations[1], nodes.locations[0]])
    with th.no_grad():
        expected = policy.act(th.from_numpy(POINTS[:3]), states.locations, targets, deterministic=True)
    assert_array_equal(actions, expected)
