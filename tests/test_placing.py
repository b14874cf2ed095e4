from __future__ import annotations

import numpy as np
import pytest

from zoo.data.tasks import make_task_env
from zoo.exploring.placing import begins_where_told, reset_at


@pytest.mark.parametrize(
    ("env_id", "start", "goal"),
    [
        ("pointmaze-medium-v0", [0.3, -0.4], [19.7, 20.2]),
        ("proq/SpiralMaze-v0", [0.2, 0.1], [4.0, 0.3]),
        ("proq/Drone-v0", [-0.5, -0.5, 0.1], [-0.4, 0.6, 0.0]),
    ],
)
def test_episodes_begin_where_told(env_id: str, start: list[float], goal: list[float]) -> None:
    with make_task_env(env_id) as env:
        assert begins_where_told(env)
        for seed in (0, 1):
            observation = reset_at(env, np.array(start), np.array(goal), None, seed)
            np.testing.assert_allclose(observation["achieved_goal"], start, atol=1e-5)
            np.testing.assert_allclose(observation["desired_goal"], goal, atol=1e-5)
        assert env.step(np.zeros(env.action_space.shape, np.float32))[4]["is_success"] is False


def test_reaching_that_goal_is_success() -> None:
    with make_task_env("pointmaze-medium-v0") as env:
        reset_at(env, np.zeros(2), np.array([0.5, 0.0]), None, 0)
        assert env.step(np.zeros(2))[4]["is_success"]


def test_tasks_stay_as_they_are() -> None:
    """Starts are exact for those who point, and noisy in the tasks of the benchmark, before and after."""
    with make_task_env("pointmaze-medium-v0") as env:
        before, _ = env.reset(seed=3, options={"task_id": 2})
        reset_at(env, np.zeros(2), np.ones(2), None, 3)
        after = reset_at(env, np.zeros(2), np.ones(2), 2, 3)
        for key, value in before.items():
            np.testing.assert_array_equal(after[key], value)


def test_nothing_is_put_into_a_wall() -> None:
    with make_task_env("pointmaze-medium-v0") as env:
        for ends in (([-3.0, 0.0], [0.0, 0.0]), ([0.0, 0.0], [-3.0, 0.0]), ([1.9, -1.9], [0.0, 0.0])):
            with pytest.raises(ValueError, match="does not fit"):
                reset_at(env, np.array(ends[0]), np.array(ends[1]), None, 0)


def test_a_world_with_starts_of_its_own_takes_the_goal() -> None:
    with make_task_env("proq/MountainCarPosition-v0") as env:
        assert not begins_where_told(env)
        observation = reset_at(env, np.array([0.3]), np.array([-0.7]), None, 0)
        np.testing.assert_allclose(observation["desired_goal"], [-0.7], atol=1e-6)
        assert -0.61 < observation["achieved_goal"][0] < -0.39


def test_cells_of_gymnasium_robotics_are_the_nearest_ones() -> None:
    pytest.importorskip("gymnasium_robotics")
    with make_task_env("PointMaze_Medium-v3") as env:
        centres = [env.unwrapped.maze.cell_rowcol_to_xy(np.array(cell)) for cell in ((1, 1), (6, 6))]
        observation = reset_at(env, centres[0] + 0.2, centres[1] - 0.2, None, 0)
        for key, centre in zip(("achieved_goal", "desired_goal"), centres, strict=True):
            assert np.abs(observation[key] - centre).max() <= 0.5
