"""The metric residual network is a quasimetric with a gradient everywhere."""

import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st

from proq_agent.quasimetric.mrn import MetricResidual


@given(seed=st.integers(0, 10_000), dim=st.integers(2, 9))
@settings(deadline=None, max_examples=50)
def test_quasimetric_axioms(seed, dim):
    x, y, z = th.randn(3, 20, dim, generator=th.Generator().manual_seed(seed), dtype=th.float64)
    d = MetricResidual()
    assert (d(x, y) > 0).all()
    assert (d(x, x) < 1e-5).all()
    assert (d(x, z) <= d(x, y) + d(y, z) + 1e-9).all()


def test_it_is_not_symmetric():
    x, y = th.tensor([0.0, 0.0, 3.0, 1.0]), th.tensor([3.0, 4.0, 1.0, 1.0])
    d = MetricResidual()
    assert (d(x, y).item(), d(y, x).item()) == (7.0, 5.0)


def test_the_gradient_at_zero_distance_is_finite():
    x = th.randn(5, 6, requires_grad=True)
    MetricResidual()(x, x.detach().clone()).sum().backward()
    assert x.grad.isfinite().all()
