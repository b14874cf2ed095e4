"""The actors' losses against numbers worked out by hand."""

import math

import pytest
import torch as th

from proq_agent.common.actor_losses import awr_loss, bc_loss, ddpg_bc_loss, imitation


def test_imitation_is_the_log_density_of_a_unit_gaussian():
    mean = th.tensor([[0.5, -1.0], [0.0, 0.0]])
    actions = th.tensor([[0.0, 1.0], [0.3, 0.4]])
    log_probs, metrics = imitation(mean, actions)
    expected = th.distributions.Normal(mean, 1.0).log_prob(actions).sum(dim=-1)
    assert th.allclose(log_probs, expected)
    assert metrics["mse"].item() == pytest.approx((0.25 + 4.0 + 0.09 + 0.16) / 4)
    assert bc_loss(log_probs)[0].item() == pytest.approx(-expected.mean().item())


def test_awr_loss_weighs_by_the_clipped_exponential_of_the_advantage():
    log_probs = th.tensor([-1.0, -2.0, -3.0], requires_grad=True)
    loss, metrics = awr_loss(log_probs, th.tensor([1.0, -0.5, 100.0]), alpha=2.0, max_weight=50.0)
    weights = [math.exp(2.0), math.exp(-1.0), 50.0]
    assert loss.item() == pytest.approx((weights[0] + 2 * weights[1] + 3 * weights[2]) / 3, rel=1e-5)
    assert metrics["adv"].item() == pytest.approx((1.0 - 0.5 + 100.0) / 3, rel=1e-5)
    loss.backward()
    assert log_probs.grad.tolist() == pytest.approx([-w / 3 for w in weights], rel=1e-5)


def test_awr_weights_do_not_overflow():
    loss, _ = awr_loss(th.tensor([-1.0]), th.tensor([1e6]), alpha=10.0)
    assert loss.item() == pytest.approx(100.0, rel=1e-5)


def test_no_gradient_reaches_the_advantages():
    advantages = th.tensor([2.0], requires_grad=True)
    loss, _ = awr_loss(th.tensor([-1.0], requires_grad=True), advantages, alpha=1.0)
    loss.backward()
    assert advantages.grad is None


def test_ddpg_bc_loss_does_not_depend_on_the_scale_of_the_values():
    log_probs, values = th.tensor([-1.0, -3.0]), th.tensor([-4.0, 2.0], requires_grad=True)
    loss, metrics = ddpg_bc_loss(log_probs, values, alpha=0.5)
    assert loss.item() == pytest.approx(1.0 / 3.0 + 1.0, rel=1e-5)
    assert (metrics["q_mean"].item(), metrics["q_abs_mean"].item()) == (-1.0, 3.0)
    loss.backward()
    assert values.grad.tolist() == pytest.approx([-0.5 / 3.0] * 2, rel=1e-5)
    scaled, _ = ddpg_bc_loss(log_probs, 1000.0 * values, alpha=0.5)
    assert scaled.item() == pytest.approx(loss.item(), rel=1e-5)
