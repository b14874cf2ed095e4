"""The values' losses against numbers worked out by hand."""

import pytest
import torch as th

from proq_agent.common.value_losses import expectile_loss, implicit_value_loss, spread
from proq_agent.gciql import losses as gciql


def test_the_sign_of_the_advantage_chooses_the_weight():
    losses = expectile_loss(th.tensor([-2.0, 0.0, 1.0]), th.tensor([3.0, 3.0, -3.0]), expectile=0.9)
    assert losses.tolist() == pytest.approx([0.9, 8.1, 8.1], rel=1e-5)


def test_each_value_is_regressed_on_its_own_target_and_judged_by_both():
    values = th.tensor([[0.0], [1.0]], requires_grad=True)
    target_values, next_target_values = th.tensor([[-2.0], [-4.0]]), th.tensor([[-1.0], [-3.0]])
    loss, metrics = implicit_value_loss(
        values, target_values, next_target_values, th.tensor([-1.0]), th.tensor([1.0]), discount=0.5, expectile=0.9
    )
    # Backups -1.5 and -2.5; the worse of them is better than the mean of -2 and -4.
    assert loss.item() == pytest.approx(0.9 * (1.5**2 + 3.5**2), rel=1e-5)
    assert metrics["v_mean"].item() == 0.5
    loss.backward()
    assert values.grad.flatten().tolist() == pytest.approx([0.9 * 2 * 1.5, 0.9 * 2 * 3.5], rel=1e-5)


def test_nothing_follows_a_goal_that_is_reached():
    loss, _ = implicit_value_loss(
        th.zeros(2, 1), th.zeros(2, 1), th.full((2, 1), 99.0), th.zeros(1), th.zeros(1), discount=0.9, expectile=0.7
    )
    assert loss.item() == 0.0


def test_the_expectile_of_a_coin_is_found():
    """Of 0 and 1, values settle where κ·(1 - V) = (1 - κ)·V: at κ."""
    rewards = th.tensor([0.0, 1.0])
    values = th.zeros(2, 1, requires_grad=True)
    for _ in range(300):
        advantages = rewards - values.detach().mean()
        loss = expectile_loss(advantages, rewards - values, 0.8).mean()
        values.grad = None
        loss.backward()
        with th.no_grad():
            values -= 0.5 * values.grad
    assert values.flatten().tolist() == pytest.approx([0.8, 0.8], abs=1e-3)


def test_gciql_takes_the_lower_critic_for_the_value_and_the_value_for_the_critics():
    loss, _ = gciql.value_loss(th.tensor([0.0]), th.tensor([[2.0], [-1.0]]), expectile=0.9)
    assert loss.item() == pytest.approx(0.1)
    critics = th.tensor([[0.0], [1.0]])
    loss, metrics = gciql.critic_loss(critics, th.tensor([-2.0]), th.tensor([-1.0]), th.tensor([1.0]), discount=0.5)
    assert loss.item() == pytest.approx(4.0 + 9.0)
    assert metrics["q_mean"].item() == -2.0


def test_spread_names_its_numbers():
    metrics = spread("v", th.tensor([1.0, 2.0, 6.0]))
    assert {name: value.item() for name, value in metrics.items()} == {"v_mean": 3.0, "v_max": 6.0, "v_min": 1.0}
