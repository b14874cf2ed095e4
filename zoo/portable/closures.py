"""What is closed on the map of an exported agent: boxes in goal space, and places where it was stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from zoo.portable.runtime import Places, Runtime

N_SAMPLES, MAX_PLACES = 1024, 64  # points looked at in a box, and of these that are kept
MIN_PROGRESS, MAX_SNAGS = 1.0, 64  # steps, fewer are noise; and places that an agent remembers


class Ways(NamedTuple):
    """The shortest ways between K nodes, ``[K, K]`` from row to column."""

    costs: np.ndarray
    onward: np.ndarray  #: the nodes that come next
    trusted: np.ndarray  #: bool, whether all their hops are short enough


class Closures:
    """All that is closed now. A port without it takes the graph as agent.json has it."""

    def __init__(self, agent: Runtime) -> None:
        self.agent, self.patience = agent, agent.data["planning"]["patience"]
        self.boxes = {-i: Box(agent, *box) for i, box in enumerate(agent.data["blocked_boxes"])}
        self.snags: tuple[Snag, ...] = ()  #: of the agent that asked last
        self.version = 0  #: grows with every box that is closed or opened
        if agent.hazards:
            self.build_graph()

    def block(self, low: Any, high: Any) -> int:
        """Close a box with the nodes in it, and all hops that lead through it, straight or, as d tells, bent."""
        self.version += 1
        self.boxes[self.version] = Box(self.agent, low, high)
        self.build_graph()
        return self.version

    def unblock(self, handle: int) -> None:
        """Open it again."""
        del self.boxes[handle]
        self.version += 1
        self.build_graph()

    def hops(self, starts: Places, ends: Places, lengths: np.ndarray | None = None) -> np.ndarray:
        """
        ``[2, A, B]`` lengths of hops, infinite where something closed is in the way, and what they cost beyond.

        A port without closures takes the distances, and no costs beyond these.
        """
        lengths = self.agent.distances(starts, ends) if lengths is None else lengths
        tolls = np.zeros(lengths.shape)
        closures: list[Box | Snag] = [*self.boxes.values(), *self.snags]
        for closure in closures:
            tolls += closure.tolls(starts, ends, lengths)
        return np.where(np.isinf(tolls), [[[np.inf]], [[0.0]]], [lengths, tolls])

    def build_graph(self) -> None:
        """The shortest ways between nodes, with what is closed now."""
        agent, graph, max_hop = self.agent, self.agent.graph, self.agent.settings.max_hop
        closed = np.any([graph.barred, *(box.nodes for box in self.boxes.values())], axis=0)
        graph.open = ~closed & ~np.isin(np.arange(agent.size), agent.chance.entrances)
        graph.longest_way = max_hop * (1.0 + agent.settings.caution) * (np.count_nonzero(~closed) + 1)
        graph.miss = max(1e6, 100.0 * graph.longest_way)
        lengths, tolls = self.hops(agent.nodes, agent.nodes, graph.distances)
        weights = agent.hop_costs(lengths) + tolls
        weights[closed] = weights[:, closed] = np.inf
        np.fill_diagonal(weights, np.inf)
        # Ties go to fewer hops.
        weights += 1e-9 * weights.max(initial=1.0, where=(graph.distances <= max_hop) & np.isfinite(weights))
        trusted = graph.distances <= graph.trusted_hop
        if agent.portals:
            agent.portals.update(shortest(np.where(trusted, weights, np.inf), trusted), closed)
        if agent.hazards:  # where gaps are bridged, hops cost what they risk, too
            agent.hazards.update(np.where(trusted, weights, np.inf), closed)
            weights += graph.miss * (1.0 - agent.hazards.survival)
        graph.costs, graph.onward, graph.trusted = shortest(weights, trusted)
        agent.goal = None

    # ------------------------------------------------------------------------------------------------------- patience

    def decide(self, here: np.ndarray, goal: np.ndarray, state: Any = None) -> tuple[int, Any]:
        """The node to head for. Who gets no closer for ``patience`` steps takes the way for closed."""
        if self.patience is None:
            return self.agent.next_hop(here, goal)[0], state
        old_goal, best, stalled, version, snags = state or (goal, np.inf, 0, self.version, ())
        node, cost, arrived = self.next_hop(here, goal, snags)
        anew = (old_goal != goal).any() or version != self.version  # costs now mean something else
        closer = anew or arrived or np.isinf(cost) or cost <= best - MIN_PROGRESS
        best, stalled = (cost, 0) if closer else (best, stalled + 1)
        if stalled >= self.patience:
            target = self.agent.nodes.points[node] if node < self.agent.size else goal
            penalty = float(np.clip(cost, self.agent.settings.max_hop, self.agent.graph.longest_way))
            best, snags = np.inf, (*snags, Snag(self.agent, here, target, penalty))[:MAX_SNAGS]
            node = self.next_hop(here, goal, snags)[0]
        return node, (goal, best, stalled, self.version, snags)

    def next_hop(self, here: np.ndarray, goal: np.ndarray, snags: tuple[Snag, ...]) -> tuple[int, float, bool]:
        """Of an agent that was stuck at these places, and at no other."""
        if snags != self.snags:
            self.snags = snags
            self.build_graph()
        return self.agent.next_hop(here, goal)


class Box:
    """A box in goal space that is closed. Places in it tell which hops bend through it."""

    def __init__(self, agent: Runtime, low: Any, high: Any) -> None:
        self.agent, self.low, self.high = agent, np.array(low, dtype=float), np.array(high, dtype=float)
        points = agent.nodes.points
        self.nodes = self.crosses(points, points)
        from_, to = np.clip([self.low, self.high], points.min(axis=0), points.max(axis=0))
        points = np.append(points, np.random.default_rng(0).uniform(from_, to, (N_SAMPLES, len(self.low))), axis=0)
        points = points[self.crosses(points, points)]
        reachable = agent.run("classifier", location=agent.run("encoder", goal=points)) >= 0
        self.places = agent.place(points[reachable][:MAX_PLACES])
        self.leaving, self.onward = agent.distances(agent.nodes, self.places), agent.distances(self.places, agent.nodes)

    def tolls(self, starts: Places, ends: Places, lengths: np.ndarray) -> np.ndarray:
        """``[A, B]`` infinite for hops through it, but for those that begin inside, and for those by way of a place."""
        agent, begin, reach = self.agent, starts.points[:, None], self.agent.settings.reach
        leaving = self.leaving if starts is agent.nodes else agent.distances(starts, self.places)
        onward = self.onward if ends is agent.nodes else agent.distances(self.places, ends)
        closed = self.crosses(begin, ends.points) & ~self.crosses(begin, begin)
        there, rest = leaving.T[:, :, None], onward[:, None]
        bends = (there + rest <= lengths + reach / 4) & (reach < there) & (there < lengths)
        return np.where(closed | bends.any(axis=0), np.inf, 0.0)

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def crosses(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Which segments touch it: clip each against the slab of every axis. NaN: it runs along a face, inside."""
        one, other = (self.low - starts) / (ends - starts), (self.high - starts) / (ends - starts)
        enter = np.fmax.reduce(np.minimum(one, other), axis=-1, initial=0.0)
        leave = np.fmin.reduce(np.maximum(one, other), axis=-1, initial=1.0)
        return enter <= leave


