"""One agent in NumPy gets what a batch gets in PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from numpy.testing import assert_allclose

from proq_agent.proq.batch_map import BatchMap
from proq_agent.proq.row_map import RowMap


@pytest.mark.parametrize(
    ("n_fourier_features", "directed", "clipped"), [(0, False, False), (6, False, True), (6, True, False)]
)
def test_each_method_gives_what_the_batch_gets(tiny, n_fourier_features, directed, clipped):
    sizes = {"hidden_sizes": [16, 8, 8], "n_components": 4, "component_size": 4, "dropout": 0.2}
    sizes |= {"n_fourier_features": n_fourier_features, "directed_actor": directed, "clipped_actions": clipped}
    model = tiny(acting_std=0.5, policy_kwargs=sizes).learn(8, log_interval=None)
    batch, row = BatchMap(model.policy.eval()), RowMap.of(model.policy)
    assert row is not None
    rng = np.random.default_rng(0)
    nodes, goals = (batch.place(rng.uniform(0.0, 5.0, (n, 2)).astype(np.float32)) for n in (7, 1))
    targets, row_targets = batch.targets(nodes, goals), row.targets(nodes, goals)
    for k in range(7):
        point = rng.uniform(0.0, 5.0, (1, 2)).astype(np.float32)
        expected, found = batch.place(point), row.place(point)
        assert_allclose(found.locations, expected.locations, rtol=1e-4, atol=1e-5)
        assert_allclose(found.embeddings, expected.embeddings, rtol=1e-4, atol=1e-4)
        assert_allclose(batch.pairwise(found, nodes), batch.pairwise(expected, nodes), rtol=1e-4, atol=1e-4)
        for one, other in zip(row.distances(found, row_targets), batch.distances(expected, targets), strict=True):
            assert one.shape == other.shape
            assert_allclose(one, other, rtol=1e-4, atol=1e-4)
        for deterministic in (True, False):
            for chosen in np.array([[k], [7]]):
                a, b = (
                    one.act(point, states, ends, chosen, deterministic, th.Generator().manual_seed(k))
                    for one, states, ends in ((batch, expected, targets), (row, found, row_targets))
                )
                assert_allclose(b, a, rtol=1e-4, atol=1e-5)
                assert b.dtype == np.float32


def test_it_sees_what_training_changes_in_place(tiny):
    model = tiny()
    row = RowMap.of(model.policy)
    assert row is not None
    point = np.ones((1, 2), dtype=np.float32)
    before = row.place(point).locations
    with th.no_grad():
        model.policy.encoder.output.bias.add_(1.0)
    assert_allclose(row.place(point).locations[:, :-2], before[:, :-2] + 1.0, atol=1e-5)


def test_there_is_none_for_what_the_kernels_cannot_do(tiny, monkeypatch):
    assert RowMap.of(tiny(policy_kwargs={"symmetric": True, "hidden_sizes": [8]}).policy) is None
    monkeypatch.setattr("proq_agent.proq.row_map.cpu_kernels", lambda: None)
    model = tiny()
    assert RowMap.of(model.policy) is None
    point = np.ones(2, dtype=np.float32)
    action, _ = model.predict({"observation": point, "achieved_goal": point, "desired_goal": point + 1})
    assert action.shape == (2,)
