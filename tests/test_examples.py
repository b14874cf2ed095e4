"""The examples do what they say, in a short form."""

from __future__ import annotations

import re

import numpy as np
import pytest
from stable_baselines3.common.env_checker import check_env
from tiny_goal import tiny_model

from wrappers import make_goal_env
from zoo.examples import controllers, follow_keypoints, walled_off, walls
from zoo.figures.maze_geometry import MazeGeometry

CELL = (8, 5)


def test_a_walled_off_cell_cannot_be_passed():
    ends = {}
    for name, env in (
        ("open", make_goal_env("pointmaze-giant-v0")),
        ("walled", walls.make_walled_env("pointmaze-giant-navigate-v0", CELL)),
    ):
        (x, low), (_, high) = walls.cell_box(env, CELL)
        cell_below = {"init_ij": (7, 5), "goal_ij": (1, 1), "init_xy": (x + 2, low - 2), "goal_xy": (0, 0)}
        env.reset(seed=0, options={"task_info": cell_below})
        for _ in range(60):
            observation, *_ = env.step(np.array([0.0, 1.0], np.float32))
        ends[name] = observation["achieved_goal"][1]
        env.close()
    assert ends["walled"] < low < high < ends["open"]


def test_a_walled_maze_is_an_ordinary_environment_with_its_time_limit():
    env = walls.make_walled_env("pointmaze-giant-v0", CELL, task=2)
    check_env(env)
    env.reset(seed=0)
    steps = 1
    while not env.step(np.zeros(2, np.float32))[3]:
        steps += 1
    assert steps == 1000


@pytest.mark.parametrize(("env_id", "cell"), [("pointmaze-giant-v0", (0, 0)), ("PointMaze_UMaze-v3", CELL)])
def test_only_free_cells_of_ogbench_can_be_walled_off(env_id, cell, capsys):
    argv = ["--env", env_id, "--cell", *map(str, cell)]
    assert walled_off.main(argv) == 1
    assert "is no free cell" in capsys.readouterr().err


def test_a_picture_shows_each_plan_with_its_walk_and_has_a_legend(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(walls, "draw_legend", lambda figure, columns: figures.append(figure))
    model = tiny_model()
    corners = {"walls": np.pad(np.zeros((1, 2), bool), 1, constant_values=True), "unit": 1.0, "first": (0.0, 0.0)}
    maze = MazeGeometry(**corners, row_step=1.0, step=0.1, radius=0.1, tolerance=0.1)
    walks = [np.array([[0.1, 0.1], [x, 0.5], [0.9, 0.9]], np.float32) for x in (0.3, 0.7)]
    plan = model.plan(walks[0][0], walks[0][-1])
    panels = dict(zip(("one", "other"), ((plan, walk) for walk in walks), strict=True))
    walls.draw_walks(tmp_path / "walks.png", model, panels, maze, (np.zeros(2), np.ones(2)))
    (figure,) = figures
    for axes, title, walk in zip(figure.axes, panels, walks, strict=True):
        lines = {line.get_label(): line.get_xydata() for line in axes.lines}
        np.testing.assert_allclose(lines["walk"], walk)
        np.testing.assert_allclose(lines["plan"], [walk[0], *plan.points], rtol=1e-6)
        assert axes.get_title() == title
        assert {"keypoint", "new wall", "plan", "walk", "start", "goal"} == set(axes.get_legend_handles_labels()[1])


@pytest.mark.slow
def test_the_agent_gets_round_a_wall_that_it_is_told_of_or_finds_out(capsys, tmp_path):
    argv = ["--episodes", "1", "--deterministic", "--device", "cpu", "-f", str(tmp_path)]
    assert walled_off.main([*argv, "--plot", str(tmp_path / "plans.png")]) == 0
    reached = re.findall(r"(no wall|untold|told|patience \d+|before) +(\d) of 2", capsys.readouterr().out)
    assert reached == [("no wall", "2"), ("untold", "0"), ("told", "2"), ("patience 30", "2"), ("before", "2")]
    assert (tmp_path / "plans.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_scripted_controller_reaches_far_goals_behind_keypoints(capsys):
    argv = "--env PointMaze_Medium-v3 -n 1000 --dataset-episodes 60 --episodes 12 --min-cost 250"
    assert follow_keypoints.main(argv.split()) == 0
    alone, guided = map(int, re.findall(r"(\d+) %", capsys.readouterr().out)[-2:])
    assert alone <= 60 and guided >= 80


@pytest.mark.slow
def test_hindsight_learns_on_short_hops():
    model = controllers.train_sac(1050, seed=0)
    env = model.get_env()
    for _ in range(10):
        observation = env.reset()
        assert np.linalg.norm(observation["desired_goal"] - observation["achieved_goal"]) < 2.3
    action, _ = model.predict(observation, deterministic=True)
    moved = {**observation, "achieved_goal": observation["achieved_goal"] + 3}
    moved["desired_goal"] = observation["desired_goal"] + 3
    moved["observation"] = observation["observation"] + [3, 3, 0, 0]
    np.testing.assert_allclose(model.predict(moved, deterministic=True)[0], action, atol=1e-4)  # the same anywhere
