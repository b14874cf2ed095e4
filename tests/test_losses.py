"""Every loss against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch as th

from proq_agent.proq import losses


def test_representation_loss_of_two_latents():
    # Columns (0, 2) and (0, 1): variances 2 and 0.5, covariance 1.
    loss, metrics = losses.representation_loss(th.tensor([[0.0, 0.0], [2.0, 1.0]]))
    hinge = (0.0 + (1.0 - math.sqrt(0.5 + 1e-4))) / 2
    assert metrics["variance_loss"].item() == pytest.approx(hinge, rel=1e-5)
    assert metrics["covariance_loss"].item() == pytest.approx((1.0 + 1.0) / 2, rel=1e-5)
    assert loss.item() == pytest.approx(hinge + 1.0, rel=1e-5)


def test_representation_loss_vanishes_for_wide_uncorrelated_latents():
    latents = 2.0 * th.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    loss, _ = losses.representation_loss(latents)
    assert loss.item() == pytest.approx(0.0, abs=1e-6)


def test_close_loss_counts_the_excess_over_one_step():
    loss, _ = losses.close_loss(th.tensor([0.0, 1.0, 1.5, 3.0]), margin=0.25)
    assert loss.item() == pytest.approx((0.25 + 4.0) / 4 - 0.0625)


def test_far_loss_is_a_softplus_that_fades_beyond_the_offset():
    loss, _ = losses.far_loss(th.tensor([500.0]), offset=500.0, scale=0.01)
    assert loss.item() == pytest.approx(100 * math.log(2), rel=1e-5)
    loss, _ = losses.far_loss(th.tensor([0.0]), offset=500.0, scale=0.01)
    assert loss.item() == pytest.approx(100 * math.log1p(math.exp(5.0)), rel=1e-5)
    distance = th.tensor([100.0], requires_grad=True)
    losses.far_loss(distance, offset=500.0, scale=0.01)[0].backward()
    assert distance.grad is not None
    assert distance.grad.item() == pytest.approx(-1 / (1 + math.exp(-4.0)), rel=1e-5)


def test_far_loss_can_weigh_near_pairs_more():
    distances = th.tensor([0.0, 30.0], requires_grad=True)
    loss, _ = losses.far_loss(distances, offset=500.0, scale=0.01, focus=30.0)
    each = [100 * math.log1p(math.exp((500 - d) / 100)) for d in (0.0, 30.0)]
    assert loss.item() == pytest.approx((each[0] + 0.5 * each[1]) / 1.5, rel=1e-5)
    loss.backward()
    assert distances.grad[0].item() == pytest.approx(2 * distances.grad[1].item(), rel=0.02)


def test_ood_loss_weighs_positives_by_the_multiplier():
    zero = th.zeros(3)
    two = math.log(2)
    loss, metrics = losses.ood_loss(zero, zero, zero, th.tensor(0.5))
    assert loss.item() == pytest.approx(0.5 * two + 2 * two, rel=1e-5)
    assert metrics["psi_data"].item() == pytest.approx(0.5)
    loss, _ = losses.ood_loss(zero, zero, zero, th.tensor(4.0))
    assert loss.item() == pytest.approx((4 * two + 2 * two) / 4, rel=1e-5)


def test_compliance_violation_is_signed():
    assert losses.compliance_violation(th.tensor([0.0]), 0.05).item() == pytest.approx(0.45)
    assert losses.compliance_violation(th.tensor([10.0]), 0.05).item() < 0


def test_repel_loss_sums_ordered_pairs_within_range():
    distances = th.tensor([[0.0, 1.0, 200.0], [3.0, 0.0, 4.0], [9.0, 200.0, 0.0]])
    loss, _ = losses.repel_loss(distances, strength=10.0, range_=100.0, epsilon=1.0)
    assert loss.item() == pytest.approx(10 * (1 / 2 + 1 / 4 + 1 / 5 + 1 / 10), rel=1e-5)


def test_repulsion_of_coinciding_keypoints_is_finite():
    distances = th.zeros(2, 2, requires_grad=True)
    loss, _ = losses.repel_loss(distances, strength=1.0, range_=10.0)
    loss.backward()
    assert loss.item() == pytest.approx(2.0)
    assert th.isfinite(distances.grad).all()


def test_barrier_loss_sums_the_log_probabilities():
    loss, metrics = losses.barrier_loss(th.tensor([0.0, 0.0]), th.tensor(3.0))
    assert loss.item() == pytest.approx(6 * math.log(2), rel=1e-5)
    assert metrics["psi_keypoints"].item() == pytest.approx(0.5)
