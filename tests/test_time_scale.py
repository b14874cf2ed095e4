"""How long it takes to get about, from the logs alone, and what follows from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tiny_goal import tiny_arrays, tiny_model

from proq_agent import GoalDataset, GoalSpec, ProQ
from proq_agent.proq.settings import DistanceSettings
from proq_agent.proq.time_scale import choose_distance, time_scale

LEFT_TO_DATA = {"far_offset": None, "far_scale": None, "far_focus": None}


def crossings(steps: int, rows: int | None = None, trajectories: int = 50) -> np.ndarray:
    """``[trajectories, rows, 1]`` walks round a ring of so many steps, from anywhere on it, seen from one side."""
    starts = np.random.default_rng(0).uniform(0, 2 * np.pi, (trajectories, 1))
    angles = starts + 2 * np.pi * np.arange(rows or steps + 1) / steps
    return np.cos(angles)[..., None]


def dataset_of(walks: np.ndarray, goal: GoalSpec | None = None) -> GoalDataset:
    n, rows, dim = walks.shape
    ends = np.tile(np.arange(rows) == rows - 1, n)
    return GoalDataset(walks.reshape(-1, dim), np.zeros((n * rows, 1)), ends, goal=goal)


@pytest.mark.parametrize("steps", [40, 400])
def test_the_scale_is_a_share_of_the_time_that_a_crossing_takes(steps):
    assert time_scale(dataset_of(crossings(steps))) == pytest.approx(0.11 * steps, rel=0.15)


def test_short_trajectories_tell_by_how_far_they_get():
    whole, short = (time_scale(dataset_of(crossings(400, rows))) for rows in (None, 12))
    assert short == pytest.approx(whole, rel=0.35)


def test_ordinary_columns_do_not_change_the_scale():
    """Noise of float32, a sensor that is on or off, what is drawn for an episode, and what never changes."""
    walks = np.tile(crossings(400), 3)
    rng, shape = np.random.default_rng(1), (*walks.shape[:2], 1)
    noise = 1.0 + 1e-6 * rng.normal(size=shape)
    sensor = walks[..., :1] > 0.3
    drawn = np.broadcast_to(rng.normal(size=(len(walks), 1, 1)), shape)
    odd = np.concatenate([walks, noise, sensor, drawn, np.ones(shape)], axis=2)
    assert time_scale(dataset_of(odd)) == pytest.approx(time_scale(dataset_of(walks)), rel=0.3)


@pytest.mark.parametrize("walks", [np.ones((4, 10, 2)), np.random.default_rng(0).normal(size=(4, 2, 2))])
def test_where_nothing_moves_or_everything_does_at_once_it_is_a_step(walks):
    assert time_scale(dataset_of(walks)) == 1.0


def test_what_is_given_stays():
    data = dataset_of(crossings(100))
    free, _ = choose_distance(DistanceSettings(**LEFT_TO_DATA), data)
    assert free.is_known and free.far_focus < free.far_offset
    assert free.far_offset * free.far_scale == pytest.approx(4.0)
    given, _ = choose_distance(DistanceSettings(**LEFT_TO_DATA | {"far_offset": 10.0}), data)
    assert given == replace(free, far_offset=10.0, far_scale=0.4)


def test_an_agent_chooses_says_and_keeps_what_its_data_tell(tmp_path, capsys):
    chosen, why = choose_distance(DistanceSettings(**LEFT_TO_DATA), GoalDataset(**tiny_arrays()).split(0.1, 0))
    model = tiny_model(distance=LEFT_TO_DATA, keypoints={"repel_range": None}, held_out=0.1, verbose=1)
    assert model.distance == chosen and why in capsys.readouterr().out
    assert model.keypoints.repel_range == chosen.far_focus
    model.learn(2)
    model.save(tmp_path / "agent.zip")
    loaded = ProQ.load(tmp_path / "agent.zip")
    loaded.set_dataset(GoalDataset(**tiny_arrays(seed=1)))  # other data do not change what was learned with
    assert loaded.distance == chosen
    assert loaded.keypoints.repel_range == chosen.far_focus


def test_an_agent_that_goes_on_chooses_what_it_was_told_to_forget(tmp_path):
    dataset = GoalDataset(**tiny_arrays())
    tiny_model().learn(2).save(tmp_path / "agent.zip")
    changes = {"distance": LEFT_TO_DATA, "keypoints": {"repel_range": None}}
    model = ProQ.load(tmp_path / "agent.zip", device="cpu", dataset=dataset, **changes)
    model.learn(6, reset_num_timesteps=False)
    assert model.distance.is_known and model.keypoints.repel_range == model.distance.far_focus


def test_the_scale_is_of_what_goals_ask_for():
    slow, fast = crossings(400), crossings(20, 401)
    walks, alone = np.concatenate([slow, fast, fast], axis=2), time_scale(dataset_of(slow))
    asked = dataset_of(walks, GoalSpec(tolerance=(0.1, None, None)))
    assert time_scale(asked) == pytest.approx(alone) and time_scale(dataset_of(walks)) < 0.2 * alone
    assert time_scale(asked.on_coordinates([0, 2])) == pytest.approx(alone)  # a part of it knows, too
