"""The page's server, asked over HTTP: answers are the agent's own, nobody disturbs anybody, nonsense is refused."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from explore_client import Client, serving
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_goal import TINY, tiny_arrays

from proq_agent import GCBC, GoalDataset, ProQ
from proq_agent.planning.regions import crosses_box
from zoo.data.source import DataSource
from zoo.data.tasks import make_task_env
from zoo.explore import build_parser, main
from zoo.exploring.offers import SHIPPED, Offers
from zoo.exploring.server import MAX_BODY, MAX_WALKS
from zoo.runs.agents import AgentChoice

DRONE = "proq/Drone-v0"
MAZE, PORTALS, FLYING, ALONE = "pointmaze-medium-navigate-v0", "pointmaze-teleport-stitch-v0", "drone", "alone"
START, GOAL = [0.0, 0.0], [20.0, 20.0]
WALL = [0, 1, 5.8, 6.2, 8.8, 9.2]  # a block on the way; there is another one


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Agents of a maze, of one with portals, of a world with three goal dimensions, and of a line without a world."""
    folder = tmp_path_factory.mktemp("agents")
    with make_task_env(DRONE) as env:
        spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    states, actions = (np.random.default_rng(0).uniform(-1.0, 1.0, (60, n)) for n in (9, 3))
    logs = GoalDataset(states, actions, np.arange(60) % 20 == 19, states[:, :3])
    ProQ(dataset=logs, stochastic="ignore", seed=0, device="cpu", **spaces, **TINY).save(folder / "drone.zip")
    arrays = tiny_arrays()
    line = GoalDataset(**arrays, achieved_goals=arrays["observations"][:, :1])
    ProQ(dataset=line, stochastic="ignore", seed=0, device="cpu", **TINY).save(folder / "alone.zip")
    np.savez(folder / "data.npz", **arrays, achieved_goals=line.achieved_goals.numpy())  # type: ignore[arg-type]
    choices = [
        AgentChoice(env, file=file, device="cpu")
        for env, file in (
            (MAZE, SHIPPED / f"{MAZE}.zip"),
            (PORTALS, SHIPPED / f"{PORTALS}.zip"),
            (DRONE, folder / "drone.zip"),
            (None, folder / "alone.zip"),
        )
    ]
    with serving(Offers(choices, DataSource(path=folder / "data.npz"))) as client:
        yield client


@pytest.fixture(scope="module")
def model() -> ProQ:
    return ProQ.load(SHIPPED / f"{MAZE}.zip", device="cpu")


def pixels(picture: dict[str, Any]) -> np.ndarray:
    """The values of a picture, NaN where there is none."""
    shape = picture["rows"], picture["columns"]
    found = np.frombuffer(base64.b64decode(picture["pixels"]), np.uint8).reshape(shape)
    values = picture["low"] + (found - 1.0) / 254 * (picture["high"] - picture["low"])
    return np.where(found == 0, np.nan, values)


def pixel_of(bounds: list[float], picture: dict[str, Any], point: np.ndarray) -> tuple[int, int]:
    left, right, bottom, top = bounds
    x, y = (point[0] - left) / (right - left), (point[1] - bottom) / (top - bottom)
    return int(y * picture["rows"]), int(x * picture["columns"])


def test_the_chosen_agents_come_first_and_the_shipped_ones_follow(client: Client) -> None:
    names = [agent["name"] for agent in client.ask("agents")["agents"]]
    assert names[:4] == [MAZE, PORTALS, FLYING, ALONE]
    assert f"{MAZE} (shipped)" in names and "pointmaze-giant-stitch-v0" in names
    worlds = {agent["name"]: agent["world"] for agent in client.ask("agents")["agents"]}
    assert worlds["pointmaze-medium-stitch-v0"] == worlds[MAZE] == "pointmaze-medium-v0" and worlds[ALONE] is None


