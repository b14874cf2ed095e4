"""Any environment as a goal environment: goals that are drawn, given or numbered, and a success that means them."""

from __future__ import annotations

import doctest
import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env as check_gymnasium_env
from stable_baselines3.common.env_checker import check_env as check_sb3_env

import wrappers.goal_from_observation
from proq_agent import GoalSpec
from wrappers import GoalDict, GoalFromObservation


class Counter(gym.Env):
    """Shows how often it was stepped, an angle that turns by a radian a step, and a binary sensor; ends at nine."""

    observation_space = spaces.Box(np.array([0.0, -math.pi, 0.0]), np.array([9.0, math.pi, 1.0]), dtype=np.float64)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.options, self.steps = options, 0
        return self._observe(), {}

    def step(self, action: np.ndarray) -> Any:
        self.steps += 1
        return self._observe(), 7.0, self.steps == 9, False, {}

    def _observe(self) -> np.ndarray:
        angle = (self.steps + math.pi) % (2 * math.pi) - math.pi
        return np.array([self.steps, angle, self.steps % 2], dtype=np.float64)


def steps_to_success(env: gym.Env, goal: list[float]) -> int | None:
    env.reset(options={"goal": goal})
    for step in range(1, 10):
        _, reward, terminated, _, info = env.step(np.zeros(1))
        assert (reward == 1.0) == info["is_success"] and reward in (0.0, 1.0)
        assert terminated == (info["is_success"] or step == 9)
        if info["is_success"]:
            return step
    return None


def test_the_example_in_the_docstring_runs() -> None:
    assert doctest.testmod(wrappers.goal_from_observation).failed == 0


@pytest.mark.parametrize("plain_id", ["MountainCarContinuous-v0", "Pendulum-v1"])
@pytest.mark.filterwarnings("ignore::UserWarning")  # the checker would like the raw environment
def test_checkers_accept_the_environment(plain_id: str) -> None:
    env = GoalFromObservation(gym.make(plain_id), [0, 1], tolerance=0.1)
    check_gymnasium_env(env, skip_render_check=True)
    check_sb3_env(env)


def test_success_is_every_coordinate_within_its_tolerance() -> None:
    env = GoalFromObservation(Counter(), [0, 2], tolerance=(1.0, 0.0))
    assert steps_to_success(env, [5.0, 0.0]) == 4
    assert steps_to_success(env, [5.0, 1.0]) == 5
    assert steps_to_success(env, [11.0, 0.0]) is None


def test_a_coordinate_that_does_not_matter_is_shown_and_ignored() -> None:
    env = GoalFromObservation(Counter(), [0, 2], tolerance=(0.0, None))
    assert steps_to_success(env, [5.0, 0.0]) == 5
    assert env.reset(options={"goal": [5.0, 0.0]})[0]["desired_goal"].tolist() == [5.0, 0.0]


def test_angles_are_compared_the_short_way_round() -> None:
    assert steps_to_success(GoalFromObservation(Counter(), [1], 0.2, period=2 * math.pi), [-math.pi]) == 3
    assert steps_to_success(GoalFromObservation(Counter(), [1], 0.2), [-math.pi]) is None


def test_the_goal_may_be_a_function_of_the_observation() -> None:
    env = GoalFromObservation(
        Counter(), lambda rows: rows[:, :1] ** 2, 0.5, goals=lambda rng: rng.integers(1, 5, 1) ** 2
    )
    assert steps_to_success(env, [16.0]) == 4
    observation, _ = env.reset(seed=0)
    assert observation["desired_goal"].shape == (1,) and observation in env.observation_space


def test_a_goal_spec_says_it_all() -> None:
    spec = GoalSpec([1], tolerance=0.2, period=2 * math.pi)
    env = GoalFromObservation(Counter(), spec)
    assert env.goal_spec is spec and steps_to_success(env, [-math.pi]) == 3


