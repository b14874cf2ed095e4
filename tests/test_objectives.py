"""The algorithm itself: what an update descends on, against the paper's equations worked out separately."""

from __future__ import annotations

import math

import pytest
import torch as th
from torch.nn import functional as F

from proq_agent.common.goal_sampling import GoalSampling
from proq_agent.proq.objectives import actor_objective, map_objective
from proq_agent.proq.settings import DistanceSettings

SETTINGS = DistanceSettings(close_margin=0.1, far_offset=30.0, far_scale=0.1, far_focus=20.0, compliance=0.2)


@pytest.fixture(scope="module")
def model():
    from conftest import TINY
    from grid_maze import ONE_WAY_RING, GridMaze

    from proq_agent import ProQ

    walks = GridMaze(ONE_WAY_RING).random_walks(40, 30)
    plain = {"policy_kwargs": TINY["policy_kwargs"] | {"clipped_actions": False}}
    return ProQ(**TINY | plain, learning_rate=5e-3, dataset=walks).learn(150, log_interval=None)


@pytest.fixture
def batch(model):
    return GoalSampling().sample(model.dataset, 64, th.Generator().manual_seed(0))


def objective(model, batch, settings=SETTINGS, seed=1):
    return map_objective(model.policy, batch, model.multipliers, th.Generator().manual_seed(seed), settings)


def distance(policy, one: th.Tensor, other: th.Tensor) -> th.Tensor:
    """d without the floor."""
    return policy.quasimetric(*(policy.embedder(policy.encode(goals)) for goals in (one, other)))


@pytest.fixture
def multipliers(model):
    """The multipliers, put back after the test."""
    before = {name: value.detach().clone() for name, value in model.multipliers.log_values.items()}
    yield model.multipliers.log_values
    for name, value in before.items():
        model.multipliers.log_values[name].data.copy_(value)


def test_the_loss_of_the_map_is_the_sum_of_its_four_parts(model, batch, multipliers):
    multipliers["dist"].data.fill_(math.log(7.0))
    multipliers["ood"].data.fill_(math.log(3.0))
    found = objective(model, batch)
    parts = {name: value.item() for name, value in found.metrics.items()}
    representation = parts["variance_loss"] + parts["covariance_loss"]
    assert representation > 0.0
    expected = representation + 7.0 * parts["close_violation"] + parts["far_loss"] + parts["ood_loss"]
    assert found.loss.item() == pytest.approx(expected, rel=1e-4)


def test_distances_run_from_states_to_next_states_and_to_goals(model, batch):
    policy, found = model.policy, objective(model, batch)
    to_next = distance(policy, batch.achieved_goals, batch.next_achieved_goals)
    to_goals = distance(policy, batch.achieved_goals, batch.value_goals)
    back = distance(policy, batch.value_goals, batch.achieved_goals)
    assert abs(to_goals.mean() / back.mean() - 1.0) > 1e-2  # or the test could not tell
    assert found.metrics["distance_next"].item() == pytest.approx(to_next.mean().item(), rel=1e-4)
    assert found.metrics["distance_goal"].item() == pytest.approx(to_goals.mean().item(), rel=1e-4)
    close = F.relu(to_next - 1.0).square().mean() - SETTINGS.close_margin**2
    assert found.violations["dist"].item() == pytest.approx(close.item(), rel=1e-3, abs=1e-5)
    weights = 1.0 / (1.0 + to_goals / SETTINGS.far_focus)
    far = (weights * F.softplus((SETTINGS.far_offset - to_goals) * 0.1) / 0.1).sum() / weights.sum()
    assert found.metrics["far_loss"].item() == pytest.approx(far.item(), rel=1e-4)


