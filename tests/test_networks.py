from __future__ import annotations

import pytest
import torch as th

from proq_agent.common.networks import MLP, FourierFeatures, Standardise


def test_residual_layers_add_their_input():
    network = MLP(3, [3, 3], 3, residual=True)
    for layer in network.hidden:
        th.nn.init.zeros_(layer.weight)
        th.nn.init.zeros_(layer.bias)
    x = th.randn(5, 3)
    assert th.allclose(network(x), network.output(x))


def test_layers_of_other_width_have_no_residual():
    assert MLP(3, [8, 8, 4], 2, residual=True).skips == [False, True, False]
    assert MLP(8, [8, 8], 2).skips == [False, False]


@pytest.mark.parametrize("sizes", [[0], [8, -1], [0, 8]])
def test_layers_without_units_are_refused(sizes):
    with pytest.raises(ValueError, match="hidden layers must be at least 1 wide"):
        MLP(3, sizes, 2)


def test_dropout_acts_in_training_alone_and_repeats_with_the_generator():
    network = MLP(4, [256], 1, dropout=0.5)
    x = th.randn(3, 4)
    state = th.get_rng_state()
    first, second = (network(x, th.Generator().manual_seed(1)) for _ in range(2))
    assert th.equal(first, second)
    assert not th.equal(first, network(x, th.Generator().manual_seed(2)))
    assert th.equal(state, th.get_rng_state())
    network.eval()
    assert th.equal(network(x), network(x))


def test_dropout_keeps_the_mean():
    network = MLP(1, [4000], 1, dropout=0.3)
    th.nn.init.constant_(network.output.weight, 1 / 4000)
    x = th.ones(1, 1)
    dropped = network(x, th.Generator().manual_seed(0)).item()
    assert dropped == pytest.approx(network.eval()(x).item(), abs=0.03)


def test_standardise_fits_and_inverts_and_leaves_constant_features_unscaled():
    data = th.randn(1000, 3) * th.tensor([2.0, 1e-3, 0.0]) + th.tensor([5.0, 0.0, 7.0])
    scaler = Standardise(3)
    scaler.fit(data)
    scaled = scaler(data)
    assert scaled.mean(0).abs().max() < 1e-4
    assert scaled.std(0, correction=0).tolist() == pytest.approx([1.0, 1.0, 0.0], abs=1e-3)
    assert th.allclose(scaler.inverse(scaled), data, atol=1e-4)
    assert set(scaler.state_dict()) == {"mean", "std"}


def test_fourier_features_append_sines_and_cosines():
    features = FourierFeatures(2, 6, 1.0)
    x = th.randn(4, 2)
    out = features(x)
    assert out.shape == (4, 8) and th.equal(out[:, :2], x)
    assert th.allclose(out[:, 2:5] ** 2 + out[:, 5:] ** 2, th.ones(4, 3), atol=1e-6)
    assert th.equal(FourierFeatures(2, 0, 1.0)(x), x)
    with pytest.raises(ValueError, match="even"):
        FourierFeatures(2, 3, 1.0)


def test_impossible_dropout_is_refused():
    with pytest.raises(ValueError, match="dropout"):
        MLP(1, [1], 1, dropout=1.0)
