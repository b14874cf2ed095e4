"""How much slower sampled actions are than mean ones, and what that does to promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from grid_maze import PORTAL_AND_DETOUR, GridMaze

from proq_agent import ProQ
from proq_agent.proq.pace import sampled_pace


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.7), (0.3, 0.2), (-0.9, 0.5), (1.0, 1.5), (0.99, 1e-3)])
def test_it_is_that_of_many_samples(tiny, monkeypatch: pytest.MonkeyPatch, mean: float, std: float) -> None:
    model = tiny()
    monkeypatch.setattr(
        model.policy, "action_distribution", lambda seen, *_: (th.full((len(seen), 2), mean), th.full((2,), std))
    )
    samples = np.random.default_rng(0).normal(mean, std, 1_000_000).clip(-1.0, 1.0)
    expected = samples.mean() / mean if mean else 1.0
    assert sampled_pace(model.policy, model.dataset, 5.0) == pytest.approx(min(expected, 1.0), abs=0.01)


def test_plans_know_it_once_the_actor_has_learned(tiny, tmp_path) -> None:
    data = GridMaze(PORTAL_AND_DETOUR).random_walks(100, 50)
    model = tiny(dataset=data)
    assert {edge.pace for edge in model.chance_edges} == {1.0}
    model.learn(3, log_interval=None)
    (pace,) = {edge.pace for edge in model.chance_edges}
    assert 0.0 < pace < 1.0  # actors begin with a deviation of one
    assert {edge.pace for edge in model.planner.chance_edges} == {pace}
    model.save(tmp_path / "agent")
    loaded = ProQ.load(tmp_path / "agent", dataset=data, device="cpu")
    assert {edge.pace for edge in loaded.chance_edges} == {pace}