def test_the_classifier_is_told_data_from_points_between_and_beyond(model, batch, monkeypatch):
    policy, seen = model.policy, []
    encode = policy.encode_standard
    monkeypatch.setattr(policy, "encode_standard", lambda points: seen.append(points) or encode(points))
    found = objective(model, batch)
    goals, following, states, between, beyond = seen[0].chunk(5)
    assert th.allclose(states, policy.goal_scaler(batch.achieved_goals))
    assert th.allclose(following, policy.goal_scaler(batch.next_achieved_goals))
    way = goals - states
    length = way.square().sum(dim=1)
    apart = length > 1e-3
    for points, low, high in ((between, 0.0, 1.0), (beyond, -1.0, 0.0)):
        shares = ((points - states) * way).sum(dim=1)[apart] / length[apart]
        assert (shares >= low - 1e-4).all() and (shares <= high + 1e-4).all() and shares.std() > 0.1
        on_the_line = states[apart] + shares[:, None] * way[apart]
        assert th.allclose(points[apart], on_the_line, atol=1e-4)
    logits = policy.classifier(encode(seen[0])).squeeze(-1).chunk(5)
    weight = model.multipliers["ood"]
    negative = F.softplus(logits[3]).mean() + F.softplus(logits[4]).mean()
    ood = (weight * F.softplus(-logits[2]).mean() + negative) / weight.clamp_min(1.0)
    assert found.metrics["ood_loss"].item() == pytest.approx(ood.item(), rel=1e-4)
    assert found.violations["ood"].item() == pytest.approx(0.8 - logits[2].sigmoid().mean().item(), abs=1e-5)


@pytest.mark.parametrize("multiplier", [0.2, 5.0])
def test_a_larger_multiplier_weighs_its_constraint_more(model, batch, multipliers, multiplier):
    multipliers["dist"].data.fill_(0.0)
    plain = objective(model, batch)
    multipliers["dist"].data.fill_(math.log(multiplier))
    weighed = objective(model, batch)
    close = plain.violations["dist"].item()
    assert (weighed.loss - plain.loss).item() == pytest.approx((multiplier - 1.0) * close, rel=1e-2, abs=1e-4)


def test_no_gradient_of_the_map_reaches_multipliers_keypoints_or_actor(model, batch):
    model.policy.zero_grad(set_to_none=True)
    model.multipliers.zero_grad(set_to_none=True)
    objective(model, batch).loss.backward()
    moved = {name.split(".")[0] for name, p in model.policy.named_parameters() if p.grad is not None}
    assert moved == {"encoder", "embedder", "quasimetric", "classifier"}
    assert all(value.grad is None for value in model.multipliers.log_values.values())


@pytest.mark.parametrize("beside_the_map", [False, True])
def test_the_actor_imitates_what_shortens_the_way(model, batch, beside_the_map):
    policy = model.policy.train(False)
    temperature = 1.5
    known = objective(model, batch).known if beside_the_map else None
    loss, metrics = actor_objective(policy, batch, None, known, temperature, 100.0, None)

    def d(starts: th.Tensor) -> th.Tensor:
        return policy.distances(policy.embed(policy.locate(starts)), policy.embed(policy.locate(batch.actor_goals)))

    advantage = (d(batch.achieved_goals) - d(batch.next_achieved_goals)).detach()
    assert advantage.std() > 1e-2
    here, target = policy.locate(batch.achieved_goals), policy.locate(batch.actor_goals)
    mean, std = policy.action_distribution(batch.observations, here, target)
    log_prob = th.distributions.Normal(mean, std).log_prob(policy.scale_actions(batch.actions)).sum(dim=1)
    expected = -((temperature * advantage).exp().clamp_max(100.0) * log_prob).mean()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    assert metrics["advantage"].item() == pytest.approx(advantage.mean().item(), abs=1e-5)


@pytest.mark.parametrize("beside_the_map", [False, True])
def test_the_actor_takes_the_map_as_it_is(model, batch, beside_the_map):
    model.policy.zero_grad(set_to_none=True)
    known = objective(model, batch).known if beside_the_map else None
    actor_objective(model.policy, batch, None, known, 1.0, 100.0, None)[0].backward()
    moved = {name.split(".")[0] for name, p in model.policy.named_parameters() if p.grad is not None}
    assert moved == {"actor", "log_std"}
