"""Observed jumps become regions, rates and exits."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from chance_worlds import ELSEWHERE, SIDE, Square, landing_at

from proq_agent.chance.clustering import cluster_chance
from proq_agent.chance.edges import ChanceEdge


def lotteries(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two discs entered at their rims, mostly on one side, and three exits; the second has odds of its own."""
    which = rng.integers(2, size=n)
    angle = rng.choice([0.0, np.pi], n, p=[0.8, 0.2]) + rng.uniform(-0.8, 0.8, n)
    rim = 1.4 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    entrances = np.array([[20.0, 12.0], [0.0, 16.0]])[which] + rim
    to = np.where(which == 0, rng.choice(3, n), rng.choice(3, n, p=[0.6, 0.3, 0.1]))
    exits = np.array([[24.0, 0.0], [0.0, 20.0], [36.0, 20.0]])[to] + rng.uniform(-0.2, 0.2, (n, 2))
    return entrances, exits, which


@pytest.mark.parametrize("n", [300, 6000])
@pytest.mark.parametrize("unit", [1.0, 1e-3])
def test_lotteries_are_recovered(n: int, unit: float) -> None:
    entrances, exits, which = lotteries(np.random.default_rng(0), n)
    edges = cluster_chance(entrances * unit, exits * unit, entrances * unit)
    assert len(edges) == 2
    assert sum(edge.count for edge in edges) == n
    first, second = sorted(edges, key=lambda edge: -edge.entrance[0])
    assert first.count == np.count_nonzero(which == 0)
    np.testing.assert_allclose(first.entrance, [20 * unit, 12 * unit], atol=0.1 * unit)
    assert first.radius == pytest.approx(1.4 * unit, abs=0.1 * unit)
    assert first.contains(entrances[which == 0] * unit).mean() == pytest.approx(0.95, abs=0.02)
    np.testing.assert_allclose(first.probabilities, 1 / 3, atol=0.12)
    np.testing.assert_allclose(second.probabilities, [0.6, 0.3, 0.1], atol=0.12)
    np.testing.assert_allclose(second.exits, unit * np.array([[24, 0], [0, 20], [36, 20]]), atol=0.2 * unit)


def test_rare_events_are_dropped() -> None:
    entrances, exits, _ = lotteries(np.random.default_rng(1), 300)
    entrances = np.vstack([entrances, [[50.0, 50.0]] * 3, [[20.0, 12.0]]])
    exits = np.vstack([exits, [[0.0, 20.0]] * 3, [[70.0, 0.0]]])
    edges = cluster_chance(entrances, exits, entrances)
    assert sum(edge.count for edge in edges) == 300
    assert all(len(edge.exits) == 3 and edge.probabilities.sum() == pytest.approx(1.0) for edge in edges)
    assert cluster_chance(entrances[:3], exits[:3], entrances) == []


def test_an_edge_survives_json() -> None:
    entrances, exits, _ = lotteries(np.random.default_rng(2), 300)
    (portal, _) = cluster_chance(entrances, exits, entrances)
    (box,) = cluster_chance(entrances[:, ::-1], exits, np.tile(entrances[:, ::-1], (10, 1)), closeness=9.0)
    assert portal.axes is None and box.axes is not None and box.rate < 0.5
    for edge in (portal, replace(box, pace=0.7)):
        copy = ChanceEdge.from_dict(json.loads(json.dumps(edge.to_dict())))
        assert all(getattr(copy, name) == getattr(edge, name) for name in ("radius", "count", "rate", "pace"))
        for name in ("entrance", "exits", "probabilities", "axes"):
            np.testing.assert_array_equal(getattr(copy, name), getattr(edge, name))


def test_an_edge_from_before_rates_were_known_is_a_portal() -> None:
    entrances, exits, _ = lotteries(np.random.default_rng(3), 300)
    data = cluster_chance(entrances, exits, entrances)[0].to_dict()
    del data["rate"], data["axes"], data["pace"]
    edge = ChanceEdge.from_dict(data)
    assert edge.rate == edge.pace == 1.0 and edge.is_portal and edge.contains(edge.entrance)


@pytest.mark.parametrize("name", ["rate", "pace"])
@pytest.mark.parametrize("value", [0.0, -0.1, 1.1, np.nan])
def test_an_edge_with_a_share_that_is_none_is_refused(name: str, value: float) -> None:
    entrances, exits, _ = lotteries(np.random.default_rng(3), 300)
    data = cluster_chance(entrances, exits, entrances)[0].to_dict()
    with pytest.raises(ValueError, match=name):
        ChanceEdge.from_dict(data | {name: value})


@pytest.mark.parametrize("rate", [0.01, 0.03, 0.3])
@pytest.mark.parametrize("turn", [0.0, 0.5])
def test_a_region_of_any_direction_is_found_with_its_rate(rate: float, turn: float) -> None:
    rng = np.random.default_rng(4)
    visits = rng.uniform(0.0, SIDE, (100_000, 2))
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    along = (visits - SIDE / 2) @ rotation
    inside = (np.abs(along) < [1.5, 6.0]).all(axis=1)
    jumps = inside & (rng.random(len(visits)) < rate)
    edges = cluster_chance(visits[jumps], np.full((jumps.sum(), 2), 60.0), visits)
    strikes = sum(edge.rate * edge.contains(visits) for edge in edges)  # expected, at each visit
    assert strikes.sum() == pytest.approx(jumps.sum(), rel=0.05)
    assert np.sum(strikes * inside) > 0.8 * strikes.sum()
    assert strikes[inside].mean() == pytest.approx(rate, rel=0.25)


def test_what_happens_everywhere_is_one_region() -> None:
    data = Square(lambda at: np.full(len(at), 0.0005), landing_at(ELSEWHERE)).walks(100_000)
    rows = data.transition_rows
    goals = data.achieved_goals.numpy().astype(float)
    jumps = rows[goals[rows + 1, 0] - goals[rows, 0] > 10.0]
    here = goals[rows][goals[rows, 0] < SIDE + 1]
    (edge,) = cluster_chance(goals[jumps], goals[jumps + 1], goals[rows])
    assert edge.rate == pytest.approx(len(jumps) / len(here), rel=0.1)
    assert edge.contains(here).mean() > 0.95


def test_the_number_of_places_is_bounded() -> None:
    rng = np.random.default_rng(5)
    entrances, exits = rng.uniform(0.0, SIDE, (2, 3000, 2))
    with pytest.warns(UserWarning, match="taken for one"):
        edges = cluster_chance(entrances, exits, np.repeat(entrances, 10, axis=0), closeness=0.05, max_nodes=30)
    places = {tuple(place) for edge in edges for place in edge.exits}
    assert 2 <= len(edges) + len(places) <= 30


def test_bad_input_is_named() -> None:
    points = np.zeros((20, 2))
    with pytest.raises(ValueError, match="one row a jump"):
        cluster_chance(points, points[1:], points)
    with pytest.raises(ValueError, match="visits"):
        cluster_chance(points, points, points[:, :1])
    with pytest.raises(ValueError, match="closeness=0"):
        cluster_chance(points, points, points, closeness=0)
