"""The quasimetric: its axioms, and that its implementations are one function."""

from __future__ import annotations

import functools
import sys

import numpy as np
import pytest
import torch as th
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from kernel_count import KernelCount

from proq_agent.quasimetric import iqe as quasimetric
from proq_agent.quasimetric import kernels as iqe_kernels
from proq_agent.quasimetric.iqe import Quasimetric, iqe, iqe_pairwise

IMPLEMENTATIONS = ["reference", "torch", "cpu"]


def generator(seed: int = 0) -> th.Generator:
    return th.Generator().manual_seed(seed)


def draw(kind: str, *shape: int, dtype: th.dtype = th.float32, seed: int = 0) -> th.Tensor:
    """Random embeddings; "tied" has equal starts, equal ends, touching and empty intervals in every component."""
    if kind == "tied":
        return th.randint(-2, 3, shape, generator=generator(seed)).to(dtype)
    return th.randn(shape, generator=generator(seed), dtype=dtype)


def value_and_gradients(function, x: th.Tensor, y: th.Tensor, **kwargs) -> tuple[th.Tensor, ...]:
    """The distances, and the gradients of a weighted sum of them."""
    x, y, alpha = (t.detach().clone().requires_grad_() for t in (x, y, th.tensor(0.3, dtype=x.dtype)))
    distances = function(x, y, alpha, **kwargs)
    weights = th.randn(distances.shape, generator=generator(7), dtype=x.dtype)
    return (distances.detach(), *th.autograd.grad((weights * distances).sum(), (x, y, alpha)))


def assert_same(actual: tuple[th.Tensor, ...], expected: tuple[th.Tensor, ...], tolerance: float = 1e-5) -> None:
    for a, e in zip(actual, expected, strict=True):
        th.testing.assert_close(a, e, rtol=tolerance, atol=tolerance)


def union_length(intervals: list[tuple[float, float]]) -> float:
    total, reach = 0.0, -np.inf
    for start, end in sorted((s, e) for s, e in intervals if e > s):
        total += max(0.0, end - max(start, reach))
        reach = max(reach, end)
    return total


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_equals_the_definition(implementation):
    x, y = (draw("random", 5, 24, dtype=th.float64, seed=seed) for seed in (0, 1))
    alpha = th.tensor(0.25, dtype=th.float64)
    distances = iqe(x, y, alpha, n_components=6, implementation=implementation)
    for row in range(5):
        starts, ends = x[row].reshape(4, 6).numpy(), y[row].reshape(4, 6).numpy()
        lengths = [union_length(list(zip(starts[:, n], ends[:, n], strict=True))) for n in range(6)]
        assert distances[row].item() == pytest.approx(0.25 * max(lengths) + 0.75 * np.mean(lengths))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_gradient_convention_at_ties(implementation):
    # One component each: equal starts, equal ends, touching intervals, an empty one, a covered one.
    x = th.tensor([[0.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 1.0], [0.0, 1.0]], requires_grad=True)
    y = th.tensor([[1.0, 2.0], [2.0, 2.0], [1.0, 3.0], [1.0, 0.0], [3.0, 2.0]], requires_grad=True)
    iqe(x, y, th.tensor(0.5), n_components=1, implementation=implementation).sum().backward()
    assert x.grad.tolist() == [[-1, 0], [-1, 0], [-1, -1], [0, 0], [-1, 0]]
    assert y.grad.tolist() == [[0, 1], [0, 1], [1, 1], [0, 0], [1, 0]]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_first_of_equally_long_components_is_the_longest(implementation):
    x = th.zeros(1, 3, requires_grad=True)
    y = th.tensor([[1.0, 2.0, 2.0]], requires_grad=True)
    iqe(x, y, th.tensor(1.0), n_components=3, implementation=implementation).sum().backward()
    assert y.grad.tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("kind", ["random", "tied"])
