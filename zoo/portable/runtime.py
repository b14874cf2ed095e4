"""
Plans and acts as an exported ProQ agent does, with NumPy and ONNX Runtime alone: a reference to port from.

``python runtime.py`` replays the examples of the agent.json beside it. In a program::

    agent = Runtime("folder")
    agent.block([(low, high)])  # boxes that are closed from now on, instead of those that were
    action, state = agent.predict(observation, state)  # a dict as the environment's; state is None at first

There are K nodes: keypoints, then E entrances and the exits of chance. Node K is the goal. Costs are in steps.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

from zoo.portable.networks import Networks, Places, arrays
from zoo.portable.obstacles import Box, Obstacle, risks
from zoo.portable.ways import Hops, Routes, Ways

MIN_PROGRESS, MAX_SNAGS = 1.0, 64  # steps, fewer are noise; and places that an agent remembers to have been stuck at


class Runtime(Networks):
    """The agent in a folder."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__(folder)
        self.settings, self.graph, self.chance = (arrays(self.data[name]) for name in ("planning", "graph", "chance"))
        self.hazards, self.entrances = [*map(arrays, self.data["hazards"])], self.chance.entrances.astype(int)
        self.nodes, self.size = self.place(self.graph.points), len(self.graph.points)
        self.outcomes = self.chance.outcomes.reshape(-1, self.size)
        self.block(self.data["blocked_boxes"])

    def predict(self, observation: dict[str, Any], state: Any = None) -> tuple[np.ndarray, Any]:
        """The action, and the state for the next call."""
        node, state = self.decide(observation, state)
        return self.act(observation, node), state

    def act(self, observation: dict[str, Any], node: int) -> np.ndarray:
        """The action that leads straight to a node, or to the goal."""
        target = self.nodes.points[node] if node < self.size else self.on_map(observation["desired_goal"])
        return self.head({**observation, "desired_goal": target})

    def decide(self, observation: dict[str, Any], state: Any = None) -> tuple[int, Any]:
        """The node to head for. Who gets no closer for ``patience`` steps takes the way for closed, and another one."""
        here, goal = (self.on_map(observation[name]) for name in ("achieved_goal", "desired_goal"))
        before, best, stalled, boxes, snags = state or (goal, np.inf, 0, self.boxes, ())
        node, cost, arrived = self.next_hop(here, goal, snags)
        anew = boxes is not self.boxes or (before != goal).any()  # costs mean something else now
        closer = anew or arrived or np.isinf(cost) or cost <= best - MIN_PROGRESS
        best, stalled = (cost, 0) if closer else (best, stalled + 1)
        if stalled >= self.settings.patience:
            target = self.nodes.points[node] if node < self.size else goal
            toll = np.clip(cost, self.settings.max_hop, self.longest_way)
            best, snags = np.inf, (*snags, Obstacle(self, here[None], target[None], toll))[:MAX_SNAGS]
            node = self.next_hop(here, goal, snags)[0]
        return node, (goal, best, stalled, self.boxes, snags)

    def plan(self, here: np.ndarray, goal: np.ndarray) -> list[int]:
        """Nodes to visit. It ends at the goal, or where chance decides."""
        nodes, successors = [self.next_hop(here, goal)[0]], self.routes(goal)[1].successors
        while len(nodes) <= self.size and nodes[-1] < self.size and successors[nodes[-1]] >= 0:
            nodes.append(int(successors[nodes[-1]]))
        return nodes

    def block(self, boxes: Any) -> None:
        """Close boxes, and no others: nodes in them, and hops that lead through, straight or, as d tells, bent."""
        self.boxes = [Box(self, *box) for box in boxes]
        self.update(())

    def update(self, snags: tuple[Obstacle, ...]) -> None:
        """For one who was stuck at some places: the ways between nodes, with all that is closed now."""
        settings, graph, self.snags = self.settings, self.graph, snags
        self.goal: Any = None  # the last one, and the ways there
        barred = np.logical_or(graph.barred, settings.direct and not snags)  # straight to the goal, until that fails
        closed = np.any([barred, *(box.holds(self.nodes.points) for box in self.boxes)], axis=0)
        self.longest_way = settings.max_hop * (1.0 + settings.caution) * (np.count_nonzero(~closed) + 1)
        self.miss = max(1e6, 100.0 * self.longest_way)  # what a goal that is missed costs
        self.ways = Ways(self, self.hops(self.nodes, self.nodes, graph.distances), closed)

    def next_hop(self, here: np.ndarray, goal: np.ndarray, snags: tuple[Obstacle, ...] = ()) -> tuple[int, float, bool]:
        """The node to head for, the cost to go, and whether the goal is within reach."""
        if snags is not self.snags:
            self.update(snags)
        start, (end, routes, trusted, landings) = self.place(here[None]), self.routes(goal)
        hops = self.hops(start, self.nodes).join(self.hops(start, end))
        lengths, tolls, costs, arrive, struck = (part[0] for part in hops)
        odds = arrive * np.append(routes.odds, 1.0) + struck @ landings[0]
        spent = arrive * np.append(routes.spent, 0.0) + struck @ landings[1]
        onward = np.divide(spent, odds, out=np.full(len(odds), np.inf), where=odds > 0)
        surely = np.append(trusted, True) & (lengths <= self.graph.trusted_hop)
        ranks = costs + onward + self.miss * (1.0 - odds + ~surely)  # odds come first, cost second
        node = self.first(ranks)
        cost = costs[node] + onward[node]
        if np.isinf(cost):  # walled off: go to the nearest node, and wait
            refuges = np.where(self.ways.open, costs[:-1], np.inf)
            node = int(refuges.argmin()) if np.isfinite(refuges.min()) else self.size
        tolls[-1] += onward[-1]  # what chance does to the last hop
        for _ in range(self.size):  # what is reached is left, unless one was stuck on the way to what follows
            then = int(routes.successors[node]) if node < self.size and lengths[node] <= self.settings.reach else -1
            if then < 0 or tolls[then] >= self.settings.max_hop:
                break
            node = then
        else:  # in a circle until chance strikes, which need not strike who stands still
            node = self.first(np.where(np.append(lengths[:-1] <= self.settings.reach, False), np.inf, ranks))
        return node, cost, lengths[-1] <= self.settings.reach

    def first(self, ranks: np.ndarray) -> int:
        """The node of the lowest rank, the goal if it is as low."""
        return self.size if ranks[-1] <= ranks[:-1].min() else int(ranks.argmin())

    def routes(self, goal: np.ndarray) -> tuple[Places, Routes, np.ndarray, np.ndarray]:
        """The goal's place, and the best ways there, see ``Ways.to``; computed when it is new."""
        if self.goal is None or (self.goal[0].points != goal).any():
            end = self.place(goal[None])
            self.goal = end, *self.ways.to(self.hops(self.nodes, end))
        return self.goal

    @np.errstate(invalid="ignore")
    def hops(self, starts: Places, ends: Places, lengths: Any = None) -> Hops:
        """What hops are like. Those beyond ``max_hop`` bridge gaps, and cost more than any way without them."""
        max_hop, lengths = self.settings.max_hop, self.distances(starts, ends) if lengths is None else lengths
        tolls = sum((each.tolls(starts, ends, lengths) for each in (*self.boxes, *self.snags)), np.zeros(lengths.shape))
        lengths, tolls = np.where(np.isinf(tolls), [[[np.inf]], [[0.0]]], [lengths, tolls])
        bridges = self.longest_way * (lengths / max_hop) ** 2 if self.settings.bridge_gaps else np.inf
        costs = np.where(lengths <= max_hop, lengths * (1.0 + self.settings.caution / max_hop * lengths), bridges)
        chances = risks(self.hazards, starts.points, ends.points, lengths, len(self.entrances))
        return Hops(lengths, tolls, costs + tolls, *chances)


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
