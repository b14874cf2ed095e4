"""Goals as people mean them: a part of the observation, some coordinates loosely, some not at all, angles that wrap."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proq_agent import GoalDataset, GoalSpec
from proq_agent.common.goals import as_goal_spec

OBSERVATIONS = np.arange(24, dtype=np.float32).reshape(6, 4)
ENDS = [0, 0, 1, 0, 0, 1]


def test_goals_are_entries_of_the_observation_or_a_function_of_it() -> None:
    np.testing.assert_array_equal(GoalSpec(indices=[2, 0]).of(OBSERVATIONS), OBSERVATIONS[:, [2, 0]])
    np.testing.assert_array_equal(
        as_goal_spec(lambda rows: rows[:, :1] ** 2).of(OBSERVATIONS), OBSERVATIONS[:, :1] ** 2
    )
    assert as_goal_spec(None).of(OBSERVATIONS) is OBSERVATIONS
    assert as_goal_spec((1,)) == GoalSpec(indices=(1,)) == as_goal_spec(GoalSpec([np.int64(1)]))


def test_every_coordinate_that_matters_must_be_within_its_tolerance() -> None:
    spec = GoalSpec(tolerance=(0.5, None, math.inf, 0.0))
    reached = spec.is_reached([[0.5, 99.0, -99.0, 1.0], [0.6, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.1]], [0, 0, 0, 1])
    assert reached.tolist() == [True, False, False]
    assert spec.tolerances(4).tolist() == [0.5, math.inf, math.inf, 0.0]
    assert GoalSpec(tolerance=0.5).is_reached([0.5, -0.5], [0.0, 0.0])
    assert not GoalSpec(tolerance=0.5).is_reached([0.5, -0.6], [0.0, 0.0])


@settings(deadline=None)
@given(st.floats(-20, 20), st.floats(-20, 20), st.integers(-3, 3), st.floats(0.5, 10))
def test_a_coordinate_with_a_period_is_the_same_after_it(a: float, b: float, turns: int, period: float) -> None:
    spec = GoalSpec(tolerance=0.1, period=(period, None))
    apart = spec.differences(np.array([a + turns * period, 3.0]), np.array([b, 5.0]))
    expected = min(abs(a - b + k * period) for k in range(-100, 101))
    assert apart == pytest.approx([expected, 2.0], abs=1e-9)


def test_some_coordinates_of_a_goal_keep_what_is_said_of_them() -> None:
    whole = GoalSpec(tolerance=(0.1, None, 0.3, 0.2), period=(None, 1.0, 2.0, None))
    assert whole.asked(4).tolist() == [True, False, True, True]
    assert whole.on_coordinates([2, 1], 4) == GoalSpec(tolerance=(0.3, None), period=(2.0, 1.0))
    assert whole.on_coordinates([1], 4) == GoalSpec()  # which asks for nothing
    assert GoalSpec(tolerance=0.1).on_coordinates([0, 2], 4).tolerance == (0.1, 0.1)
    assert GoalSpec().on_coordinates([0, 2], 4) == GoalSpec() and GoalSpec().asked(2).all()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"indices": [0], "function": lambda rows: rows}, "not both"),
        ({"indices": []}, "must be entries of the observation"),
        ({"indices": [0, -1]}, "0 or more"),
        ({"indices": [0.5]}, "must be entries"),
        ({"indices": [1, 1]}, "must differ"),
        ({"tolerance": -0.1}, "tolerance of a goal must be 0 or more"),
        ({"tolerance": (0.1, math.nan)}, "tolerance of a goal must be 0 or more"),
        ({"tolerance": (None, math.inf)}, "always reached"),
        ({"tolerance": math.inf}, "always reached"),
        ({"period": (0.0, 1.0)}, "period of a goal must be positive"),
    ],
)
def test_a_goal_that_makes_no_sense_is_refused(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GoalSpec(**kwargs)


def test_a_goal_that_does_not_fit_is_refused_where_it_is_used() -> None:
    with pytest.raises(ValueError, match="index 4 of a goal lies beyond the observation, which has 4 entries"):
        GoalSpec(indices=[4]).of(OBSERVATIONS)
    with pytest.raises(ValueError, match="one row of goal coordinates for each row"):
        GoalSpec(function=lambda rows: rows[0]).of(OBSERVATIONS)
    with pytest.raises(ValueError, match="Give it a tolerance"):
        GoalSpec(indices=[0]).is_reached([0.0], [0.0])
    with pytest.raises(ValueError, match="tolerance has 2 entries, but goals have 3 coordinates"):
        GoalSpec(tolerance=(1.0, 1.0)).is_reached(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="period has 2 entries, but goals have 3 coordinates"):
        GoalSpec(tolerance=1.0, period=(1.0, None)).is_reached(np.zeros(3), np.zeros(3))


@pytest.mark.parametrize("goal", [[2, 0], lambda rows: rows[:, [2, 0]], GoalSpec([2, 0], tolerance=(1.0, None))])
def test_a_dataset_takes_its_goals_from_the_observations(goal: Any) -> None:
    dataset = GoalDataset(OBSERVATIONS, OBSERVATIONS, ENDS, goal=goal)
    np.testing.assert_array_equal(dataset.achieved_goals, OBSERVATIONS[:, [2, 0]])
    assert dataset.goal_spec == as_goal_spec(goal)
    episodes = [({"observation": OBSERVATIONS, "achieved_goal": OBSERVATIONS[:, :1]}, OBSERVATIONS[:-1])]
    through_episodes = GoalDataset.from_episodes(episodes, goal=goal)
    np.testing.assert_array_equal(through_episodes.achieved_goals, OBSERVATIONS[:, [2, 0]])


def test_a_file_may_hold_goals_that_another_goal_replaces(tmp_path: Any) -> None:
    path = tmp_path / "data.npz"
    np.savez(path, observations=OBSERVATIONS, actions=OBSERVATIONS, terminals=ENDS, achieved_goals=OBSERVATIONS[:, :3])
    assert GoalDataset.from_npz(path, goal=[3]).achieved_goals[:, 0].tolist() == OBSERVATIONS[:, 3].tolist()
    kept = GoalDataset.from_npz(path, goal=GoalSpec(tolerance=(1.0, None, None)))
    assert kept.achieved_goals.shape == (6, 3) and kept.goal_spec.tolerances(3)[0] == 1.0


def test_a_dataset_refuses_two_meanings_of_its_goals() -> None:
    with pytest.raises(ValueError, match="not both"):
        GoalDataset(OBSERVATIONS, OBSERVATIONS, ENDS, OBSERVATIONS[:, :2], goal=[0])
    with pytest.raises(ValueError, match="tolerance has 3 entries, but goals have 4"):
        GoalDataset(OBSERVATIONS, OBSERVATIONS, ENDS, goal=GoalSpec(tolerance=(1.0, 1.0, 1.0)))


def test_goals_and_wrappers_work_without_torch() -> None:
    code = "import sys, wrappers, proq_agent; wrappers.GoalFromObservation, proq_agent.GoalSpec; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "torch" not in loaded and "gymnasium" in loaded