@pytest.mark.parametrize(
    ("size", "n", "dtype"),  # N below, equal to, above and not a multiple of the vector's 8 lanes
    [(1, 1, th.float32), (4, 3, th.float64), (4, 16, th.float32), (8, 11, th.float64), (16, 8, th.float32)],
)
def test_implementations_agree(size, n, dtype, kind):
    x, y = (draw(kind, 17, size * n, dtype=dtype, seed=seed) for seed in (1, 2))
    expected = value_and_gradients(iqe, x, y, n_components=n, implementation="reference")
    for implementation in ("torch", "cpu"):
        assert_same(value_and_gradients(iqe, x, y, n_components=n, implementation=implementation), expected)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_gradcheck(implementation):
    x, y = (draw("random", 3, 20, dtype=th.float64, seed=seed).requires_grad_() for seed in (3, 4))
    alpha = th.tensor(0.4, dtype=th.float64, requires_grad=True)
    assert th.autograd.gradcheck(lambda *a: iqe(*a, n_components=5, implementation=implementation), (x, y, alpha))


def embeddings(rows: int) -> st.SearchStrategy[th.Tensor]:
    """Rows of 4 intervals in 3 components; integers among the floats make ties likely."""
    numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-100, 100, width=32))
    return arrays(np.float32, (rows, 12), elements=numbers).map(th.from_numpy)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@settings(max_examples=60, deadline=None)
@given(points=embeddings(3), alpha=st.floats(0, 1, width=32))
def test_axioms(implementation, points, alpha):
    d = iqe_pairwise(points, points, th.tensor(alpha), n_components=3, implementation=implementation)
    rounding = 1e-6 * (1 + points.abs().max())
    assert (d >= -rounding).all()
    assert (d.diagonal() == 0).all()
    assert (d[:, None, :] <= d[:, :, None] + d[None, :, :] + 10 * rounding).all()


@settings(max_examples=60, deadline=None)
@given(points=embeddings(6))
def test_implementations_agree_everywhere(points):
    expected = value_and_gradients(iqe, points[:3], points[3:], n_components=3, implementation="reference")
    for implementation in ("torch", "cpu"):
        actual = value_and_gradients(iqe, points[:3], points[3:], n_components=3, implementation=implementation)
        assert_same(actual[:1] + actual[3:], expected[:1] + expected[3:], 1e-4)  # alpha's gradient is a length too


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_is_not_symmetric(implementation):
    x, y = th.zeros(1, 4), th.ones(1, 4)
    there = iqe(x, y, th.tensor(0.5), n_components=2, implementation=implementation)
    back = iqe(y, x, th.tensor(0.5), n_components=2, implementation=implementation)
    assert (there.item(), back.item()) == (1, 0)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("x_shape", "y_shape"), [((5, 1), (1, 4)), ((5,), ()), ((2, 1, 3), (4, 1)), ((), ()), ((1,), (6,)), ((0,), (1,))]
)
def test_broadcasting_equals_expanding(implementation, x_shape, y_shape):
    x, y = draw("random", *x_shape, 32), draw("random", *y_shape, 32, seed=1)

    def expanded(x, y, alpha, **kwargs):
        shape = th.broadcast_shapes(x_shape, y_shape)
        return iqe(x.expand(*shape, 32).clone(), y.expand(*shape, 32).clone(), alpha, **kwargs)

    actual = value_and_gradients(iqe, x, y, n_components=8, implementation=implementation)
    assert_same(actual, value_and_gradients(expanded, x, y, n_components=8, implementation="reference"))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(("k", "n_targets"), [(7, 5), (0, 5), (7, 0)])
def test_pairwise_equals_elementwise(implementation, k, n_targets, monkeypatch):
    monkeypatch.setattr(quasimetric, "CPU_CHUNK", 2 * n_targets * 32 * 4)  # several chunks of two rows
    x, y = draw("tied", k, 32), draw("random", n_targets, 32, seed=1)

    def elementwise(x, y, alpha, **kwargs):
        return iqe(x[:, None], y[None], alpha, **kwargs)

    actual = value_and_gradients(iqe_pairwise, x, y, n_components=8, implementation=implementation)
    assert_same(actual, value_and_gradients(elementwise, x, y, n_components=8, implementation="reference"))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_non_contiguous_inputs(implementation):
    x, y = draw("random", 32, 9).t(), draw("random", 9, 64, seed=1)[:, ::2]
    actual = value_and_gradients(iqe, x, y, n_components=8, implementation=implementation)
    expected = value_and_gradients(iqe, x.contiguous(), y.contiguous(), n_components=8, implementation="reference")
    assert_same(actual, expected)


