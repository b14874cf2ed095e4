"""The command that writes an agent for other engines."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from tiny_goal import tiny_arrays, tiny_model

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from proq_agent import GoalDataset
from zoo.export import main
from zoo.exporting.folder import export_agent
from zoo.exporting.parity import compare
from zoo.registry import ALGOS, algorithm


@pytest.fixture
def agent_file(workplace):
    tiny_model(planning={"caution": 1.0}).save("agent.zip")
    return "agent.zip"


def test_it_says_how_exact_and_how_fast_the_export_is(agent_file, capsys):
    assert main(["--agent", agent_file, "--out", "out", "--block", "0.4", "0.4", "0.6", "0.6"]) == 0
    wrote, parity, *table = capsys.readouterr().out.splitlines()
    assert "agent.json" in wrote and "runtime.py" in wrote
    assert parity.startswith("over 1,000 random states and goals it heads for another target 0 times")
    rows = [line.split() for line in table if "ms" in line]
    assert [row[:-4] for row in rows] == [["goal", "that", "stays"], ["new", "goal"]]


def test_the_json_holds_what_the_planner_knows(workplace):
    agent = tiny_model(planning={"max_hop": 3.0})
    export_agent(agent, "out", [([0.4, 0.4], [0.6, np.inf])])
    data = json.loads((workplace / "out" / "agent.json").read_text())
    graph, scaler = data["graph"], agent.policy.goal_scaler
    np.testing.assert_array_equal(graph["points"], agent.planner.points)
    for name in ("distances", "costs"):
        found = np.array(graph[name], dtype=float)
        np.testing.assert_array_equal(np.where(np.isnan(found), np.inf, found), getattr(agent.planner, name))
    assert data["normalisation"]["desired_goal"] == {"mean": scaler.mean.tolist(), "std": scaler.std.tolist()}
    assert data["planning"]["max_hop"] == 3.0 and data["action"]["low"] == agent.action_space.low.tolist()
    assert data["blocked_boxes"][0][0] == [0.4, 0.4] and len(data["examples"]) == 100


@pytest.mark.parametrize("algo", [name for name in ALGOS if name != "proq"])
def test_what_does_not_plan_is_an_actor_alone(algo, tmp_path):
    options = {"policy_kwargs": {"hidden_sizes": [8], "standardise": True}, "seed": 0, "device": "cpu"}
    agent = algorithm(algo)(dataset=GoalDataset(**tiny_arrays()), **options)
    export_agent(agent, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"actor.onnx", "agent.json"}
    assert compare(agent, tmp_path, n=50).error < 1e-5
    with pytest.raises(ValueError, match="no map"):
        export_agent(agent, tmp_path, [([0.0, 0.0], [1.0, 1.0])])


def test_what_is_blocked_already_is_not_lost_without_a_word(tmp_path):
    agent = tiny_model()
    agent.planner.block(nodes=[0])
    with pytest.raises(ValueError, match="partly closed"):
        export_agent(agent, tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--block", "1", "2", "3"], "two corners"),
        (["--block", "0", "0", "0", "1", "1", "1"], "2 coordinates"),
        (["--block", "nan", "0", "1", "1"], "box must be"),
        (["--algo", "hiql"], "agent.zip"),
        (["--out", "agent.zip"], "agent.zip"),
    ],
)
def test_bad_input_is_one_clear_line(agent_file, capsys, options, words):
    assert main(["--agent", agent_file, "--out", "out", *options]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and words in error


def test_without_onnx_runtime_the_remedy_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    for name in [name for name in sys.modules if name.startswith(("zoo.portable.", "zoo.exporting."))]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["--env", "pointmaze-giant-stitch-v0", "--out", str(tmp_path / "out")]) == 1
    assert "pip install onnx onnxruntime" in capsys.readouterr().err
