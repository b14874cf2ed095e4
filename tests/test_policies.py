"""The policy's distance: the learned one, with a floor that the data implies."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from proq_agent import GoalDataset
from proq_agent.proq.policies import ProQPolicy


@pytest.fixture
def embedded(tiny):
    """A policy and random points of its goal space, embedded."""
    policy = tiny().policy.eval()
    points = th.rand(40, policy.keypoints.shape[1], generator=th.Generator().manual_seed(0)) * 10.0
    with th.no_grad():
        policy.embedder.output.weight.mul_(100.0)  # distances as long as the floor, as after training
        return policy, points, policy.embed(policy.locate(points))


def test_distances_are_a_quasimetric(embedded):
    policy, _, embeddings = embedded
    with th.no_grad():
        d = policy.pairwise_distances(embeddings, embeddings)
    assert (d >= 0).all() and d.diagonal().abs().max() < 1e-5
    assert (d[:, None, :] <= d[:, :, None] + d[None, :, :] + 1e-4).all()
    assert not th.allclose(d, d.T)


def test_pairs_and_rows_agree_and_no_distance_is_below_the_straight_way(embedded):
    policy, points, embeddings = embedded
    step = policy.longest_step * policy.goal_scaler.std
    with th.no_grad():
        pairwise = policy.pairwise_distances(embeddings, embeddings)
        assert th.allclose(policy.distances(embeddings[:, None], embeddings), pairwise, atol=1e-4)
    straight = ((points[:, None] - points) / step).abs().amax(dim=-1)
    assert (pairwise >= straight - 1e-3).all()
    assert (pairwise > straight + 1e-3).any()  # what was learned counts too


def test_no_transition_of_the_data_is_lengthened(tiny, walks):
    policy = tiny().policy
    rows = walks.transition_rows
    coordinates = policy.goal_scaler(walks.achieved_goals) / policy.longest_step
    assert (coordinates[rows + 1] - coordinates[rows]).abs().amax() <= 1.0 + 1e-5


def test_a_coordinate_that_never_changes_has_no_floor(tiny):
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.uniform(-1.0, 1.0, (60, 2)), axis=0) * [1.0, 0.0]
    dataset = GoalDataset(states, rng.uniform(-1.0, 1.0, (60, 2)), np.arange(60) == 59)
    policy = tiny(dataset=dataset).policy.eval()
    assert policy.longest_step.isinf().tolist() == [False, True]
    with th.no_grad():
        here, there = policy.embed(policy.locate(th.tensor([[0.0, 0.0], [0.0, 5.0]])))
        assert policy.distances(here, there).isfinite()


def test_phases_vary_as_much_whatever_the_number_of_coordinates():
    """Random features of thirty coordinates, each as fast as one of two, would tell any two states apart."""
    spread = []
    for dim in (2, 32):
        box = spaces.Box(-1.0, 1.0, (dim,))
        space = spaces.Dict(observation=box, achieved_goal=box, desired_goal=box)
        th.manual_seed(0)
        policy = ProQPolicy(space, box, n_keypoints=2, n_fourier_features=512, classifier_scale=5.0)
        assert policy.classifier_fourier is not None
        frequencies = (policy.fourier.frequencies, policy.classifier_fourier.frequencies)
        spread.append([f.square().sum(dim=0).mean().sqrt().item() for f in frequencies])
    np.testing.assert_allclose(spread[0], spread[1], rtol=0.1)
    np.testing.assert_allclose(spread[0], [2.0 * 2**0.5, 5.0 * 2**0.5], rtol=0.1)