@pytest.mark.parametrize("implementation", ["torch", "cpu"])
@pytest.mark.parametrize("which", [0, 1])
def test_nan_is_not_hidden(implementation, which):
    pair = [draw("random", 2, 64, seed=seed) for seed in (0, 1)]
    pair[which][0, 20] = th.nan
    distances = iqe(*pair, th.tensor(0.5), n_components=8, implementation=implementation)
    assert distances.isnan().tolist() == [True, False]


@pytest.fixture
def three_threads(monkeypatch):
    before = th.get_num_threads()
    monkeypatch.setattr(iqe_kernels, "PAIRS_PER_THREAD", 7)
    th.set_num_threads(3)
    yield
    th.set_num_threads(before)


@pytest.mark.parametrize("function", [iqe, iqe_pairwise])
def test_threads_change_nothing_but_rounding(function, three_threads):
    x, y = draw("random", 40, 32), draw("random", 40, 32, seed=1)
    actual = value_and_gradients(function, x, y, n_components=8, implementation="cpu")
    assert_same(actual, value_and_gradients(function, x, y, n_components=8, implementation="reference"))


def test_torch_runs_without_data():
    x, y = th.empty(5, 64, device="meta", requires_grad=True), th.empty(5, 64, device="meta")
    module = Quasimetric(8).to("meta")
    (module(x, y).sum() + module.pairwise(x, y).sum()).backward()
    assert x.grad.shape == (5, 64)
    assert module.alpha_logit.grad.device.type == "meta"


def launched(device: str) -> int:
    """Operations of the energy of a hundred keypoints of the paper's size, and of its gradient."""
    x = th.zeros(100, 512, device=device, requires_grad=True)
    with KernelCount() as kernels:
        distances = iqe_pairwise(x, x, th.zeros((), device=device), n_components=64, implementation="torch")
        distances.sum().backward()
    return kernels.total


def test_pairs_are_cut_into_pieces_for_a_cpu_alone(monkeypatch):
    """A CUDA device waits for kernels to be launched; the meta device stands for it."""
    in_one = launched("meta")
    assert in_one <= 60
    monkeypatch.setattr(quasimetric, "CHUNK", quasimetric.CPU_CHUNK)
    assert launched("meta") > 5 * in_one


def test_compiles_as_one_graph():
    x, y = draw("random", 6, 64), draw("random", 6, 64, seed=1)
    module = Quasimetric(8)
    compiled = th.compile(module.forward, fullgraph=True, backend="eager")
    th.testing.assert_close(compiled(x, y), module(x, y))


def test_half_precision_falls_back_to_torch():
    x, y = draw("random", 6, 64).bfloat16(), draw("random", 6, 64, seed=1).bfloat16()
    distances = iqe(x, y, th.tensor(0.5), n_components=8)
    assert distances.dtype == th.bfloat16
    th.testing.assert_close(
        distances, iqe(x.float(), y.float(), th.tensor(0.5), n_components=8).bfloat16(), rtol=0.02, atol=0.02
    )


def test_falls_back_to_torch_without_numba(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "proq_agent.quasimetric.kernels")
    monkeypatch.delattr("proq_agent.quasimetric.kernels")
    monkeypatch.setattr(quasimetric, "cpu_kernels", functools.cache(quasimetric.cpu_kernels.__wrapped__))
    x, y, alpha = th.zeros(1, 4), th.ones(1, 4), th.tensor(0.5)
    assert iqe(x, y, alpha, n_components=2).item() == 1
    with pytest.raises(ValueError, match="pip install numba"):
        iqe(x, y, alpha, n_components=2, implementation="cpu")


