"""Every goal-conditioned algorithm computes what OGBench's own implementation computes from the same weights."""

import numpy as np
import pytest
import torch as th
from ogbench_reference import ALGORITHMS, load_references

REFERENCES = load_references()


def agree(ours, theirs) -> bool:
    """To a ten-thousandth of the largest entry; sums of numbers around one that cancel are as exact as float32 is."""
    ours, theirs = (np.asarray(x, dtype=np.float64) for x in (ours, theirs))
    return ours.shape == theirs.shape and np.abs(ours - theirs).max() <= 1e-4 * np.abs(theirs).max() + 1e-6


@pytest.fixture(scope="module", params=REFERENCES)
def computed(request):
    """A configuration, our model with its weights, and what it makes of the batch."""
    reference = REFERENCES[request.param]
    model = reference.model()
    loss, metrics = model.loss(model.policy.seen(reference.batch()))
    loss.backward()
    return reference, model, loss, metrics


def test_the_file_covers_every_algorithm():
    assert {reference.algo for reference in REFERENCES.values()} == set(ALGORITHMS)


def test_total_loss(computed):
    reference, _, loss, _ = computed
    assert agree(loss.item(), reference.loss)


def test_every_metric(computed):
    reference, _, _, metrics = computed
    assert metrics.keys() == reference.metrics.keys()
    for name, value in reference.metrics.items():
        assert agree(metrics[name].item(), value), name


def test_every_gradient(computed):
    reference, model, _, _ = computed
    parameters = dict(model.policy.named_parameters())
    theirs = reference.gradients()
    assert parameters.keys() == theirs.keys()
    for name, parameter in parameters.items():
        ours = th.zeros_like(parameter) if parameter.grad is None else parameter.grad
        assert agree(ours, theirs[name]), name


def test_deterministic_actions(computed):
    reference, model, _, _ = computed
    actions, _ = model.predict(reference.observations, deterministic=True)
    assert agree(actions, reference.actions)
