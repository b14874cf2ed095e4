"""Mazes of text: walls that hold, doors that open one way, belts that carry, and walkers who know it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.data.catalogue import train_path
from zoo.data.generation import generate
from zoo.data.load import load
from zoo.data.tasks import make_task_env
from zoo.data.text_maze import Routes
from zoo.generate import main
from zoo.worlds.text_maze import RADIUS, UNIT, Layout

LAYOUTS = ("spiral", "rooms", "field")
DOOR = Layout(("#####", "#.>.#", "#####"))
BELT = Layout(("#####", "#→→.#", "#...#", "#####"))


def walk(layout: Layout, start: tuple[float, float], action: tuple[float, float], steps: int) -> tuple[float, float]:
    x, y = start
    for _ in range(steps):
        x, y = layout.move(x, y, 0.2 * action[0], 0.2 * action[1])
    return x, y


def test_a_door_is_passed_one_way_alone() -> None:
    assert walk(DOOR, (0.0, 0.0), (1.0, 0.0), 60)[0] == pytest.approx(8 + UNIT / 2 - RADIUS)
    assert walk(DOOR, (8.0, 0.0), (-1.0, 0.0), 60)[0] == pytest.approx(6 + RADIUS)
    assert DOOR.may_pass((1, 1), (1, 2)) and DOOR.may_pass((1, 2), (1, 3))
    assert not DOOR.may_pass((1, 2), (1, 1)) and not DOOR.may_pass((1, 3), (1, 2))


def test_who_is_in_a_door_can_only_go_on() -> None:
    inside = 4.0
    assert walk(DOOR, (inside, 0.0), (-1.0, 0.0), 1)[0] == inside
    assert walk(DOOR, (inside, 0.0), (1.0, 0.0), 1)[0] == pytest.approx(inside + 0.2)
    noses_in = 2.0 - RADIUS + 0.5
    assert walk(DOOR, (noses_in, 0.0), (-1.0, 0.0), 1)[0] == pytest.approx(noses_in - 0.2)


def test_a_belt_carries_the_ball_and_can_be_walked_against() -> None:
    assert walk(BELT, (0.0, 0.0), (0.0, 0.0), 10)[0] == pytest.approx(1.0)
    assert walk(BELT, (0.0, 0.0), (1.0, 0.0), 10)[0] == pytest.approx(3.0)
    assert walk(BELT, (5.0, 0.0), (-1.0, 0.0), 10)[0] == pytest.approx(4.0)
    assert walk(BELT, (0.0, 4.0), (0.0, 0.0), 10) == (0.0, 4.0)


@pytest.mark.parametrize(("belt", "door", "way"), [
    ("→", ">", (1, 0)), ("←", "<", (-1, 0)), ("↓", "v", (0, 1)), ("↑", "^", (0, -1)),
])  # fmt: skip
def test_belts_and_doors_point_where_they_lead(belt: str, door: str, way: tuple[int, int]) -> None:
    dx, dy = way
    on_belt = Layout(("#####", "#...#", f"#.{belt}.#", "#...#", "#####"))
    assert walk(on_belt, (4.0, 4.0), (0.0, 0.0), 10) == pytest.approx((4.0 + dx, 4.0 + dy))
    rows = (
        ("#####", "#...#", f"##{door}##", "#...#", "#####")
        if dy
        else ("#####", "#.#.#", f"#.{door}.#", "#.#.#", "#####")
    )
    for sign, passes in ((1, True), (-1, False)):
        start = 4.0 - 4.0 * sign * dx, 4.0 - 4.0 * sign * dy
        x, y = walk(Layout(rows), start, (sign * dx, sign * dy), 60)
        assert ((x - 4.0) * sign * dx + (y - 4.0) * sign * dy > 4.0) == passes


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(LAYOUTS), st.integers(0, 2**32 - 1))
def test_no_ball_enters_a_wall_and_none_jumps(name: str, seed: int) -> None:
    layout, rng = Layout.read(name), np.random.default_rng(seed)
    cell = layout.open_cells[rng.integers(len(layout.open_cells))]
    x, y = layout.centre(cell)
    heading = rng.uniform(-0.3, 0.3, 2)
    for _ in range(200):
        heading = rng.uniform(-0.3, 0.3, 2) if rng.uniform() < 0.1 else heading
        before = x, y
        x, y = layout.move(x, y, *heading.tolist())
        assert max(abs(x - before[0]), abs(y - before[1])) <= 0.4 + 1e-9
        corners = [layout.cell(x + a * RADIUS, y + b * RADIUS) for a in (-1, 1) for b in (-1, 1)]
        assert all(layout.rows[i][j] != "#" for i, j in corners)
        corners_before = [layout.cell(before[0] + a * RADIUS, before[1] + b * RADIUS) for a in (-1, 1) for b in (-1, 1)]
        if len(set(corners_before)) == 1 and len({layout.cell(x, y), *corners, *corners_before}) == 2:
            # Who is wholly in a cell gets no edge into one beside it against a door.
            (after,) = {layout.cell(x, y), *corners} - {*corners_before}
            assert layout.may_pass(corners_before[0], after)


@pytest.mark.parametrize("name", LAYOUTS)
def test_routes_are_the_ways_that_a_ball_can_go(name: str) -> None:
    routes = Routes(Layout.read(name))
    goals = [routes.numbers[cell] for cell in routes.layout.floor]
    for variant in routes.next_cell:
        for goal in goals:
            cells = set(range(len(routes.cells)))
            for _ in range(len(routes.cells)):
                following = {int(variant[goal, cell]) for cell in cells if cell != goal}
                for cell in cells - {goal}:
                    assert routes.layout.may_pass(routes.cells[cell], routes.cells[variant[goal, cell]])
                cells = following
            assert not cells, "a way that does not end"


def test_routes_take_a_belt_along_and_avoid_it_against() -> None:
    belt = 9
    routes = Routes(Layout(("#" * 13, f"#.{'→' * belt}.#", f"#.{'#' * belt}.#", "#" + "." * 11 + "#", "#" * 13)))
    left, right = routes.numbers[1, 1], routes.numbers[1, 11]
    assert (routes.next_cell[:, right, left] == routes.numbers[1, 2]).all()
    assert (routes.next_cell[:, left, right] == routes.numbers[2, 11]).all()


def test_walkers_leave_the_spiral_through_its_door_and_never_enter_there() -> None:
    env: Any = make_task_env("proq/SpiralMaze-v0").unwrapped
    door = next((i, j) for i, j in env.layout.open_cells if env.layout.rows[i][j] == "v")
    arrays = generate("proq/SpiralMaze-v0", episodes=40)["train"]
    cells = [env.layout.cell(x, y) for x, y in arrays["observations"].tolist()]
    within = np.array([cell == door for cell in cells])
    into = np.flatnonzero(~within[:-1] & within[1:] & ~arrays["terminals"][:-1])
    out = np.flatnonzero(within[:-1] & ~within[1:] & ~arrays["terminals"][:-1])
    assert len(out) > 3
    assert {cells[row] for row in into} == {(door[0] - 1, door[1])}
    assert {cells[row + 1] for row in out} <= {(door[0] - 1, door[1]), (door[0] + 1, door[1])}


def test_tasks_and_random_goals(tmp_path: Path) -> None:
    spiral = make_task_env("proq/SpiralMaze-v0", 2)
    observation, _ = spiral.reset(seed=0)
    assert np.abs(observation["observation"] - [8.0, 16.0]).max() <= 1.0  # row 5, column 3
    assert np.abs(observation["desired_goal"] - [0.0, 0.0]).max() <= 1.0
    path = tmp_path / "valve.txt"
    path.write_text("#####\n#.>.#\n#####\n")
    env = make_task_env(f"maze:{path}")
    assert env.task_ids == ()
    env.reset(seed=0)
    for _ in range(20):  # no goal is asked for that cannot be reached
        observation, _ = env.reset()
        assert observation["observation"][0] < 2.0 and observation["desired_goal"][0] > 6.0


def test_a_maze_of_ones_own_from_its_file_to_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ring.txt"
    path.write_text("#####\n#...#\n#.#.#\n#...#\n#####\n\n1,1 3,3\n")
    out = tmp_path / "out.npz"
    command = ["--maze", str(path), "--episodes", "2", "--workers", "1"]
    assert main([*command, "--out", str(out)]) == 0
    first = train_path(tmp_path, f"maze:{path}")
    assert main([*command, "--out", str(first)]) == 0
    dataset, info = load(f"maze:{path}", dataset_dir=tmp_path)
    assert (info.transitions, info.source) == (1000, "generated") and "official" not in info.describe()
    assert dataset.achieved_goals is dataset.observations
    path.write_text(path.read_text().replace("#.#.#", "#.>.#").replace("#...#", "##.##", 1))
    assert train_path(tmp_path, f"maze:{path}") != first  # another maze, other data
    assert main(["--maze", str(tmp_path / "none.txt")]) == 1
    assert "there is no file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("####\n#..#\n###", "line 3 of the maze has 3 cells, the first has 4"),
        ("####\n#.x#\n####", "line 2 of the maze has an unknown cell 'x'"),
        ("####\n#...\n####", "the outermost cells of a maze must be walls"),
        ("###\n#.#\n###", "two cells of floor"),
        ("#####\n#.>.#\n#...#\n#####", "door in line 2, column 3 must have walls on both sides"),
        ("#####\n#.v.#\n#####", "door in line 2, column 3 must have walls on both sides"),
        ("####\n#..#\n####\n\n1,1", "a task is a line like 1,1 7,5"),
        ("####\n#..#\n####\n\n1,1 1,3", "task 1 of the maze has 1,3, which is not floor"),
        ("####\n#..#\n####\n\n1,1 a,b", "invalid literal"),
    ],
)
def test_a_layout_that_is_none_is_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "maze.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        Layout.read(path)
    assert str(path) in str(error.value)
