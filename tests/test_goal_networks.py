"""The networks of goal-conditioned actors and values."""

import math

import pytest
import torch as th
from torch import nn
from torch.nn import functional as F

from proq_agent.common.goal_networks import EnsembleMLP, GoalActor, GoalValue, frozen, slow_copy, update_target


@pytest.mark.parametrize("layer_norm", [True, False])
def test_heads_are_independent_perceptrons(layer_norm):
    net = EnsembleMLP(3, [8, 5], 2, n_heads=3, layer_norm=layer_norm)
    with th.no_grad():
        for parameter in net.parameters():
            parameter.copy_(th.randn(parameter.shape))
    x = th.randn(7, 3)
    out = net(x)
    assert out.shape == (3, 7, 2)
    for head in range(3):
        h = x
        for layer in range(2):
            h = F.gelu(h @ net.weights[layer][head] + net.biases[layer][head, 0], approximate="tanh")
            if layer_norm:
                gain, shift = net.gains[layer][head, 0], net.shifts[layer][head, 0]
                h = F.layer_norm(h, h.shape[-1:], gain, shift, eps=1e-6)
        assert th.allclose(out[head], h @ net.weights[2][head] + net.biases[2][head, 0], atol=1e-4)


def test_weights_start_uniform_with_a_variance_of_one_over_the_mean_fan():
    net = EnsembleMLP(300, [500], 400, n_heads=2, output_scale=0.01)
    first, last = net.weights
    limit = math.sqrt(6.0 / 800.0)
    assert first.abs().max() <= limit and first.std().item() == pytest.approx(limit / math.sqrt(3.0), rel=0.02)
    assert last.std().item() == pytest.approx(0.1 * math.sqrt(2.0 / 900.0), rel=0.02)
    assert all(not bias.any() for bias in net.biases)
    assert not th.equal(first[0], first[1])


@pytest.mark.parametrize("sizes", [(0, [4], 1), (2, [0], 1), (2, [4], 0)])
def test_empty_layers_are_refused(sizes):
    with pytest.raises(ValueError, match="one unit or more"):
        EnsembleMLP(*sizes)


def test_actor_and_value_shapes():
    s, g, a = th.randn(6, 4), th.randn(6, 2), th.randn(6, 3)
    assert GoalActor(4, 2, [8], 3)(s, g).shape == (6, 3)
    assert GoalValue(4, 2, [8])(s, g).shape == (2, 6)
    assert GoalValue(4, 2, [8], action_dim=3, n_heads=1)(s, g, a).shape == (1, 6)


def test_a_frozen_module_passes_gradients_on_but_takes_none():
    net, x = nn.Linear(2, 1), th.randn(4, 2, requires_grad=True)
    with frozen(net):
        loss = net(x).sum()
    (loss + 0.0 * net(x.detach()).sum()).backward()
    assert x.grad.abs().sum() > 0 and not net.weight.grad.any()
    assert net.weight.requires_grad


def test_what_is_frozen_is_learned_afterwards_even_if_something_fails_inside():
    net = nn.Linear(2, 1)
    net.bias.requires_grad_(False)
    with pytest.raises(RuntimeError), frozen(net):
        raise RuntimeError
    assert net.weight.requires_grad and not net.bias.requires_grad


def test_a_slow_copy_follows_by_its_share():
    online = nn.Linear(2, 2)
    target = slow_copy(online)
    assert not any(p.requires_grad for p in target.parameters())
    before = [p.clone() for p in target.parameters()]
    with th.no_grad():
        for parameter in online.parameters():
            parameter += 1.0
    update_target(target, online, tau=0.25)
    for old, new in zip(before, target.parameters(), strict=True):
        assert th.allclose(new, old + 0.25)
