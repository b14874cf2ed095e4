from __future__ import annotations

import numpy as np
import pytest

from wrappers import make_goal_env
from zoo.data.generation import generate
from zoo.data.tasks import make_task_env
from zoo.figures.maze_geometry import MazeGeometry


@pytest.fixture(scope="module")
def medium():
    env = make_goal_env("pointmaze-medium-v0", task_id="cycle")
    yield env, MazeGeometry.of_env(env)
    env.close()


def test_starts_and_goals_of_every_task_are_outside_the_walls(medium):
    env, maze = medium
    for task in env.task_ids:
        observation, _ = env.reset(seed=task, options={"task_id": task})
        for point in (observation["achieved_goal"], observation["desired_goal"]):
            distance = np.abs(maze.wall_centres() - point).max(axis=1)
            assert distance.min() > maze.unit / 2


def test_outline_lies_between_free_cells_and_walls():
    maze = MazeGeometry(np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], dtype=bool), 2.0, (0.0, 0.0), 2.0)
    segments = {tuple(sorted(map(tuple, segment.tolist()))) for segment in maze.outline()}
    corners = [(1.0, 1.0), (1.0, 3.0), (3.0, 1.0), (3.0, 3.0)]
    assert segments == {
        (corners[0], corners[1]),
        (corners[0], corners[2]),
        (corners[1], corners[3]),
        (corners[2], corners[3]),
    }
    assert maze.bounds == (-1.0, 5.0, -1.0, 5.0)


def test_shortest_walk_in_the_open_is_the_longer_axis():
    walls = np.pad(np.zeros((4, 4), dtype=bool), 1, constant_values=True)
    maze = MazeGeometry(walls, 4.0, (-4.0, -4.0), 4.0, step=0.2, radius=0.7, tolerance=0.01)
    assert maze.shortest_steps(np.array([0.0, 0.0]), np.array([6.0, 3.0])) == 30
    assert maze.shortest_steps(np.array([0.0, 0.0]), np.array([0.0, 0.0])) == 1


def test_a_maze_of_text_has_walls_where_its_data_have_none():
    maze = MazeGeometry.of_spare_env(make_task_env("proq/SpiralMaze-v0"))
    points = generate("proq/SpiralMaze-v0", episodes=5)["train"]["observations"]
    apart = np.abs(points[:, None] - maze.wall_centres()).max(axis=-1)
    assert apart.min() > maze.unit / 2 + 0.69 and maze.walls.shape == (9, 9)  # a ball's radius from the walls


def test_walks_from_many_places_are_those_from_each(medium):
    _, maze = medium
    rng = np.random.default_rng(0)
    starts, goal = rng.uniform((0.0, 0.0), (20.0, 20.0), size=(30, 2)), np.array([0.0, 0.0])
    walks = maze.walks(starts, goal, maze.tolerance)
    assert walks.tolist() == [maze.shortest_steps(start, goal) for start in starts]
    assert np.isinf(walks[~maze.fits(starts)]).mean() > 0.8  # a little of the walls is within the grid's resolution
    assert np.isfinite(walks[maze.fits(starts)]).all()
    exact = maze.walks(starts, goal)[np.isfinite(walks)]
    assert ((exact - walks[np.isfinite(walks)] >= 3) | (walks[np.isfinite(walks)] == 1)).all()


def test_the_agent_fits_where_its_whole_body_does():
    walls = np.pad(np.zeros((1, 1), dtype=bool), 1, constant_values=True)
    maze = MazeGeometry(walls, 4.0, (0.0, 0.0), 4.0, radius=0.7)
    points = np.array([[[4.0, 4.0], [5.2, 5.2]], [[5.4, 4.0], [0.0, 0.0]]])
    assert maze.fits(points).tolist() == [[True, True], [False, False]]


def test_no_way_to_a_goal_behind_walls():
    walls = np.pad(np.array([[0, 1, 0]], dtype=bool), 1, constant_values=True)
    maze = MazeGeometry(walls, 4.0, (0.0, 0.0), 4.0, step=0.2, radius=0.7, tolerance=1.0)
    assert maze.shortest_steps(np.array([4.0, 4.0]), np.array([12.0, 4.0])) == np.inf


def test_a_walk_around_corners_in_the_real_maze_is_possible_and_not_much_longer(medium):
    """Follow the cells of a shortest route at full speed: no faster than the bound, and not far from it."""
    env, maze = medium
    observation, _ = env.reset(seed=0, options={"task_id": 3})
    base = env.unwrapped
    shortest = maze.shortest_steps(observation["achieved_goal"], observation["desired_goal"])
    steps, success = 0, False
    while not success and steps < 400:
        position = observation["achieved_goal"]
        subgoal, _ = base.get_oracle_subgoal(position, observation["desired_goal"])
        offset = np.asarray(subgoal) - position
        observation, _, _, _, info = env.step((offset / max(np.abs(offset).max(), 1e-6)).astype(np.float32))
        success, steps = info["is_success"], steps + 1
    assert success
    assert shortest <= steps <= 2 * shortest


def test_portals_are_obstacles_for_the_shortest_walk():
    maze = MazeGeometry.of_spare_env(make_task_env("pointmaze-teleport-v0"))
    assert maze is not None and len(maze.entrances) == 2 and len(maze.exits) == 3
    beyond = np.array(maze.entrances[0])
    assert maze.shortest_steps(beyond, np.array([0.0, 0.0])) == np.inf


def test_gymnasium_robotics_has_rows_downwards():
    pytest.importorskip("gymnasium_robotics")
    env = make_goal_env("PointMaze_Large-v3")
    maze = MazeGeometry.of_env(env)
    assert maze is not None
    for seed in range(5):
        observation, _ = env.reset(seed=seed)
        assert np.abs(maze.wall_centres() - observation["achieved_goal"]).max(axis=1).min() > maze.unit / 2
    assert maze.shortest_steps(observation["achieved_goal"], observation["desired_goal"]) is None
    with pytest.raises(ValueError, match="step is not known"):
        maze.walks(observation["achieved_goal"][None], observation["desired_goal"])
    env.close()
