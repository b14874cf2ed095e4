"""Every departure from the paper has a switch, and off means the paper's way."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch as th
from conftest import TINY

from proq_agent.common.actor_losses import awr_loss
from proq_agent.planning.graph import KeypointGraph
from proq_agent.proq import losses
from proq_agent.proq.keypoints import keypoint_objective, move_keypoints
from proq_agent.proq.settings import KeypointSettings


def networks(**changes):
    return {"policy_kwargs": TINY["policy_kwargs"] | changes}


def test_the_actor_sees_observation_and_latents_alone(tiny):
    model = tiny(**networks(guided_actor=False)).learn(3, log_interval=None)
    assert model.policy.actor.hidden[0].in_features == 2 + 4  # the observation, and z
    guided = tiny()
    assert guided.policy.actor.hidden[0].in_features == 2 + 2 * (4 + 2)
    observations = {key: np.full((2, 2), 2.0, dtype=np.float32) for key in model.observation_space.spaces}
    batch, _ = model.predict(observations, deterministic=True)
    single, _ = model.predict({key: value[0] for key, value in observations.items()}, deterministic=True)
    np.testing.assert_allclose(single, batch[0], atol=1e-5)


def test_a_directed_actor_sees_where_its_target_lies_however_far(tiny):
    policy = tiny(**networks(directed_actor=True)).policy
    seen: list[th.Tensor] = []
    policy.actor.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    here = th.zeros(3, 4 + 2)
    target = th.cat([th.ones(3, 4), th.tensor([[3.0, 4.0], [30.0, 40.0], [0.0, 0.0]])], dim=-1)
    policy.action_distribution(th.zeros(3, 2), here, target)
    assert seen[0].shape[-1] == 2 + 2 * (4 + 2) + 2
    assert th.allclose(seen[0][:, -2:], th.tensor([[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]]), atol=1e-3)
    with pytest.raises(ValueError, match="leave guided_actor true"):
        tiny(**networks(directed_actor=True, guided_actor=False))


def test_inputs_are_taken_as_they_are(tiny, walks):
    plain, scaled = tiny(**networks(standardise=False)), tiny()
    for scaler in (plain.policy.goal_scaler, plain.policy.observation_scaler):
        assert (scaler.mean == 0).all() and (scaler.std == 1).all()
    assert th.allclose(plain.policy.goal_scaler(walks.achieved_goals), walks.achieved_goals)
    assert not th.allclose(scaled.policy.goal_scaler(walks.achieved_goals), walks.achieved_goals)


@th.no_grad()
def test_distances_have_no_floor(tiny, walks):
    for floor in (True, False):
        policy = tiny(distance={"floor": floor}).policy
        embeddings = policy.embed(policy.locate(walks.achieved_goals[:50]))
        learned = policy.quasimetric.pairwise(*2 * [policy.embedder(policy.encode(walks.achieved_goals[:50]))])
        assert th.allclose(policy.pairwise_distances(embeddings, embeddings), learned, atol=1e-5) != floor


def test_weights_of_transitions_have_no_bound():
    log_probs, advantages = th.tensor([-1.0]), th.tensor([1.0])
    for max_weight, weight in ((float("inf"), np.exp(10.0)), (100.0, 100.0)):
        loss, _ = awr_loss(log_probs, advantages, 10.0, max_weight)
        assert loss.item() == pytest.approx(weight, rel=1e-4)


def test_the_bound_of_the_weights_reaches_the_actor(tiny):
    bounded, free = (
        tiny(temperature=50.0, max_weight=w, learning_rate=1e-2).learn(5, log_interval=None) for w in (1.0, 1e9)
    )
    assert not th.equal(bounded.policy.log_std, free.policy.log_std)


def test_the_classifiers_loss_is_not_divided_by_its_multiplier():
    logits = th.tensor([0.3, -0.2]), th.tensor([0.1]), th.tensor([-2.0])
    bounded, free = (losses.ood_loss(*logits, th.tensor(8.0), bounded)[0].item() for bounded in (True, False))
    assert free == pytest.approx(8.0 * bounded, rel=1e-5)


def test_keypoints_are_held_by_the_barrier_alone(tiny):
    for bounded in (True, False):
        policy = tiny().policy
        policy.keypoint_low.fill_(-0.1)
        policy.keypoint_high.fill_(0.1)
        optimizer = th.optim.Adam([policy.standard_keypoints], lr=1e-3)
        settings = KeypointSettings(bounded=bounded)
        objective = partial(keypoint_objective, policy, multiplier=th.tensor(0.0), settings=settings, compliance=0.05)
        move_keypoints(policy, optimizer, objective, settings.bounded)
        assert (policy.standard_keypoints.abs() <= 0.1 + 1e-6).all() == bounded


def test_gaps_are_not_bridged():
    distances = np.array([[0.0, 5.0], [5.0, 0.0]])
    to_goal = np.array([[50.0, 3.0]])
    for bridges in (True, False):
        graph = KeypointGraph(distances, max_hop=4.0, bridges=bridges)
        assert np.isfinite(graph.routes(to_goal).costs).tolist() == [[bridges, True]]
        assert np.isfinite(graph.with_closures(np.zeros(2, bool), 0.0).costs[0, 1]) == bridges


@pytest.mark.parametrize("bar_strays", [True, False])
def test_keypoints_that_seem_unreachable_are_used(tiny, bar_strays):
    model = tiny(planning={"bar_strays": bar_strays})
    list(model.policy.classifier.parameters())[-1].data.fill_(-10.0)
    assert model.planner.blocked.all() == bar_strays


@pytest.mark.parametrize("scale", [None, 5.0])
def test_the_classifier_sees_coordinates_beside_latents_only_if_asked_to(tiny, scale):
    """φ that says nothing leaves ψ blind, as in the paper, unless it sees the coordinates too."""
    policy = tiny(**networks(classifier_scale=scale)).policy.eval()
    points = th.rand(40, policy.keypoints.shape[1], generator=th.Generator().manual_seed(0)) * 10.0
    with th.no_grad():
        assert policy.classify_goals(points).std() > 1e-3
        for parameter in policy.encoder.parameters():
            parameter.zero_()
        logits = policy.classify_goals(points)
    assert (logits.std() > 1e-3) == (scale is not None)
