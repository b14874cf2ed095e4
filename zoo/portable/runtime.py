"""
Plans and acts as an exported ProQ agent does, with NumPy and ONNX Runtime alone: a reference to port from.

``python runtime.py`` replays the examples of the agent.json beside it. In a program::

    agent = Runtime("folder")
    action, state = agent.predict(observation, state)  # a dict as the environment's; state is None at first

There are K nodes: keypoints, then entrances and exits of chance. Node K is the goal. Distances and costs are in steps.
"""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

from zoo.portable.closures import Closures
from zoo.portable.hazards import Hazards
from zoo.portable.portals import Portals


class Places(NamedTuple):
    points: np.ndarray  #: ``[N, goal_dim]``
    embeddings: np.ndarray  #: ``[N, n]``, which distances are computed from


class Routes(NamedTuple):
    costs: np.ndarray  #: ``[K]`` from each node to the goal, in the case of success
    successors: np.ndarray  #: ``[K]`` next nodes, -1 if there is no way
    odds: np.ndarray  #: ``[K]`` of success
    trusted: np.ndarray  #: ``[K]`` bool, by hops that are short enough
    landing_odds: np.ndarray = np.zeros(0)  #: of those whom chance takes away, at each entrance
    landing_costs: np.ndarray = np.zeros(0)


class Runtime:
    """The agent in a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.networks, self.data = load(Path(folder)), json.loads((Path(folder) / "agent.json").read_text("utf-8"))
        self.settings, self.graph, self.chance = (arrays(self.data[name]) for name in ("planning", "graph", "chance"))
        self.nodes, self.size = self.place(self.graph.points), len(self.graph.points)
        self.goal: tuple[Places, Routes] | None = None  # the last one
        self.hazards = Hazards(self, arrays(self.data["hazards"])) if self.data["hazards"]["rates"] else None
        self.portals = Portals(self) if len(self.chance.entrances) and not self.hazards else None
        self.closures = Closures(self)

    def predict(self, observation: dict[str, Any], state: Any = None) -> tuple[np.ndarray, Any]:
        """The action, and the state for the next call."""
        node, state = self.decide(observation, state)
        return self.act(observation, node), state

    def decide(self, observation: dict[str, Any], state: Any = None) -> tuple[int, Any]:
        """The node to head for."""
        here, goal = (self.on_map(observation[name]) for name in ("achieved_goal", "desired_goal"))
        return self.closures.decide(here, goal, state)  # without closures: self.next_hop(here, goal)[0], None

    def act(self, observation: dict[str, Any], node: int) -> np.ndarray:
        """The action that leads towards a node, or to the goal."""
        target = self.nodes.points[node] if node < self.size else self.on_map(observation["desired_goal"])
        return act(self.networks, {**observation, "desired_goal": target})

    def plan(self, here: np.ndarray, goal: np.ndarray) -> list[int]:
        """Nodes to visit. It ends at the goal, or where chance decides."""
        nodes, successors = [self.next_hop(here, goal)[0]], self.routes(goal)[1].successors
        while len(nodes) <= self.size and nodes[-1] < self.size and successors[nodes[-1]] >= 0:
            nodes.append(int(successors[nodes[-1]]))
        return nodes

    def next_hop(self, here: np.ndarray, goal: np.ndarray) -> tuple[int, float, bool]:
        """The node to head for, the cost to go, and whether the goal is within reach."""
        start, (end, routes) = self.place(here[None]), self.routes(goal)
        lengths, tolls = np.append(self.closures.hops(start, self.nodes), self.closures.hops(start, end), axis=-1)[:, 0]
        odds, onward = np.append(routes.odds, 1.0), np.append(routes.costs, 0.0)
        if self.hazards:
            odds, onward = self.hazards.on_the_way(here, goal, lengths, routes)
            tolls[-1], onward[-1] = tolls[-1] + onward[-1], 0.0
        hops = self.hop_costs(lengths) + tolls
        costs, trusted = hops + onward, np.append(routes.trusted, True) & (lengths <= self.graph.trusted_hop)
        ranks = costs + self.graph.miss * (1.0 - odds + ~trusted)  # odds come first, cost second
        node = self.size if ranks[-1] <= ranks[:-1].min() else int(ranks.argmin())
        cost, refuges = costs[node], np.where(self.graph.open, hops[:-1], np.inf)
        if np.isinf(cost):  # walled off: go to the nearest node, and wait
            node = int(refuges.argmin()) if np.isfinite(refuges.min()) else self.size
        for _ in range(self.size):  # what is reached is left, unless one was stuck on the way to what follows
            successor = routes.successors[node] if node < self.size and lengths[node] <= self.settings.reach else -1
            node = int(successor) if successor >= 0 and tolls[successor] < self.settings.max_hop else node
        return node, cost, lengths[-1] <= self.settings.reach

    def routes(self, goal: np.ndarray) -> tuple[Places, Routes]:
        """The goal's place, and the best ways there; computed when it is new, or something else is closed."""
        if self.goal is None or (self.goal[0].points != goal).any():
            end = self.place(goal[None])
            lengths, tolls = self.closures.hops(self.nodes, end)[..., 0]
            last = np.where(self.graph.open, self.hop_costs(lengths) + tolls, np.inf)
            chance = self.hazards or self.portals
            self.goal = end, chance.routes(end, lengths, last) if chance else self.walk(self.graph, lengths, last)
        return self.goal

    def walk(self, ways: Any, lengths: np.ndarray, last: np.ndarray) -> Routes:
        """By ways between nodes, and hops from there to the goal, ``[K]`` lengths and costs."""
        offset, rows = last.min() if np.isfinite(last.min()) else 0.0, np.arange(self.size)
        costs = ways.costs + (last - offset)  # far longer last hops would drown differences
        ends = costs.argmin(axis=1)
        costs, possible = costs[rows, ends] + offset, np.isfinite(costs[rows, ends])
        successors = np.where(possible, np.where(ends == rows, self.size, ways.onward[rows, ends]), -1)
        trusted = ways.trusted[rows, ends] & (lengths[ends] <= self.graph.trusted_hop) & possible
        return Routes(costs, successors, possible.astype(float), trusted)

    @np.errstate(invalid="ignore")
    def hop_costs(self, lengths: np.ndarray) -> np.ndarray:
        """Hops beyond ``max_hop`` bridge gaps, and cost more than any way without them."""
        max_hop, caution = self.settings.max_hop, self.settings.caution
        bridges = self.graph.longest_way * (lengths / max_hop) ** 2 if self.settings.bridge_gaps else np.inf
        return np.where(lengths <= max_hop, lengths * (1.0 + caution / max_hop * lengths), bridges)

    def on_map(self, goal: Any) -> np.ndarray:
        """Those coordinates of a goal that the map is of; no more exact than the agent's own."""
        return np.array(goal, np.float32)[self.data["coordinates"]].astype(float)

    def distances(self, starts: Places, ends: Places) -> np.ndarray:
        """``[A, B]`` steps from each of A places to each of B."""
        return self.run("distance", starts=starts.embeddings, ends=ends.embeddings).astype(float)

    def place(self, points: np.ndarray) -> Places:
        """Where points ``[N, goal_dim]`` are on the map."""
        return Places(points, self.run("embedder", location=self.run("encoder", goal=points)))

    def run(self, network: str, **inputs: np.ndarray) -> Any:
        """What a network makes of a batch of inputs."""
        return self.networks[network].run(None, {name: np.float32(array) for name, array in inputs.items()})[0]


