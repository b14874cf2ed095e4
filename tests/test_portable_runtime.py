"""What an exported agent does without PyTorch is what the agent does: with portals, boxes, hazards and patience."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from proq_agent import GoalDataset, ProQ
from proq_agent.chance.edges import ChanceEdge
from proq_agent.planning.hops import Routes
from zoo.exporting.folder import export_agent, random_observations
from zoo.exporting.parity import compare
from zoo.portable.runtime import Runtime

AGENTS = Path(__file__).parents[1] / "zoo" / "agents" / "proq"
SAME = {"other_targets": 0, "error": pytest.approx(0.0, abs=1e-5)}


def shipped(name: str) -> ProQ:
    return ProQ.load(AGENTS / f"pointmaze-{name}-v0.zip", device="cpu")


def observations(agent: ProQ, n: int) -> list[dict[str, np.ndarray]]:
    batch = random_observations(agent, n, seed=3)
    return [{key: array[row] for key, array in batch.items()} for row in range(n)]


def agree(agent: ProQ, runtime: Runtime, seen: list[dict[str, np.ndarray]]) -> list[int]:
    """The targets of both, which must be the same ones, for the same reasons."""
    targets = []
    for observation in seen:
        decision, _ = agent.navigator.decide(observation["achieved_goal"][None], observation["desired_goal"][None])
        here, goal = (observation[key].astype(float) for key in ("achieved_goal", "desired_goal"))
        node, cost, arrived = runtime.next_hop(here, goal)
        assert (node, arrived) == (decision.hops.target[0], decision.hops.arrived[0])
        np.testing.assert_allclose(cost, decision.hops.cost[0], rtol=1e-4)
        _, routes, trusted, landings = runtime.routes(goal)
        theirs = Routes(*(part[0] for part in decision.goals.routes))
        for ours, known in ((routes.odds, theirs.odds), (landings[0], theirs.landing_odds), (trusted, theirs.trusted)):
            np.testing.assert_allclose(ours, known, rtol=1e-4)
        np.testing.assert_array_equal(routes.successors, theirs.successors)
        spent = theirs.odds * np.where(theirs.odds > 0, theirs.costs, 0.0)
        np.testing.assert_allclose(routes.spent, spent, rtol=1e-4)
        action, _ = agent.predict(observation, deterministic=True)
        np.testing.assert_allclose(runtime.act(observation, node), action, atol=1e-5)
        targets.append(node)
    return targets


@pytest.mark.parametrize("name", ["giant-stitch", "large-navigate", "teleport-navigate", "teleport-stitch"])
def test_targets_and_plans_are_equal_and_actions_agree(name, tmp_path):
    agent = shipped(name)
    export_agent(agent, tmp_path)
    assert compare(agent, tmp_path, n=250)._asdict() == {"n": 250, **SAME}
    runtime, lengths = Runtime(tmp_path), []
    for observation in observations(agent, 6):
        here, goal = observation["achieved_goal"], observation["desired_goal"]
        nodes = runtime.plan(here.astype(float), goal.astype(float))
        assert nodes == agent.plan(here, goal).nodes
        lengths.append(len(nodes))
    assert max(lengths) > 3


def test_the_page_says_how_many_lines_there_are_to_port():
    folder, page = Path(__file__).parents[1] / "zoo", Path("docs", "pages", "export.md")
    rows = [line for line in (folder / page).read_text().splitlines() if line.startswith("|") and ".py`" in line]
    for source in (folder / "portable").glob("[!_]*.py"):
        lines = source.read_text().splitlines()
        (row,) = [row for row in rows if row.split("|")[2].startswith(f" `{source.name}`")]
        assert row.split("|")[3].strip() == str(len(lines)) and len(lines) <= 150, source.name


def test_boxes_are_blocked_from_the_beginning_or_later_and_opened_again(tmp_path):
    agent, seen = shipped("teleport-navigate"), observations(shipped("teleport-navigate"), 10)
    opened = [agent.navigator.decide(o["achieved_goal"][None], o["desired_goal"][None])[0].hops.target[0] for o in seen]
    middle = np.median(agent.planner.points, axis=0)
    export_agent(agent, tmp_path, [(middle - 4.0, middle + np.array([4.0, np.inf]))])
    runtime = Runtime(tmp_path)
    closed = agree(agent, runtime, seen)
    more = [(middle - [8.0, 20.0], middle - [7.9, -20.0]), ([90, 90], [99, 99])]
    handles = [agent.planner.block(box=box) for box in more]
    runtime.block([*runtime.data["blocked_boxes"], *more])
    assert opened != closed != agree(agent, runtime, seen)
    for handle in handles:
        agent.planner.unblock(handle)
    runtime.block(runtime.data["blocked_boxes"])
    assert agree(agent, runtime, seen) == closed


def goes(seen: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return seen["achieved_goal"][None], seen["desired_goal"][None]


@pytest.mark.parametrize("direct", [False, True])
def test_who_gets_no_closer_looks_for_another_way(direct, tmp_path):
    agent = shipped("giant-navigate")
    agent.set_planning(patience=3, direct=direct)
    export_agent(agent, tmp_path)
    runtime = Runtime(tmp_path)
    start, goal = (agent.planner.points[node].astype(np.float32) for node in (0, 50))
    targets, ours, theirs = [], None, None
    first = {"observation": start, "achieved_goal": start, "desired_goal": goal}
    for step in range(40):
        # First it moves, then something holds it.
        here = start + np.float32(0.1 * min(step, 3))
        seen = {"observation": here, "achieved_goal": here, "desired_goal": goal if step < 30 else start - 1}
        action, ours = agent.predict(seen, ours, deterministic=True)
        found, theirs = runtime.predict(seen, theirs)
        np.testing.assert_allclose(found, action, atol=1e-5)
        targets.append(runtime.decide(seen, theirs)[0])
        assert targets[-1] == agent.navigator.decide(*goes(seen), ours)[0].hops.target[0]
    assert len(theirs[-1]) > 3 and targets[0] != targets[29]
    # Another agent knows nothing of it, nor does this one when it begins anew.
    assert runtime.decide(first)[0] == targets[0] == agent.navigator.decide(*goes(first))[0].hops.target[0]


def hazard(entrance: Any, **changes: Any) -> ChanceEdge:
    exits = np.array([[4.0, 4.0], [20.0, 12.0]])
    options: dict[str, Any] = {"radius": 3.0, "exits": exits, "probabilities": np.array([0.4, 0.6]), "count": 9}
    return ChanceEdge(np.array(entrance), **options | {"rate": 0.05} | changes)


@pytest.mark.parametrize("rates", [(0.05, 0.1), (0.05, 1.0)], ids=["hazards", "a hazard and a portal"])
def test_regions_where_chance_strikes_now_and_then(rates, tmp_path):
    agent = shipped("giant-navigate")
    plain = [agent.navigator.decide(o["achieved_goal"][None], o["desired_goal"][None]) for o in observations(agent, 6)]
    middle = np.median(agent.planner.points, axis=0)
    slanted = {"axes": np.array([[0.2, 0.1], [-0.1, 0.2]]), "step": np.array([0.2, 0.2]), "pace": 0.7}
    agent.chance_edges = (hazard(middle, rate=rates[0], **slanted), hazard(middle + 8.0, rate=rates[1]))
    agent.set_planning()  # plan anew
    export_agent(agent, tmp_path)
    runtime = Runtime(tmp_path)
    targets = agree(agent, runtime, observations(agent, 6))
    assert np.mean(np.array(targets) != [decision.hops.target[0] for decision, _ in plain]) > 0.05
    runtime.block([(middle - 1.0, middle + 1.0)])  # nobody may wait in there, either
    agent.planner.block(box=(middle - 1.0, middle + 1.0))
    agree(agent, runtime, observations(agent, 5))


def test_who_waits_for_chance_goes_round_in_circles(tmp_path):
    """Where chance leads near the goal from anywhere, soon, no way is as short."""
    agent = shipped("giant-navigate")
    seen = observations(agent, 40)
    goal = seen[0]["desired_goal"]
    sure = {"exits": goal[None] + 0.5, "probabilities": np.ones(1)}
    agent.chance_edges = (hazard([26.0, 18.0], radius=90.0, rate=0.1, **sure),)
    agent.set_planning(reach=30.0)
    export_agent(agent, tmp_path)
    runtime = Runtime(tmp_path)
    far = [observation | {"desired_goal": goal} for observation in seen]
    targets = agree(agent, runtime, far)
    lengths = [runtime.distances(runtime.place(o["achieved_goal"][None].astype(float)), runtime.nodes)[0] for o in far]
    circling = [node for node, d in zip(targets, lengths, strict=True) if node < len(d) and d.min() <= 30.0 < d[node]]
    assert len(circling) > 5


@pytest.mark.parametrize(
    ("policy", "planning"),
    [
        ({"symmetric": True, "guided_actor": False}, {"bridge_gaps": False, "max_hop": 2.0}),
        ({"standardise": False, "n_fourier_features": 0}, {"bar_strays": False}),
        ({"classifier_scale": 4.0, "directed_actor": True, "clipped_actions": True}, {"reach": 0.0}),
    ],
    ids=["symmetric", "plain", "sharp"],
)
def test_whatever_the_agent_is_made_of(tiny, policy, planning, tmp_path):
    # With caution no two ways are equally long but for rounding, which either side does as it likes.
    agent = tiny(policy_kwargs=policy, planning=planning | {"caution": 1.0}).learn(20, log_interval=None)
    export_agent(agent, tmp_path)
    assert compare(agent, tmp_path, n=100)._asdict() == {"n": 100, **SAME}
    runtime = Runtime(tmp_path)
    middle = np.median(agent.planner.points, axis=0)
    agent.planner.block(box=(middle - 0.5, middle + 0.5))
    runtime.block([(middle - 0.5, middle + 0.5)])
    agree(agent, runtime, observations(agent, 5))


def test_a_map_of_places_needs_only_some_coordinates_of_goals(tiny, walks, tmp_path):
    poses = np.random.default_rng(0).normal(size=(len(walks.observations), 1))
    states = np.hstack([walks.observations[:, 1:], poses, walks.observations[:, :1]])
    whole = GoalDataset(states, walks.actions.numpy(), np.arange(len(states)) % 30 == 29)
    agent = tiny(dataset=whole, map_of=[2, 0], planning={"caution": 1.0}).learn(20, log_interval=None)
    export_agent(agent, tmp_path)
    assert compare(agent, tmp_path, n=100)._asdict() == {"n": 100, **SAME}
    runtime = Runtime(tmp_path)
    assert runtime.data["coordinates"] == [2, 0] and runtime.nodes.points.shape[1] == 2
    example = runtime.data["examples"][0]
    elsewhere = example | {"desired_goal": [*example["desired_goal"][:1], 99.0, example["desired_goal"][2]]}
    np.testing.assert_array_equal(runtime.predict(elsewhere)[0], runtime.predict(example)[0])


def test_it_needs_numpy_and_onnx_runtime_alone(tiny, tmp_path):
    export_agent(tiny(), tmp_path)
    code = "import runtime, sys; runtime.main(); print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path, env={}
    )
    assert done.returncode == 0, done.stderr
    said, loaded = done.stdout.splitlines()
    assert said.startswith("100 examples: 0 other targets, actions within ") and "onnxruntime" in loaded.split()
    assert not set(loaded.split()) & {"torch", "scipy", "gymnasium", "stable_baselines3", "proq_agent", "zoo"}