def test_a_map_is_what_the_agent_has_learned(client: Client, model: ProQ) -> None:
    found = client.ask("map", agent=MAZE)
    np.testing.assert_allclose(found["keypoints"], model.policy.keypoints.numpy(), rtol=1e-4, atol=1e-4)
    distances, n = model.planner.distances, len(found["keypoints"])
    assert [hop[:2] for hop in found["hops"]] == np.argwhere(model.planner.hops[:n, :n]).tolist()
    assert all(d == pytest.approx(distances[i, j], rel=1e-4) for i, j, d in found["hops"])
    psi = pixels(found["psi"])
    row, column = pixel_of(found["bounds"], found["psi"], np.array([0.0, 0.0]))
    assert psi[row, column] > 0.5 > psi[0, 0]  # a floor, and a corner of the outer wall
    assert found["tasks"] == [1, 2, 3, 4, 5] and len(found["walls"]) > 20


def test_portals_come_with_their_odds(client: Client) -> None:
    edges = client.ask("map", agent=PORTALS)["chance"]
    assert len(edges) == 2
    assert all(sum(edge["odds"]) == pytest.approx(1.0, abs=1e-3) and len(edge["exits"]) == 3 for edge in edges)


def test_a_plan_is_the_agents_own(client: Client, model: ProQ) -> None:
    found, plan = client.ask("plan", agent=MAZE, start=START, goal=GOAL), model.plan(np.array(START), np.array(GOAL))
    assert found["cost"] == pytest.approx(plan.cost, rel=1e-4) and found["hops"] == len(plan.nodes)
    assert found["odds"] == 1.0 and not found["fallback"]
    np.testing.assert_allclose(found["legs"][0]["points"], [START, *plan.points.tolist()], rtol=1e-4, atol=1e-4)
    places = model.planner.goal_map.place(np.array([START, *plan.points], dtype=np.float32))
    steps = np.diagonal(model.planner.goal_map.pairwise(places, places), 1).sum()
    assert found["steps"] == pytest.approx(steps, rel=1e-4)


def test_distances_of_the_field_are_those_of_the_keypoints(client: Client) -> None:
    found, plan = client.ask("map", agent=MAZE), client.ask("plan", agent=MAZE, start=START, goal=GOAL)
    for towards, place, known in ((False, START, plan["from_start"]), (True, GOAL, plan["to_goal"])):
        field = client.ask("field", agent=MAZE, place=place, towards=towards)
        values = pixels(field)
        read = np.array([values[pixel_of(found["bounds"], field, np.array(point))] for point in found["keypoints"]])
        assert np.nanmedian(np.abs(read - known)) < 3.0  # a pixel is about a step wide
    assert np.isnan(values[0, 0])  # out of distribution


def test_a_blocked_box_is_avoided_and_nobody_else_notices(client: Client) -> None:
    def ask(blocks: list[list[float]]) -> Any:
        answer = client.ask("plan", agent=MAZE, start=START, goal=GOAL, blocks=blocks)
        return {name: value for name, value in answer.items() if name != "ms"}

    way, detour = (np.array(ask(blocks)["legs"][0]["points"]) for blocks in ([], [WALL]))
    crosses = crosses_box(WALL[2:4], WALL[4:], dim=2)
    assert crosses(way[:-1], way[1:]).any() and not crosses(detour[:-1], detour[1:]).any()
    assert not ask([WALL])["fallback"] and ask([WALL])["cost"] > ask([])["cost"]
    other = [0, 1, 18.0, 12.0, 22.0, 16.0]
    questions = [[], [WALL], [WALL, other], [other], []] * 6
    alone = [ask(blocks) for blocks in questions[:5]] * 6
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(ask, questions)) == alone


def test_where_there_is_no_way_numbers_are_missing_instead_of_infinite(client: Client) -> None:
    found = client.ask(
        "plan", agent=MAZE, start=START, goal=GOAL, blocks=[[0, 1, 1.5, -50, 50, 50], [0, 1, -50, 1.5, 50, 50]]
    )
    assert found["fallback"] and found["cost"] is None and found["steps"] is None