def test_kernels_work_where_nothing_can_be_cached(monkeypatch):
    monkeypatch.setattr("numba.core.caching.CacheImpl._locator_classes", [])  # as when no directory is writable
    function = iqe_kernels._compile(lambda a: a + 1)
    assert function(1) == 2


def test_module_learns_alpha_from_one_half():
    module = Quasimetric(2)
    assert [name for name, _ in module.named_parameters()] == ["alpha_logit"]
    assert module.alpha.item() == 0.5
    x, y = th.zeros(1, 2), th.tensor([[1.0, 3.0]])
    distance = module(x, y)
    assert distance.item() == pytest.approx(0.5 * 3 + 0.5 * 2)
    distance.sum().backward()
    assert module.alpha_logit.grad.item() == pytest.approx((3 - 2) * 0.25)  # sigmoid'(0) = 1/4
    assert module.pairwise(x, y).shape == (1, 1)


@pytest.mark.parametrize("size", range(1, 12))
def test_sorting_network_sorts_every_order_of_zeros_and_ones(size):
    """By the 0-1 principle it then sorts everything."""
    for bits in range(2**size):
        values = [bits >> i & 1 for i in range(size)]
        for i, j in iqe_kernels.sorting_network(size):
            values[i], values[j] = sorted((values[i], values[j]))
        assert values == sorted(values)


@pytest.mark.parametrize(
    ("x", "y", "alpha", "kwargs", "message"),
    [
        (th.zeros(2, 8), th.zeros(2, 6), th.tensor(0.5), {}, "last dimension"),
        (th.zeros(2, 9), th.zeros(2, 9), th.tensor(0.5), {}, "does not divide"),
        (th.zeros(2, 0), th.zeros(2, 0), th.tensor(0.5), {}, "does not divide"),
        (th.zeros(2, 8), th.zeros(3, 8), th.tensor(0.5), {}, "do not broadcast"),
        (th.zeros(2, 8), th.zeros(2, 8).double(), th.tensor(0.5), {}, "dtype"),
        (th.zeros(2, 8).long(), th.zeros(2, 8).long(), th.tensor(0.5), {}, "dtype"),
        (th.zeros(2, 8), th.zeros(2, 8, device="meta"), th.tensor(0.5), {}, "meta"),
        (th.zeros(2, 8), th.zeros(2, 8), th.zeros(2), {}, "scalar"),
        (th.zeros(2, 8), th.zeros(2, 8), th.tensor(0.5), {"implementation": "fast"}, "none of"),
        (th.zeros(2, 8).half(), th.zeros(2, 8).half(), th.tensor(0.5), {"implementation": "cpu"}, "float16"),
        (th.zeros(2, 8).half(), th.zeros(2, 8).half(), th.tensor(0.5), {"implementation": "triton"}, "Triton.*float16"),
    ],
)
def test_bad_input_is_named(x, y, alpha, kwargs, message):
    with pytest.raises(ValueError, match=message):
        iqe(x, y, alpha, n_components=4, **kwargs)


def test_pairwise_wants_matrices():
    with pytest.raises(ValueError, match=r"\[K, D\]"):
        iqe_pairwise(th.zeros(2, 2, 8), th.zeros(2, 8), th.tensor(0.5), n_components=4)


def test_the_symmetric_form_is_the_mean_of_both_directions() -> None:
    x, y = th.randn(2, 5, 12, generator=th.Generator().manual_seed(0))
    plain, symmetric = Quasimetric(4), Quasimetric(4, symmetric=True)
    assert not th.allclose(plain(x, y), plain(y, x))
    assert th.allclose(symmetric(x, y), (plain(x, y) + plain(y, x)) / 2)
    assert th.allclose(symmetric.pairwise(x, y), symmetric.pairwise(y, x).T)
    assert th.allclose(symmetric.pairwise(x, y).diagonal(), symmetric(x, y))