class Snag:
    """A place where an agent was stuck on its way to a target: hops past it in that direction cost more."""

    def __init__(self, agent: Runtime, here: np.ndarray, target: np.ndarray, cost: float) -> None:
        self.agent, self.cost = agent, cost
        self.here, self.target = agent.place(here[None]), agent.place(target[None])
        self.planned = agent.distances(self.here, self.target)
        self.leaving, self.ahead = agent.distances(agent.nodes, self.here), self.look(agent.nodes)

    def tolls(self, starts: Places, ends: Places, lengths: np.ndarray) -> np.ndarray:
        """``[A, B]``, nothing for those to a place beside it, less than half as far away as the target."""
        nodes, reach = self.agent.nodes, self.agent.settings.reach
        leaving = self.leaving if starts is nodes else self.agent.distances(starts, self.here)
        onward, towards = self.ahead if ends is nodes else self.look(ends)
        past = (leaving + onward <= lengths + reach) & towards & (onward > np.minimum(reach, self.planned / 2))
        return np.where(past, self.cost, 0.0)

    def look(self, ends: Places) -> tuple[np.ndarray, np.ndarray]:
        """``[1, B]`` distances to the ends of hops, and whether these lie in the direction of the target."""
        measure = self.agent.distances
        onward, left = measure(self.here, ends), measure(ends, self.target).T
        return onward, (onward > measure(self.target, ends)) | (left < self.planned)


def shortest(weights: np.ndarray, trusted: np.ndarray) -> Ways:
    """
    Floyd and Warshall's algorithm.

    :param weights: ``[K, K]`` of hops
    :param trusted: ``[K, K]`` bool, which of them are short enough
    """
    n, costs, trusted = len(weights), weights.copy(), trusted.copy()
    onward = np.tile(np.arange(n), (n, 1))
    np.fill_diagonal(costs, 0.0)
    np.fill_diagonal(trusted, True)
    for k in range(n):
        ways = costs[:, k, None] + costs[k]
        i, j = np.nonzero(ways < costs)
        costs[i, j], onward[i, j], trusted[i, j] = ways[i, j], onward[i, k], trusted[i, k] & trusted[k, j]
    return Ways(costs, onward, trusted)