def test_a_plan_by_chance_tells_what_follows(client: Client) -> None:
    sealed = client.ask("map", agent=PORTALS)["chance"][0]["exits"]
    goal = min(sealed, key=lambda exit_: exit_[1])  # this cell has no other way in
    found = client.ask("plan", agent=PORTALS, start=START, goal=goal)
    first, *after = found["legs"]
    assert first["chance"] is not None and sum(leg["odds"] for leg in after[:3]) == pytest.approx(1.0, abs=1e-3)
    assert any(leg["chance"] is None for leg in after) and 0 < found["steps"] < 2000


def test_a_walk_in_the_simulator_gets_there_and_says_so(client: Client) -> None:
    begin, *frames, end = client.walk(agent=MAZE, start=START, goal=GOAL)
    np.testing.assert_allclose([begin["start"], begin["goal"]], [START, GOAL], atol=1e-4)
    trail = np.array([begin["start"], *(point for frame in frames for point in frame["points"])])
    assert end["success"] and end["steps"] == len(trail) - 1 and f"after {end['steps']} steps" in end["says"]
    assert np.linalg.norm(trail[-1] - GOAL) <= 1.0 and np.abs(np.diff(trail, axis=0)).max() < 0.5
    again, other = (client.walk(agent=MAZE, start=START, goal=GOAL, deterministic=False, seed=s)[-1] for s in (3, 4))
    assert again == client.walk(agent=MAZE, start=START, goal=GOAL, deterministic=False, seed=3)[-1] != other


def test_a_walk_keeps_out_of_what_is_blocked(client: Client) -> None:
    def enters(blocks: list[list[float]]) -> bool:
        lines = client.walk(agent=MAZE, start=START, goal=GOAL, blocks=blocks)
        points = [point for line in lines for point in line.get("points", [])]
        assert lines[-1]["success"]
        return bool(((points > low) & (points < high)).all(axis=1).any())

    low, high = np.array(WALL[2:4]) + 0.1, np.array(WALL[4:]) - 0.1
    assert enters([]) and not enters([WALL])


def test_a_walk_by_chance_tells_of_the_jump(client: Client) -> None:
    entrance = np.array(client.ask("map", agent=PORTALS)["chance"][0]["entrance"])
    goal = min(client.ask("map", agent=PORTALS)["chance"][0]["exits"], key=lambda exit_: exit_[1])
    lines = client.walk(agent=PORTALS, start=(entrance - [0.0, 4.0]).tolist(), goal=goal, seed=1)
    happened = [event for line in lines for event in line.get("happened", [])]
    assert happened and all("chance took it to" in event for event in happened)


def test_a_task_is_walked_as_the_world_has_it(client: Client) -> None:
    ends = client.ask("task", agent=MAZE, task=3, seed=7)
    begin = client.walk(agent=MAZE, start=START, goal=GOAL, task=3, seed=7)[0]
    assert [begin["start"], begin["goal"]] == [ends["start"], ends["goal"]] != [START, GOAL]


def test_when_nobody_watches_any_more_the_walk_ends(client: Client) -> None:
    """Else a page that is closed and opened again would soon get no walk at all."""
    question = {"agent": MAZE, "start": START, "goal": GOAL, "deterministic": True, "seed": 0, "rate": 400}
    body = json.dumps(question).encode()
    head = "POST /api/walk HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    for _ in range(MAX_WALKS):
        with socket.create_connection(("127.0.0.1", client.server.server_port)) as connection:
            connection.sendall(head.encode() + body)
            connection.recv(100)
    for _ in range(100):
        status, _, _ = client.send("POST", "/api/walk", body.replace(b"400", b"10000"), content_type="application/json")
        if status == 200:
            break
        time.sleep(0.05)
    assert status == 200


