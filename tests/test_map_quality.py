"""How true a learned map is, against a maze laid out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from tiny_algorithm import TinyCloning

from zoo.figures.map_quality import map_quality
from zoo.figures.maze_geometry import MazeGeometry

# Two free cells of side 4 side by side, with centres (4, 4) and (8, 4).
MAZE = MazeGeometry(
    walls=np.array([[1, 1, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1]], dtype=bool),
    unit=4.0, first=(0.0, 0.0), row_step=4.0, step=0.2, radius=0.7, tolerance=0.5,
)  # fmt: skip


def states_on_a_line() -> th.Tensor:
    return th.stack([th.linspace(3.0, 9.0, 50), th.full((50,), 4.0)], dim=1)


def test_keypoints_in_walls_and_outside_are_counted(tiny) -> None:
    model = tiny(keypoints={"n": 4})
    points = th.tensor([[4.0, 4.0], [9.9, 5.9], [4.0, 0.0], [100.0, -100.0]])  # free, free, wall, outside
    model.policy.standard_keypoints.copy_(model.policy.goal_scaler(points))
    assert map_quality(model, MAZE, states_on_a_line()).keypoints_free == 0.5


def test_a_distance_that_is_the_way_correlates_with_it(tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny()
    policy = model.policy
    for name in ("locate", "embed"):
        monkeypatch.setattr(policy, name, lambda goals: goals)
    monkeypatch.setattr(policy, "distances", lambda x, y: (x - y).abs().amax(dim=-1) / 0.2)
    found = map_quality(model, MAZE, states_on_a_line()).distance_correlation
    assert found is not None and found > 0.98
    monkeypatch.setattr(policy, "distances", lambda x, y: -(x - y).abs().amax(dim=-1))
    found = map_quality(model, MAZE, states_on_a_line()).distance_correlation
    assert found is not None and found < -0.98


def test_what_is_not_known_is_none(tiny) -> None:
    assert map_quality(tiny(), None, states_on_a_line()) == (None, None)
    assert map_quality(tiny(), MAZE, th.zeros(5, 3)) == (None, None)


def test_an_agent_without_a_map_has_no_quality_of_it(walks) -> None:
    assert map_quality(TinyCloning(dataset=walks, device="cpu"), MAZE, states_on_a_line()) == (None, None)
