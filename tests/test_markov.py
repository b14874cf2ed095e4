"""Whether goals alone tell what comes next."""

from __future__ import annotations

import numpy as np
import pytest

from proq_agent import GoalDataset, GoalSpec, ProQ
from proq_agent.proq.markov import HIDDEN_LIMIT, choose_map, hidden_share, needed_coordinates


def ball(friction: float, goal: GoalSpec, rng: np.random.Generator) -> GoalDataset:
    """On a line; with much friction it stands still at once, with little it rolls on."""
    rows = []
    for _ in range(100):
        x, v, push = rng.uniform(-100, 100), rng.uniform(-1, 1), 0.0
        for t in range(60):
            push = rng.uniform(-0.1, 0.1) if t % 7 == 0 else push
            rows.append((x, v, push, t == 59))
            x, v = x + v, (1.0 - friction) * v + push
    array = np.array(rows)
    return GoalDataset(array[:, :2], array[:, 2:3], array[:, 3], goal=goal)


@pytest.mark.parametrize(("friction", "hidden"), [(0.9, False), (0.0, True)])
def test_velocity_is_hidden_where_it_lasts(friction, hidden):
    dataset = ball(friction, GoalSpec([0]), np.random.default_rng(0))
    assert (hidden_share(dataset) > HIDDEN_LIMIT) == hidden
    assert choose_map(dataset) == ("observations" if hidden else "goals")


def test_velocity_is_hidden_where_the_world_is_crossed_in_a_few_steps():
    """A pendulum that swings and turns over: after twenty steps its velocity tells hardly more than its angle."""
    rng = np.random.default_rng(0)
    angle, velocity, torque = rng.uniform(-np.pi, np.pi, 100), rng.uniform(-8.0, 8.0, 100), np.zeros(100)
    states, torques = [], []
    for t in range(100):
        torque = np.where((t + np.arange(100)) % 8 == 0, rng.uniform(-2.0, 2.0, 100), torque)
        states.append(np.stack([np.cos(angle), np.sin(angle), velocity], axis=1))
        torques.append(torque[:, None])
        velocity = np.clip(velocity + 0.05 * (15.0 * np.sin(angle) + 3.0 * torque), -8.0, 8.0)
        angle = angle + 0.05 * velocity
    observations, actions = (np.stack(rows, axis=1).reshape(10_000, -1) for rows in (states, torques))
    dataset = GoalDataset(observations, actions, np.arange(10_000) % 100 == 99, goal=[0, 1])
    assert choose_map(dataset) == "observations"


def test_states_of_other_episodes_are_no_goals_where_observations_tell_them_apart():
    """As they do where a second target is drawn when an episode begins, and shown all the time."""
    rng = np.random.default_rng(0)
    rolling = ball(0.0, GoalSpec([0]), rng)
    target = rng.uniform(-1.0, 1.0, (100, 1)).astype(np.float32)
    for shown, expected in ((np.zeros_like(target), "observations"), (target, "goals")):
        observations = np.hstack([rolling.observations.numpy(), shown.repeat(60, axis=0)])
        dataset = GoalDataset(observations, rolling.actions, np.arange(6000) % 60 == 59, goal=[0])
        assert choose_map(dataset) == expected


def test_nothing_is_hidden_from_goals_that_are_observations():
    rng = np.random.default_rng(0)
    assert hidden_share(ball(0.0, GoalSpec(), rng)) == 0.0
    assert choose_map(ball(0.0, GoalSpec(tolerance=(0.1, 0.1)), rng)) == "goals"
    assert choose_map(ball(0.0, GoalSpec(tolerance=(0.1, None)), rng)) == "open goals"


def test_what_somebody_wanted_is_not_hidden():
    """Who always walks on in one direction shows it in the observation; the actions tell as much."""
    rng = np.random.default_rng(0)
    heading = rng.uniform(-1.0, 1.0, (100, 1, 1)).repeat(60, axis=1)
    x = rng.uniform(-5, 5, (100, 1, 1)) + np.cumsum(heading, axis=1) - heading
    observations = np.concatenate([x, heading], axis=2).reshape(-1, 2)
    ends = np.arange(6000) % 60 == 59
    assert hidden_share(GoalDataset(observations, heading.reshape(-1, 1), ends, goal=[0])) < HIDDEN_LIMIT


@pytest.mark.parametrize("rows", [4, 40])
def test_few_or_short_logs_are_no_reason_to_distrust_goals(rows):
    rng = np.random.default_rng(0)
    data = GoalDataset(rng.normal(size=(rows, 3)), rng.normal(size=(rows, 1)), np.arange(rows) % 2 == 1, goal=[0])
    assert choose_map(data) == "goals"


PLACE, SHAKE, COLOUR, LOAD = range(4)


def cart(asked: dict[int, float], heavy: bool = False) -> GoalDataset:
    """On a line, shaken, with a colour that is painted over now and then, and a load that may keep it where it is."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(100):
        x, push, colour, load = rng.uniform(-20, 20), 0.0, rng.uniform(-1.0, 1.0), rng.choice([0.0, 1.0])
        for t in range(100):
            push = rng.uniform(-1.0, 1.0) if t % 7 == 0 else push
            colour = rng.uniform(-1.0, 1.0) if rng.random() < 0.002 else colour
            rows.append((x, rng.uniform(-1.0, 1.0), colour, load, push, t == 99))
            x += push * (1.0 - load if heavy else 1.0)
    array = np.array(rows)
    goal = GoalSpec(tolerance=[asked.get(i) for i in range(4)])
    return GoalDataset(array[:, :4], array[:, 4:5], array[:, 5], goal=goal)


def test_what_nobody_asks_for_and_hardly_changes_is_no_part_of_the_map(capsys):
    assert needed_coordinates(cart({PLACE: 0.5})) == (PLACE, SHAKE)
    kwargs = {"keypoints": {"n": 4}, "policy_kwargs": {"hidden_sizes": [8]}, "device": "cpu", "seed": 0}
    model = ProQ(dataset=cart({PLACE: 0.5}), verbose=1, **kwargs)
    assert model.map_of == "open goals" and model.policy.coordinates == [PLACE, SHAKE]
    assert "the map is of coordinates [0, 1] (policy_kwargs.coordinates)" in capsys.readouterr().out
    told = ProQ(dataset=cart({PLACE: 0.5}), **kwargs | {"policy_kwargs": {"hidden_sizes": [8], "coordinates": None}})
    assert told.policy.coordinates is None


def test_what_somebody_asks_for_is_part_of_the_map():
    assert needed_coordinates(cart({PLACE: 0.5, COLOUR: 0.1})) == (PLACE, SHAKE, COLOUR)
    assert needed_coordinates(cart(dict.fromkeys(range(4), 0.1))) is None


def test_what_tells_what_comes_next_is_part_of_the_map():
    assert needed_coordinates(cart({PLACE: 0.5}, heavy=True)) is None