def load(folder: Path) -> dict[str, Any]:
    """The networks of an agent."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # they are too small for more
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC  # more is less exact
    return {path.stem: onnxruntime.InferenceSession(str(path), options) for path in folder.glob("*.onnx")}


def act(networks: dict[str, Any], observation: dict[str, Any]) -> np.ndarray:
    """The action that leads straight to ``desired_goal``. Some actors need not be told ``achieved_goal``."""
    inputs = {each.name: np.array([observation[each.name]], np.float32) for each in networks["actor"].get_inputs()}
    return np.array(networks["actor"].run(None, inputs)[0][0])


def arrays(part: dict[str, Any]) -> SimpleNamespace:
    """From JSON, which has no infinity: null stands for it."""
    found = {name: np.array(values) for name, values in part.items()}
    for name, array in found.items():
        found[name] = np.nan_to_num(array.astype(float), nan=np.inf, posinf=np.inf) if array.dtype == object else array
    return SimpleNamespace(**found)


def main() -> None:
    """Replay the examples."""
    agent = Runtime(Path(__file__).parent)
    examples, others, error, begin = agent.data["examples"], 0, 0.0, time.perf_counter()
    for example in examples:
        node, _ = agent.decide(example)
        others += node != example["target"]
        error = max(error, np.abs(agent.act(example, node) - example["action"]).max())
    milliseconds = 1e3 * (time.perf_counter() - begin) / len(examples)
    print(f"{len(examples)} examples: {others} other targets, actions within {error:.1e}, {milliseconds:.2f} ms each")


if __name__ == "__main__":
    main()
