"""How true a learned map is, against a maze laid out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch as th
from tiny_algorithm import TinyCloning

from zoo.figures.learned_map import LearnedMap
from zoo.figures.map_quality import MapQuality, map_quality
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


def test_distances_are_compared_with_the_walk(tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(distance: Callable[[th.Tensor, th.Tensor], th.Tensor]) -> MapQuality:
        monkeypatch.setattr("zoo.figures.map_quality.learned_distances", lambda _, x, y: distance(x, y))
        return map_quality(model, MAZE, states_on_a_line())

    model = tiny()
    true = judge(lambda x, y: ((x - y).abs().amax(dim=-1) / 0.2).ceil().clamp_min(1.0))
    assert true.distance_correlation is not None and true.distance_correlation > 0.99
    assert true.distance_ratio == pytest.approx(1.0, abs=0.1)
    assert true.false_shortcuts == 0.0
    assert judge(lambda x, y: (x - y).abs().amax(dim=-1) / 0.1).distance_ratio == pytest.approx(2.0, abs=0.2)
    for share, false_shortcuts in ((0.6, 0.0), (0.4, 1.0)):
        short = judge(lambda x, y, share=share: share * ((x - y).abs().amax(dim=-1) / 0.2).ceil().clamp_min(1.0))
        assert short.false_shortcuts == pytest.approx(false_shortcuts, abs=0.1)  # of the shortest walks
    reversed_order = judge(lambda x, y: -(x - y).abs().amax(dim=-1)).distance_correlation
    assert reversed_order is not None and reversed_order < -0.99
    folded = judge(lambda x, y: th.where((x[..., 0] < 4.0) | (y[..., 0] < 4.0), 0.0, 1000.0))
    assert folded.false_shortcuts == pytest.approx(1.0 - (5 / 6) ** 2, abs=0.06)


def test_two_thousand_pairs_are_left_where_half_of_them_have_no_way(tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rooms without a door."""
    walled = replace(MAZE, walls=np.array([[1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [1, 1, 1, 1, 1]], dtype=bool))
    rooms = th.tensor([4.0, 12.0]).repeat_interleave(25)
    states = th.stack([rooms, th.full((50,), 4.0)], dim=1) + th.linspace(-0.5, 0.5, 50)[:, None]
    pairs = []

    def distance(_: object, x: th.Tensor, y: th.Tensor) -> th.Tensor:
        pairs.append(((x[..., 0] < 8.0) == (y[..., 0] < 8.0)).sum().item())
        return (x - y).abs().amax(dim=-1)

    monkeypatch.setattr("zoo.figures.map_quality.learned_distances", distance)
    assert map_quality(tiny(), walled, states).distance_correlation is not None
    assert pairs[0] >= 2000


def test_the_distance_that_is_judged_has_no_floor(tiny) -> None:
    """A quasimetric of almost nothing: what plans are made with would be the straight line."""
    model = tiny()
    output = model.policy.embedder.output
    with th.no_grad():
        for parameter in (output.weight, output.bias):
            parameter *= 1e-6
    quality = map_quality(model, MAZE, states_on_a_line())
    assert quality.false_shortcuts == 1.0
    assert quality.distance_ratio == pytest.approx(0.0, abs=1e-3)


def test_psi_is_compared_with_where_the_agent_fits_and_with_where_the_data_are(
    tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent fits into 6.6 x 2.6, the data fill its lower half, and ψ takes the left half for reachable."""
    x, y = th.meshgrid(th.linspace(2.7, 9.3, 133), th.linspace(2.7, 4.0, 27), indexing="ij")
    states = th.stack([x.ravel(), y.ravel()], dim=1)

    def left_half(_: LearnedMap, points: np.ndarray) -> np.ndarray:
        inside = ((points > (2.7, 2.7)) & (points < (6.0, 5.3))).all(axis=1)
        return np.where(inside, 0.51, 0.49)

    monkeypatch.setattr(LearnedMap, "reachability", left_half)
    found = map_quality(tiny(), MAZE, states)
    assert found.psi_iou == pytest.approx(0.5, abs=0.02)
    shown = 7.0 * 1.7  # the data and a step around them
    assert found.data_iou == pytest.approx(6.6 * 1.5 / (6.6 * 2.6 + shown - 6.6 * 1.5), abs=0.02)
    both = 3.3 * 1.5
    assert found.psi_data_iou == pytest.approx(both / (3.3 * 2.6 + shown - both), abs=0.02)


def test_what_is_not_known_is_none(tiny) -> None:
    assert map_quality(tiny(), None, states_on_a_line()) == MapQuality()
    assert map_quality(tiny(), MAZE, th.zeros(5, 3)) == MapQuality()
    legged = replace(MAZE, step=None)
    found = map_quality(tiny(), legged, states_on_a_line())
    assert found.keypoints_free is not None and found == MapQuality(found.keypoints_free)


def test_an_agent_without_a_map_has_no_quality_of_it(walks) -> None:
    assert map_quality(TinyCloning(dataset=walks, device="cpu"), MAZE, states_on_a_line()) == MapQuality()
