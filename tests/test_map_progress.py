"""The number that tells how far a map has come."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch as th
from numbered import numbered
from stable_baselines3.common.logger import configure

from proq_agent.proq.map_progress import distance_per_step


def steps_on_the_line(scale: float) -> Any:
    """A map on which d is the difference of the second coordinate, the step of a trajectory, times a scale."""
    return SimpleNamespace(
        encode=lambda goals: goals, embedder=lambda z: z, quasimetric=lambda x, y: scale * (y[:, 1] - x[:, 1])
    )


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0])
def test_it_is_the_ratio_of_distances_and_steps_also_at_the_ends_of_trajectories(scale: float) -> None:
    for lengths in ([2, 3], [50, 4, 200]):
        assert distance_per_step(steps_on_the_line(scale), numbered(lengths)) == pytest.approx(scale)


def test_it_is_logged_without_changing_what_is_learned(tiny, tmp_path: Path) -> None:
    silent, logged = tiny(), tiny()
    logged.set_logger(configure(str(tmp_path), ["csv"]))
    silent.learn(6, log_interval=None)
    logged.learn(6, log_interval=2)
    for a, b in zip(silent.policy.parameters(), logged.policy.parameters(), strict=True):
        assert th.equal(a, b)
    assert "train/distance_per_step" in (tmp_path / "progress.csv").read_text()
