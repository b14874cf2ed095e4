"""One row in NumPy gives what PyTorch gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from numpy.testing import assert_allclose

from proq_agent.proq.row_policy import Ends, RowPolicy


@pytest.mark.parametrize("n_fourier_features", [0, 6])
def test_each_method_gives_what_the_policy_gives(tiny, n_fourier_features):
    sizes = {"hidden_sizes": [16, 8, 8], "n_components": 4, "component_size": 4, "dropout": 0.2}
    model = tiny(policy_kwargs=sizes | {"n_fourier_features": n_fourier_features}).learn(8, log_interval=None)
    policy = model.policy.eval()
    rows = RowPolicy.of(policy)
    assert rows is not None
    points = np.random.default_rng(0).uniform(0.0, 5.0, (7, 2)).astype(np.float32)
    with th.no_grad():
        locations = policy.locate(th.from_numpy(points))
        embeddings = policy.embed(locations)
        distances = policy.pairwise_distances(embeddings, embeddings).numpy()
    n = embeddings.shape[1] - 2
    parts = (np.ascontiguousarray(part) for part in (embeddings[:, :n].numpy(), embeddings[:, n:].numpy()))
    ends = Ends(locations.numpy(), *parts)
    for k in range(7):
        here = rows.locate(points[k : k + 1])
        assert_allclose(here, ends.locations[k : k + 1], rtol=1e-4, atol=1e-5)
        assert_allclose(rows.distances(*rows.embed(here), ends), distances[k], rtol=1e-4, atol=1e-4)
        for deterministic in (True, False):
            act = points[k : k + 1], here, ends.locations[:1], deterministic
            found = rows.act(*act, th.Generator().manual_seed(k))
            with th.no_grad():
                tensors = (th.from_numpy(array) for array in act[:3])
                expected = policy.act(*tensors, deterministic, th.Generator().manual_seed(k)).numpy()
            assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
            assert found.dtype == np.float32


def test_it_sees_what_training_changes_in_place(tiny):
    model = tiny()
    rows = RowPolicy.of(model.policy)
    assert rows is not None
    point = np.ones((1, 2), dtype=np.float32)
    before = rows.locate(point)
    with th.no_grad():
        model.policy.encoder.output.bias.add_(1.0)
    assert_allclose(rows.locate(point)[:, :-2], before[:, :-2] + 1.0, atol=1e-5)


def test_there_is_none_for_what_the_kernels_cannot_do(tiny, monkeypatch):
    assert RowPolicy.of(tiny(policy_kwargs={"symmetric": True, "hidden_sizes": [8]}).policy) is None
    monkeypatch.setattr("proq_agent.proq.row_policy.cpu_kernels", lambda: None)
    model = tiny()
    assert RowPolicy.of(model.policy) is None
    point = np.ones(2, dtype=np.float32)
    action, _ = model.predict({"observation": point, "achieved_goal": point, "desired_goal": point + 1})
    assert action.shape == (2,)