def test_goals_are_drawn_within_bounds_from_a_set_or_by_a_function_and_follow_from_the_seed() -> None:
    states = np.array([[2.0], [4.0], [8.0]])
    for goals, allowed in ((None, None), (states, {2.0, 4.0, 8.0}), (lambda rng: [rng.integers(6, 8)], {6.0, 7.0})):
        env = GoalFromObservation(Counter(), [0], 0.25, goals=goals)
        drawn = [env.reset(seed=3)[0]["desired_goal"][0]] + [env.reset()[0]["desired_goal"][0] for _ in range(30)]
        again = [env.reset(seed=3)[0]["desired_goal"][0]] + [env.reset()[0]["desired_goal"][0] for _ in range(30)]
        assert drawn == again and len(set(drawn)) > 1
        assert set(drawn) == allowed if allowed else min(drawn) > 0.25 and max(drawn) <= 9.0


def test_a_goal_is_not_drawn_where_the_episode_begins() -> None:
    env = GoalFromObservation(Counter(), [0], 0.25, goals=np.array([[0.0], [0.0], [0.0], [5.0]]))
    env.reset(seed=0)
    assert {env.reset()[0]["desired_goal"][0] for _ in range(20)} == {5.0}


def test_numbered_tasks_are_known_to_the_goal_dict() -> None:
    env = GoalDict(GoalFromObservation(Counter(), [0], 0.0, tasks=[[3.0], [6.0]]), task_id="cycle")
    assert env.task_ids == (1, 2)
    assert [env.reset()[0]["desired_goal"].tolist() for _ in range(3)] == [[3.0], [6.0], [3.0]]
    assert env.reset(options={"task_id": 2})[1]["task_id"] == 2
    with pytest.raises(ValueError, match="task_id=3 does not exist"):
        GoalFromObservation(Counter(), [0], 0.0, tasks=[[3.0], [6.0]]).reset(options={"task_id": 3})


def test_other_options_reach_the_environment() -> None:
    env = GoalFromObservation(Counter(), [0], 0.0)
    env.reset(options={"goal": [3.0], "low": -0.5})
    assert env.unwrapped.options == {"low": -0.5}


def test_rewards_of_many_goals_are_those_of_the_steps() -> None:
    env = GoalFromObservation(Counter(), [0, 2], tolerance=(1.0, None))
    achieved = np.array([[4.0, 0.0], [6.0, 1.0], [6.5, 0.0]])
    np.testing.assert_array_equal(env.compute_reward(achieved, np.array([5.0, 1.0]), {}), [1.0, 1.0, 0.0])
    assert env.compute_reward(achieved[0], np.array([5.0, 1.0]), {}) == 1.0


def test_the_spec_rebuilds_an_equal_environment() -> None:
    env = GoalFromObservation(gym.make("MountainCarContinuous-v0"), [0], tolerance=[0.05], tasks=[[0.5]])
    rebuilt = gym.make(env.spec)
    assert isinstance(rebuilt, GoalFromObservation) and rebuilt.num_tasks == 1
    assert rebuilt.reset(seed=5)[0]["desired_goal"] == env.reset(seed=5)[0]["desired_goal"]


@pytest.mark.parametrize(
    ("env", "kwargs", "message"),
    [
        (Counter(), {"goal": [0]}, "Give it a tolerance"),
        (Counter(), {"goal": [3], "tolerance": 1.0}, "index 3 of a goal lies beyond"),
        (Counter(), {"goal": [0], "tolerance": (1.0, 1.0)}, "tolerance has 2 entries, but goals have 1"),
        (Counter(), {"goal": lambda rows: rows, "tolerance": 1.0}, "say where they come from"),
        (Counter(), {"goal": [0], "tolerance": 1.0, "goals": np.zeros((3, 2))}, r"shape \(3, 2\); expected \[n, 1\]"),
        (Counter(), {"goal": [0], "tolerance": 1.0, "goals": np.zeros((0, 1))}, r"shape \(0, 1\)"),
        (Counter(), {"goal": [0], "tolerance": 1.0, "tasks": [1.0]}, r"shape \(1,\); expected \[n, 1\]"),
        (gym.make("CliffWalking-v1"), {"goal": [0], "tolerance": 1.0}, "must show a Box of one axis"),
    ],
)
def test_what_cannot_be_a_goal_environment_is_refused(env: gym.Env, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GoalFromObservation(env, **kwargs)