def test_two_of_three_goal_dimensions_can_be_chosen(client: Client) -> None:
    found = client.ask("map", agent=FLYING, axes=[0, 2])
    assert found["goal_dim"] == 3 and found["axes"] == [0, 2] and found["walls"] == []
    keypoint = found["keypoints"][2]
    plan = client.ask("plan", agent=FLYING, axes=[0, 2], start=[keypoint[0], keypoint[2]], goal=[0.5, -0.5])
    np.testing.assert_allclose(plan["start"], keypoint, rtol=1e-4)  # the third coordinate is the keypoint's
    assert plan["goal"][0] == 0.5 and plan["goal"][2] == -0.5 and len(plan["legs"][0]["points"][0]) == 3
    wall = [0, 2, -0.2, -0.2, 0.2, 0.2]
    client.ask("plan", agent=FLYING, axes=[1, 2], start=[-0.9, 0.9], goal=[0.9, 0.9], blocks=[wall])
    begin, *_, end = client.walk(agent=FLYING, start=[-0.5, -0.5, 0.0], goal=[-0.5, 0.5, 0.0])
    assert begin["start"] == [-0.5, -0.5, 0.0] and "steps" in end["says"]


def test_an_agent_without_a_world_plans_but_does_not_walk(client: Client) -> None:
    found = client.ask("map", agent=ALONE)
    assert found["acts"] is False and found["goal_dim"] == 1
    plan = client.ask("plan", agent=ALONE, start=[0.1, 0.02], goal=[0.9], blocks=[[0, 1, 0.4, -1.0, 0.5, 1.0]])
    assert plan["start"] == [0.1] and plan["hops"] >= 1
    question = {"agent": ALONE, "start": START, "goal": START, "deterministic": True, "seed": 0, "rate": 100}
    status, answer = client.post("walk", json.dumps(question).encode())
    assert status == 400 and "--env" in answer["error"]
    density = pixels(client.ask("density", agent=ALONE))
    assert 10 ** np.nanmax(density) >= 1 and np.isnan(density).any()


