"""
Plans and acts as an exported ProQ agent does, with NumPy and ONNX Runtime alone: a reference to port from.

``python runtime.py`` replays the examples of the agent.json beside it. In a program::

    agent = Runtime("folder")
    action, state = agent.predict(observation, state)  # a dict as the environment's; state is None at first
    handle = agent.block([8.0, 0.0], [12.0, 4.0])  # a box in goal space, until agent.unblock(handle)

There are K nodes: keypoints, then entrances and exits of chance. Node K is the goal. Distances and costs are steps.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoo.portable.chance import Chance, Routes, numbers
from zoo.portable.closures import Closures
from zoo.portable.networks import Networks

COST_OF_A_MISS = 1e6  # at least: odds come first, length second
MIN_PROGRESS = 1.0  # steps; less is noise
MAX_SNAGS = 64  # places that an agent remembers


class Goal(NamedTuple):
    """All that an agent may head for: K nodes and, last, its goal."""

    points: np.ndarray
    embeddings: np.ndarray
    onward: np.ndarray  #: see :class:`~zoo.portable.closures.Snags`
    towards: np.ndarray
    routes: Routes


class Runtime:
    """
    One exported agent.

    :param folder: of agent.json and the networks
    """

    def __init__(self, folder: str | Path) -> None:
        self.data = data = json.loads((Path(folder) / "agent.json").read_text(encoding="utf-8"))
        names = "max_hop", "reach", "caution", "patience", "bridge_gaps"
        self.max_hop, self.reach, self.caution, self.patience, self.bridge_gaps = (data["planning"][k] for k in names)
        self.points, self.distances = (numbers(data["graph"][name]) for name in ("points", "distances"))
        self.size, self.barred = len(self.points), np.array(data["graph"]["barred"])
        self.networks = Networks(Path(folder), data["quasimetric"])
        self.chance = Chance(data["chance"], self.points, self.distances, self.max_hop)
        self.closures = Closures(self.networks, self.points, self.distances, self.reach)
        for low, high in data["blocked_boxes"]:
            self.closures.block(low, high)
        self.version = 0  #: grows with every box that is closed or opened
        self.snags: tuple[Any, ...] = ()  #: where the agent was stuck that asked last
        self._handles: list[int] = []  # of these
        self._build_graph()

    def predict(self, observation: dict[str, Any], state: Any = None) -> tuple[np.ndarray, Any]:
        """The action, and the state for the next call; without ``patience`` only the observation matters."""
        node, state = self.decide(observation, state)
        return self.act(observation, node), state

    def plan(self, here: np.ndarray, goal: np.ndarray) -> list[int]:
        """Nodes to visit. It ends at the goal, or where chance decides."""
        nodes, successors = [self.next_hop(here, goal)[0]], self.known(goal).routes.successors
        while nodes[-1] < self.size and successors[nodes[-1]] >= 0:
            nodes.append(int(successors[nodes[-1]]))
        return nodes

    def block(self, low: Any, high: Any) -> int:
        """Close a box in goal space; see also :meth:`unblock`."""
        handle = self.closures.block(low, high)
        self._changed()
        return handle

    def unblock(self, handle: int) -> None:
        """Open it again."""
        self.closures.lift(handle)
        self._changed()

    # ------------------------------------------------------------------------------------------------------ the graph

    def _changed(self) -> None:
        self.version += 1
        self._build_graph()

    def _avoid(self, snags: tuple[Any, ...]) -> None:
        """Plan for an agent that was stuck at these places, and at no other."""
        if snags is not self.snags and (snags or self.snags):
            for handle in self._handles:
                self.closures.lift(handle)
            self._handles = [self.closures.avoid(*snag) for snag in snags]
            self._build_graph()
        self.snags = snags

    def _build_graph(self) -> None:
        """The shortest ways between nodes, with what is closed now."""
        self.goal: Goal | None = None
        self.blocked = self.barred | self.closures.nodes
        self.longest_way = self.max_hop * (1.0 + self.caution) * (np.count_nonzero(~self.blocked) + 1)
        self.miss = max(COST_OF_A_MISS, 100.0 * self.longest_way)
        weights = self.hop_costs(self.distances) + self.closures.surcharges
        weights[self.blocked] = weights[:, self.blocked] = np.inf
        np.fill_diagonal(weights, np.inf)
        trusted = (self.distances <= self.max_hop) & np.isfinite(weights)
        # Ties go to fewer hops. Where gaps are bridged, hops cost what they risk, too.
        self.weights, self.wary = (
            costs + 1e-9 * costs.max(initial=1.0, where=trusted)
            for costs in (weights, weights + self.miss * (1.0 - self.chance.survival))
        )
        self.costs = self.wary.copy()
        np.fill_diagonal(self.costs, 0.0)
        for k in range(self.size):  # Floyd-Warshall
            np.minimum(self.costs, self.costs[:, k, None] + self.costs[k], out=self.costs)

    @np.errstate(invalid="ignore")
    def hop_costs(self, lengths: np.ndarray) -> np.ndarray:
        """Hops beyond ``max_hop`` bridge gaps, and cost more than any way without them."""
        beyond = self.longest_way * (lengths / self.max_hop) ** 2 if self.bridge_gaps else np.inf
        return np.where(lengths <= self.max_hop, lengths * (1.0 + self.caution / self.max_hop * lengths), beyond)

    def known(self, goal: np.ndarray) -> Goal:
        """What is known of a goal; computed when it is new, or something else is closed."""
        if self.goal is None or (self.goal.points[-1] != goal).any():
            place, closures = self.networks.embed(goal[None]), self.closures
            onward, towards = closures.ahead(place)
            to_goal = self.networks.distances(closures.embeddings, place)[:, 0]
            last_hops = closures.passable(to_goal, self.points, goal, closures.snags.leaving, onward, towards)
            self.goal = Goal(
                np.append(self.points, goal[None], axis=0),
                np.append(closures.embeddings, place, axis=0),
                np.append(closures.snags.onward, onward, axis=1),
                np.append(closures.snags.towards, towards, axis=1),
                self._routes(goal, *last_hops),
            )
        return self.goal

    def _routes(self, goal: np.ndarray, to_goal: np.ndarray, penalties: np.ndarray) -> Routes:
        """Shortest routes to a goal, given the lengths of the last hops and what they cost beyond."""
        risks = self.chance.risks(self.points, goal, to_goal)
        to_goal = np.where(self.blocked | self.chance.is_entrance, np.inf, to_goal)
        plain = self.hop_costs(to_goal) + penalties
        last_hops = plain + self.miss * (1.0 - risks[0])
        # Taken off and added at the end: a long last hop would drown differences.
        offset = last_hops.min() if np.isfinite(last_hops.min()) else 0.0
        costs = (self.costs + (last_hops - offset)).min(axis=1)
        onward = self.wary + costs
        successors, ends = onward.argmin(axis=1), last_hops - offset <= onward.min(axis=1)
        lengths = np.where(ends, to_goal, self.distances[np.arange(self.size), successors])
        successors = np.where(np.isinf(costs), -1, np.where(ends, self.size, successors))
        trusted = np.append((lengths <= self.chance.longest) & (successors >= 0), True)
        for _ in range(self.size):  # all the way to the goal
            trusted[:-1] &= trusted[successors]
        walk = Routes(costs + offset, successors, 1.0 * np.isfinite(costs), trusted[:-1], *np.zeros((2, 0)))
        if not len(self.chance.entrances):
            return walk
        plain = np.where(to_goal <= self.chance.longest, plain, np.inf)
        return self.chance.routes(walk, self.weights, plain, risks, self.blocked, self.miss)

    # -------------------------------------------------------------------------------------------------------- acting

    def next_hop(self, here: np.ndarray, goal: np.ndarray) -> tuple[int, float, bool]:
        """The node to head for, the cost to go, and whether the goal is within reach."""
        to, place = self.known(goal), self.networks.embed(here[None])
        leaving = self.networks.distances(place, self.closures.snags.places).T
        lengths = self.networks.distances(place, to.embeddings)[0]
        lengths, penalties = self.closures.passable(lengths, here, to.points, leaving, to.onward, to.towards)
        hops = self.hop_costs(lengths) + penalties
        odds, onward = self._after(to.routes, *self.chance.risks(here, to.points, lengths))
        costs = hops + onward
        trusted = np.append(to.routes.trusted, True) & (lengths <= self.chance.longest)
        ranks = costs + self.miss * (1.0 - odds + ~trusted)
        node = int(ranks[:-1].argmin())
        node = self.size if ranks[-1] <= ranks[node] else node
        cost = costs[node]
        if np.isinf(cost):  # walled off: go to the nearest node, and wait
            refuges = np.where(self.blocked | self.chance.is_entrance, np.inf, hops[:-1])
            node = int(refuges.argmin()) if np.isfinite(refuges.min()) else self.size
        fine = penalties < self.max_hop  # who was stuck on a hop goes by way of the node itself
        fine[-1] = penalties[-1] + onward[-1] < self.max_hop
        for _ in range(self.size):  # what is reached is left
            if node < self.size and lengths[node] <= self.reach:
                successor = int(to.routes.successors[node])
                node = successor if successor >= 0 and fine[successor] else node
        return node, cost, lengths[-1] <= self.reach

    def _after(self, routes: Routes, survival: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Odds and costs to go after first hops, ``[K + 1]``, whether these arrive or chance takes one away."""
        odds, costs = survival * np.append(routes.odds, 1.0), np.append(routes.costs, 0.0)
        total = odds + losses @ routes.landing_odds
        landing_costs = np.where(routes.landing_odds > 0, routes.landing_costs, 0.0)
        spent = odds * np.where(odds > 0, costs, 0.0) + losses @ (routes.landing_odds * landing_costs)
        return total, np.where(total > 0, spent / np.where(total > 0, total, 1.0), costs)

    def decide(self, observation: dict[str, Any], state: Any = None) -> tuple[int, Any]:
        """The node to head for. Who gets no closer for ``patience`` steps takes the way for closed."""
        here, goal = _point(observation["achieved_goal"]), _point(observation["desired_goal"])
        old_goal, best, stalled, version, snags = (goal, np.inf, 0, self.version, ()) if state is None else state
        self._avoid(snags)
        node, cost, arrived = self.next_hop(here, goal)
        if self.patience is None:
            return node, state
        anew = (old_goal != goal).any() or version != self.version  # costs now mean something else
        closer = anew or arrived or np.isinf(cost) or cost <= best - MIN_PROGRESS
        best, stalled = (cost, 0) if closer else (best, stalled + 1)
        if stalled >= self.patience:
            penalty = float(np.clip(cost, self.max_hop, self.longest_way))
            best, snags = np.inf, (*snags, (here, self.known(goal).points[node], penalty))[:MAX_SNAGS]
            self._avoid(snags)
            node = self.next_hop(here, goal)[0]
        return node, (goal, best, stalled, self.version, snags)

    def act(self, observation: dict[str, Any], node: int) -> np.ndarray:
        """The action that leads towards a node, or to the goal."""
        target = self.known(_point(observation["desired_goal"])).points[node]
        return self.networks.act({**observation, "desired_goal": target})


def _point(values: Any) -> np.ndarray:
    """As exact as the agent's own."""
    return np.array(values, dtype=np.float32).astype(np.float64)


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
