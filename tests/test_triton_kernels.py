"""The CUDA kernels of the quasimetric against the reference: in Triton's interpreter where there is no CUDA device."""

from __future__ import annotations

import pytest
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st

DEVICE = "cuda" if th.cuda.is_available() else "cpu"
pytest.importorskip("triton", reason="Triton is not installed")

from proq_agent.quasimetric import max_mean  # noqa: E402
from proq_agent.quasimetric.iqe import _choose, iqe, iqe_pairwise  # noqa: E402


def embeddings(kind: str, *shape: int, dtype: th.dtype = th.float32, seed: int = 0) -> th.Tensor:
    """Random ones; "tied" has equal starts, equal ends, touching and empty intervals in every component."""
    generator = th.Generator().manual_seed(seed)
    if kind == "tied":
        return th.randint(-2, 3, shape, generator=generator).to(DEVICE, dtype)
    return th.randn(shape, generator=generator, dtype=dtype).to(DEVICE)


def value_and_gradients(function, x: th.Tensor, y: th.Tensor, **kwargs) -> tuple[th.Tensor, ...]:
    x, y, alpha = (t.detach().clone().requires_grad_() for t in (x, y, th.tensor(0.3, dtype=x.dtype, device=DEVICE)))
    distances = function(x, y, alpha, **kwargs)
    weights = th.randn(distances.shape, generator=th.Generator().manual_seed(7), dtype=x.dtype).to(DEVICE)
    return (distances.detach(), *th.autograd.grad((weights * distances).sum(), (x, y, alpha)))


def assert_agree(function, x: th.Tensor, y: th.Tensor, n_components: int) -> None:
    found, expected = (
        value_and_gradients(function, x, y, n_components=n_components, implementation=implementation)
        for implementation in ("triton", "reference")
    )
    for one, other in zip(found, expected, strict=True):
        th.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["random", "tied"])
@pytest.mark.parametrize(
    ("pairs", "size", "n", "dtype"),  # N a power of two or not; pairs that fill their programs or do not
    [(1, 1, 1, th.float32), (5, 4, 3, th.float64), (16, 8, 32, th.float32), (9, 8, 33, th.float32)],
)
def test_values_and_gradients_are_those_of_the_reference(pairs, size, n, dtype, kind):
    assert_agree(iqe, *(embeddings(kind, pairs, size * n, dtype=dtype, seed=seed) for seed in (1, 2)), n)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31), kind=st.sampled_from(["random", "tied"]), k=st.integers(0, 5), n=st.integers(1, 5))
def test_rows_in_many_pairs_add_up(seed, kind, k, n):
    x, y = embeddings(kind, k, 4 * n, seed=seed), embeddings(kind, 3, 4 * n, seed=seed + 1)
    assert_agree(iqe_pairwise, x, y, n)
    assert_agree(iqe, x, th.stack([x, x.flip(0)]), n)


def test_nan_is_not_hidden():
    x, y = embeddings("random", 2, 64), embeddings("random", 2, 64, seed=1)
    x[0, 20] = th.nan
    distances = iqe(x, y, th.tensor(0.5, device=DEVICE), n_components=8, implementation="triton")
    assert distances.isnan().tolist() == [True, False]


class OnCuda:
    """As much of a tensor as the choice looks at."""

    dtype, device = th.float32, th.device("cuda")


def test_is_chosen_on_cuda_alone(monkeypatch):
    monkeypatch.setattr(max_mean.triton_kernels(), "INTERPRETED", False)
    assert _choose("auto", OnCuda()) == "triton"
    assert _choose("auto", th.zeros(1, device="cpu")) == "cpu"
    assert _choose("auto", th.zeros(1, device="meta")) == "torch"
    monkeypatch.setattr("proq_agent.quasimetric.max_mean.triton_kernels", lambda: None)  # as without the package
    assert _choose("auto", OnCuda()) == "torch"
    with pytest.raises(ValueError, match="pip install triton"):
        _choose("triton", OnCuda())