GOOD = {"agent": MAZE, "start": START, "goal": GOAL}
BAD = {
    "no JSON": b"{",
    "no object": b"[1]",
    "bytes": b"\xff\xfe",
    "NaN": b'{"agent": "%s", "start": [NaN, 0], "goal": [1, 1]}' % MAZE.encode(),
    "infinite": b'{"agent": "%s", "start": [1e999, 0], "goal": [1, 1]}' % MAZE.encode(),
    "deep": b'{"a":' + b"[" * 30000 + b"]" * 30000 + b"}",
    "a long number": b'{"agent": "%s", "start": [%s, 0], "goal": [1, 1]}' % (MAZE.encode(), b"9" * 5000),
    "far away": json.dumps(GOOD | {"start": [1e6, 0]}).encode(),
    "three numbers": json.dumps(GOOD | {"goal": [1, 2, 3]}).encode(),
    "words": json.dumps(GOOD | {"goal": ["1", "2"]}).encode(),
    "true": json.dumps(GOOD | {"goal": [True, 0]}).encode(),
    "nothing": b"{}",
    "another agent": json.dumps(GOOD | {"agent": "../../etc/passwd"}).encode(),
    "too many blocks": json.dumps(GOOD | {"blocks": [WALL] * 21}).encode(),
    "half a block": json.dumps(GOOD | {"blocks": [[0, 1, 2]]}).encode(),
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_bad_questions_get_one_line(client: Client, body: bytes) -> None:
    status, answer = client.post("plan", body)
    assert status == 400 and set(answer) == {"error"} and answer["error"] and "\n" not in answer["error"]


@pytest.mark.parametrize(
    ("name", "changes", "says"),
    [
        ("walk", {"start": [4.0, 20.0], "goal": [-3.0, 0.0]}, "does not fit"),
        ("walk", {"rate": 0}, "rate"),
        ("walk", {"seed": -1}, "seed"),
        ("walk", {"seed": 1.5}, "seed"),
        ("walk", {"task": 99}, "task"),
        ("walk", {"deterministic": 1}, "deterministic"),
        ("task", {"task": 0}, "task"),
        ("map", {"agent": FLYING, "axes": [0, 3]}, "dimension"),
        ("map", {"agent": FLYING, "axes": [1, 1]}, "different"),
        ("field", {"place": START, "towards": "yes"}, "towards"),
    ],
)
def test_bad_values_are_named(client: Client, name: str, changes: dict[str, Any], says: str) -> None:
    body = json.dumps(GOOD | {"deterministic": True, "seed": 0, "rate": 100.0} | changes).encode()
    status, answer = client.post(name, body)
    assert status == 400 and says in answer["error"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(
    name=st.sampled_from(["map", "plan", "field", "task"]),
    question=st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(("start", "goal", "place", "blocks", "axes", "towards", "task", "seed"), json_values)
        | {"agent": st.sampled_from([MAZE, FLYING, "nobody"])},
    ),
)
def test_any_json_gets_an_answer(client: Client, name: str, question: dict[str, Any]) -> None:
    status, answer = client.post(name, json.dumps(question).encode())
    assert status in (200, 400) and isinstance(answer, dict)


def test_only_the_pages_own_files_are_served(client: Client) -> None:
    for path, kind in (("/", "text/html"), ("/page.js", "text/javascript"), ("/explore.css", "text/css")):
        status, body, headers = client.send("GET", path)
        assert status == 200 and body and headers.get_content_type() == kind
        assert "default-src 'none'" in headers["Content-Security-Policy"]
    elsewhere = (
        "/../server.py", "/page/../../server.py", "/..%2fserver.py", "/%2e%2e/server.py", "//etc/passwd", "/etc/passwd",
        "/....//server.py", "/..\\server.py", "/index.html/../../agent.py", "/page.js%00.html", "http://localhost/server.py",
        "/api/plan", "/static/", "/.", "/zoo/agents/proq/", "/favicon.ico",
    )  # fmt: skip
    assert {path: client.send("GET", path)[0] for path in elsewhere} == dict.fromkeys(elsewhere, 404)


def test_strangers_are_refused(client: Client) -> None:
    body = json.dumps(GOOD).encode()
    post = {"content_type": "application/json"}
    assert client.send("POST", "/api/plan", body, **post, host="localhost:1234")[0] == 200
    assert client.send("POST", "/api/plan", body, **post, host="evil.example")[0] == 403
    assert client.send("GET", "/", host="evil.example:8017")[0] == 403
    assert client.send("POST", "/api/plan", body, content_type="text/plain")[0] == 415
    assert client.send("POST", "/api/plan", b" " * (MAX_BODY + 1), **post)[0] == 413
    for length in ("99999999999999", "-1", "x", "²"):
        assert client.send("POST", "/api/plan", b"", **post, content_length=length.encode().decode("latin-1"))[0] == 413
    assert client.send("POST", "/api/__init__", body, **post)[0] == 404
    assert client.send("POST", "/api/offers", body, **post)[0] == 404
    assert client.send("DELETE", "/", b"")[0] == 501


def test_it_listens_on_this_machine_alone_unless_told_otherwise(client: Client) -> None:
    assert build_parser().parse_args([]).host == "127.0.0.1"
    assert client.server.server_address[0] == "127.0.0.1"


def test_answers_do_not_wait_for_threads_unless_told_to() -> None:
    assert build_parser().parse_args([]).num_threads == 1
    assert build_parser().parse_args(["--num-threads", "2"]).num_threads == 2


def test_mistakes_on_the_command_line_get_one_line(
    client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    GCBC(dataset=GoalDataset(**tiny_arrays()), device="cpu").save("gcbc.zip")
    taken = ["--env", MAZE, "--device", "cpu", "--no-browser", "--port", str(client.server.server_port)]
    for command, says in (
        (taken, "try --port 0"),
        (["--port", "99999"], "--port must lie within"),
        (["--agent", "nothing.zip"], "nothing.zip"),
        (["--algo", "gcbc", "--agent", "gcbc.zip"], "learns no map"),
        (["--env", "proq/SpiralMaze-v0"], "there is no trained agent"),
    ):
        assert main(command) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and says in error
