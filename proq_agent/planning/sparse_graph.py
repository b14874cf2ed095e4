"""A directed graph of many keypoints, each with edges to a few near ones: routes by Dijkstra's algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from proq_agent.planning.hops import EdgeList, HopGraph, Hops, Routes

_AHEAD = 8  # nodes that are measured at once on the way ahead

Measure = Callable[[np.ndarray], tuple[np.ndarray, "np.ndarray | float"]]


class SparseGraph(HopGraph):
    """
    The plans of a :class:`~proq_agent.planning.graph.KeypointGraph` that has no other edges than these: the same
    costs, the same successors at ties, the same closures. A goal costs one run of Dijkstra's algorithm from it, and
    nothing ``[K, K]`` is held.

    :param n_nodes: K
    :param edges: ordered by their starts and then by their ends; none from a node to itself
    :param max_hop: this and what follows as of :class:`~proq_agent.planning.graph.KeypointGraph`
    :param surcharges: ``[E]`` what edges cost beyond their lengths; inf closes them
    """

    def __init__(
        self,
        n_nodes: int,
        edges: EdgeList,
        max_hop: float,
        reach: float = 0.0,
        caution: float = 0.0,
        *,
        bridges: bool = True,
        blocked: ArrayLike = False,
        surcharges: np.ndarray | float = 0.0,
    ) -> None:
        super().__init__(n_nodes, max_hop, reach, caution, bridges, None, False, blocked)
        if not (edges.lengths >= 0).all():
            raise ValueError("edges have negative or NaN lengths.")
        keys = edges.starts.astype(np.int64) * n_nodes + edges.ends
        if not (np.diff(keys) > 0).all() or (edges.starts == edges.ends).any():
            raise ValueError("edges must be ordered by starts and then ends, each once and none from a node to itself.")
        self._edges, self._keys, self.surcharges = edges, keys, surcharges
        self._ranked: tuple[Routes, tuple[np.ndarray, np.ndarray]] | None = None

    def _with(self, **changes: Any) -> SparseGraph:
        names = "n_nodes", "edges", "max_hop", "reach", "caution", "bridges", "blocked", "surcharges"
        return SparseGraph(**({name: getattr(self, name) for name in names} | changes))

    def ending_at(self, terminals: np.ndarray, trusted_hop: float) -> SparseGraph:
        """Not here."""
        raise ValueError(
            f"transitions by chance are not planned for on a sparse graph, of {self.n_nodes} nodes: use fewer "
            "keypoints (keypoints.n), or trust the transitions like any other (stochastic='ignore')"
        )

    @property
    def edges(self) -> EdgeList:
        return self._edges

    @property
    def open_hops(self) -> EdgeList:
        kept = (self._edges.lengths <= self.max_hop) & np.isfinite(self.weights)
        return EdgeList(*(part[kept] for part in self._edges))

    def surcharges_of(self, charges: Iterable[tuple[np.ndarray, float]]) -> np.ndarray | float:
        """``[E]``, or a single 0 if no edge costs more; edges that are not there do not matter."""
        surcharges: np.ndarray | float = 0.0
        keys = self._keys
        for edges, cost in charges:
            if not isinstance(surcharges, np.ndarray):
                surcharges = np.zeros(len(keys))
            wanted = edges[:, 0].astype(np.int64) * self.n_nodes + edges[:, 1]
            surcharges[np.isin(keys, wanted, assume_unique=False)] += cost
        return surcharges

    @cached_property
    def weights(self) -> np.ndarray:
        """``[E]`` cost of each edge, inf if it is closed: see :attr:`KeypointGraph.weights`."""
        starts, ends, lengths = self._edges
        weights = self.hop_costs(lengths) + self.surcharges
        weights[self.blocked[starts] | self.blocked[ends]] = np.inf
        trusted = (lengths <= self.max_hop) & np.isfinite(weights)
        weights += 1e-9 * weights.max(initial=1.0, where=trusted)
        weights.flags.writeable = False
        return weights

    @cached_property
    def _backwards(self) -> csr_array:
        """``[K + 1, K + 1]`` weights of the open edges from their ends to their starts; the last row is for a goal."""
        is_open, n = np.isfinite(self.weights), self.n_nodes + 1
        starts, ends = (part[is_open] for part in self._edges[:2])
        return csr_array((self.weights[is_open], (ends, starts)), shape=(n, n))

    @cached_property
    def _leaving(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The nodes that edges leave, the first edge of each, and how many there are."""
        return np.unique(self._edges.starts, return_index=True, return_counts=True)

    def routes(self, to_goal: np.ndarray, penalties: np.ndarray | float = 0.0) -> Routes:
        """See :meth:`HopGraph.routes`."""
        to_goal, last_hops = self.last_hops(to_goal, penalties)
        offsets = last_hops.min(axis=1, keepdims=True)
        offsets[np.isinf(offsets)] = 0.0
        last_hops -= offsets
        costs, successors, lengths = np.empty_like(last_hops), np.empty(last_hops.shape, dtype=np.intp), to_goal.copy()
        for row, last_hop in enumerate(last_hops):
            costs[row] = self._costs(last_hop)
            onward, best, length = self._onward(costs[row])
            goes_on = onward < last_hop
            successors[row] = np.where(goes_on, best, self.n_nodes)
            lengths[row, goes_on] = length[goes_on]
        successors[np.isinf(costs)] = -1
        nothing = np.empty((len(costs), 0))
        trusted = self.all_trusted(lengths, successors)
        return Routes(costs + offsets, successors, np.isfinite(costs).astype(np.float64), trusted, nothing, nothing)

    def _costs(self, last_hop: np.ndarray) -> np.ndarray:
        """``[K]`` from every node to the goal, given the costs of the last hops ``[K]``."""
        # Those beyond max_hop cost more than any way of trusted hops, penalties aside. Without them the search is
        # faster, and nothing is missed if no way costs more than the cheapest of them.
        near = last_hop < self.longest_way
        costs = self._search(last_hop, np.flatnonzero(near))
        if (costs[~self.blocked] > last_hop.min(initial=np.inf, where=~near)).any():
            costs = self._search(last_hop, np.flatnonzero(np.isfinite(last_hop)))
        return costs

    def _search(self, last_hop: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        graph, n = self._backwards, self.n_nodes
        pointers = graph.indptr.copy()
        pointers[-1] += len(nodes)
        indices = np.concatenate([graph.indices, nodes.astype(graph.indices.dtype)])
        extended = csr_array((np.concatenate([graph.data, last_hop[nodes]]), indices, pointers), shape=(n + 1, n + 1))
        return dijkstra(extended, indices=[n])[0, :n]

    def _onward(self, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """``[K]`` least cost over the edges of each node, the first node by which it is paid, and how far that is."""
        starts, ends, lengths = self._edges
        onward, best, length = np.full((3, self.n_nodes), np.inf)
        best = np.zeros(self.n_nodes, dtype=np.intp)
        if len(starts):
            nodes, first, number = self._leaving
            sums = self.weights + costs[ends]
            onward[nodes] = least = np.minimum.reduceat(sums, first)
            paid = np.flatnonzero(sums == least.repeat(number))[::-1]  # of several the first is written last
            best[starts[paid]], length[starts[paid]] = ends[paid], lengths[paid]
        return onward, best, length

    def nearby_hops(
        self,
        routes: Routes,
        bounds: np.ndarray,
        slack: float,
        measure: Measure,
        state_to_goal: np.ndarray,
        goal_penalties: np.ndarray | float = 0.0,
    ) -> Hops:
        """
        :meth:`next_hops` of one state, but only the nodes that can be the best of all are measured.

        :param routes: routes to its goal
        :param bounds: ``[K]`` no distance from the state to a node is less
        :param slack: by how much it may be more; a guess, on which nothing but time depends
        :param measure: lengths of the hops from the state to some nodes ``[n]`` and what they cost beyond, ``[1, n]``
            or the latter a single 0
        :param state_to_goal: ``[1]`` distance from the state to its goal
        :param goal_penalties: what the hop to the goal costs beyond its length
        """
        (near, far), steepness = self._onward_ranks(routes), self.caution / self.max_hop
        onward = np.where(bounds <= self.trusted_hop, near, far)
        lower = bounds * (1.0 + steepness * bounds) if steepness else bounds
        lower = lower + onward
        likely = lower.argmin()
        length = min(bounds[likely], self.max_hop) + slack
        limit = length * (1.0 + steepness * length) + onward[likely]
        while True:
            nodes = np.flatnonzero(lower <= limit)
            if not len(nodes):
                nodes = np.array([likely])
            lengths, penalties = measure(nodes)
            costs, odds, trusted = (part[:, nodes] for part in (routes.costs, routes.odds, routes.trusted))
            some = routes._replace(costs=costs, odds=odds, trusted=trusted)
            hops = self.surest(some, lengths, state_to_goal, penalties, goal_penalties)
            rank = hops.cost[0] + self.cost_of_a_miss * (1.0 - hops.odds[0])
            if rank <= limit or len(nodes) == self.n_nodes:
                break
            limit = rank
        if np.isinf(rank):
            everywhere, penalties = measure(np.arange(self.n_nodes))
            return self.next_hops(routes, everywhere, state_to_goal, penalties, goal_penalties)
        target = int(hops.target[0])
        if target == len(nodes):
            return hops._replace(target=np.array([self.n_nodes]))
        reached, target = lengths[0, target] <= self.reach, int(nodes[target])
        if reached:
            target = self._leave_reached(routes.successors[0], target, measure, goal_penalties)
        return hops._replace(target=np.array([target]))

    def _onward_ranks(self, routes: Routes) -> tuple[np.ndarray, np.ndarray]:
        """
        ``[K]`` what the ways to the goal count beyond a first hop that is trusted, and beyond one that is not; kept
        while the goal stays.
        """
        known = self._ranked
        if known is None or known[0] is not routes:
            miss, unsure = self.cost_of_a_miss, 1.0 - routes.odds[0]
            near, far = (routes.costs[0] + miss * (unsure + missed) for missed in (~routes.trusted[0], 1.0))
            known = self._ranked = routes, (near, far)
        return known[1]

    def _leave_reached(
        self, successors: np.ndarray, target: int, measure: Measure, goal_penalties: np.ndarray | float
    ) -> int:
        """The first node after the target that is not reached, or that one had better not go to from here."""
        goal = self.n_nodes
        while target < goal:
            ahead = [target]
            while len(ahead) <= _AHEAD and ahead[-1] < goal and successors[ahead[-1]] >= 0:
                ahead.append(int(successors[ahead[-1]]))
            if len(ahead) == 1:
                break
            nodes = np.array(ahead[:-1] if ahead[-1] == goal else ahead)
            lengths, penalties = measure(nodes)
            dear = penalties[0] >= self.max_hop if isinstance(penalties, np.ndarray) else np.zeros(len(nodes), bool)
            for place, onward in enumerate(ahead[1:]):
                is_dear = np.any(goal_penalties >= self.max_hop) if onward == goal else dear[place + 1]
                if lengths[0, place] > self.reach or is_dear:
                    return target
                target = onward
        return target
