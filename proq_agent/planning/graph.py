"""A directed graph of keypoints: its shortest paths, routes to goals, and the next hop of a state."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, floyd_warshall, shortest_path

# Elements of one temporary of a min-plus product: 2 MB of doubles, about a core's cache.
_CHUNK = 1 << 18

# Steps that a missed goal is worth, at least: a plan's odds come first and its length second, unless it is a hundred
# steps longer for the sake of 1 in 10,000.
_COST_OF_A_MISS = 1e6


class Routes(NamedTuple):
    """What the graph knows about ``B`` goals."""

    costs: np.ndarray  #: ``[B, K]`` cost-to-goal of each keypoint, inf where there is no route
    successors: np.ndarray  #: ``[B, K]`` next node on the plan; ``K`` is the goal itself, -1 no route
    odds: np.ndarray  #: ``[B, K]`` probability of reaching the goal, if hops can be relied on
    trusted: np.ndarray  #: ``[B, K]`` bool: none of them is longer than ``trusted_hop``
    landing_odds: np.ndarray  #: ``[B, E]`` odds of those whom one of E chance edges takes away
    landing_costs: np.ndarray  #: ``[B, E]`` their costs


class Hops(NamedTuple):
    """Where to go now, for ``B`` states."""

    target: np.ndarray  #: ``[B]`` keypoint to head for; ``K`` is the goal itself
    cost: np.ndarray  #: ``[B]`` estimated cost to go by that choice, inf if unknown
    odds: np.ndarray  #: ``[B]`` probability of reaching the goal by hops that are trusted
    arrived: np.ndarray  #: ``[B]`` bool: the goal is within ``reach``

    @property
    def fallback(self) -> np.ndarray:
        """``[B]`` bool: the plan needs a hop beyond ``trusted_hop``, or there is none."""
        return self.odds == 0.0


class Connectivity(NamedTuple):
    """How well the keypoints that are not blocked hang together."""

    connected_pairs: float  #: share of the ordered pairs of keypoints with a route
    n_components: int  #: number of strongly connected components


class KeypointGraph:
    """
    Directed graph of ``K`` keypoints, whose hops are at most ``max_hop`` long wherever that is possible.

    In the paper's symbols ``distances`` is ``d(z_i, z_j)``, ``max_hop`` τ and ``costs`` ``D*``. The learned
    ``d`` obeys the triangle inequality, so no route is shorter than the direct hop: only the cut makes a plan.
    All-pairs shortest paths are computed once; a goal is one more node, added by a min-plus product in O(K²).

    Where the cut leaves no route, longer hops bridge the gaps if ``bridges``: each costs more than any way without one,
    and the more the longer it is, so that a plan has few of them and short ones. Where a goal is walled off altogether,
    the plan is to go to the nearest keypoint that is not blocked, at cost inf, or if there is none, to the goal itself.
    :attr:`Hops.fallback` says so in either case.

    A graph never changes, so that threads can share it: :meth:`with_closures` returns another.

    :param distances: ``[K, K]`` directed distances from row to column; inf where there is no edge
    :param max_hop: longest hop that plans keep to, the first and the last included
    :param reach: a keypoint at most this far is reached, and its successor becomes the target
    :param caution: a hop as long as ``max_hop`` costs 1 + caution times its length, shorter ones proportionally less on
        top. Of many learned distances a search for the shortest finds those that are too short, above all around
        corners; long hops are the less reliable ones
    :param bridges: whether longer hops than ``max_hop`` may bridge gaps
    :param trusted_hop: longest hop that odds rely on, by default ``max_hop``
    :param terminals: ``[K]`` bool, nodes that no hop leaves: a way may end there, and nobody is sent there to wait
    :param blocked: ``[K]`` bool, nodes that no plan may use
    :param surcharges: ``[K, K]`` what edges cost beyond their lengths; inf closes them
    """

    def __init__(
        self,
        distances: np.ndarray,
        max_hop: float,
        reach: float = 0.0,
        caution: float = 0.0,
        *,
        bridges: bool = True,
        trusted_hop: float | None = None,
        terminals: ArrayLike = False,
        blocked: ArrayLike = False,
        surcharges: np.ndarray | float = 0.0,
    ) -> None:
        distances = np.array(distances, dtype=np.float64)  # a copy: the caller may go on training
        if distances.ndim != 2 or not 0 < len(distances) == distances.shape[1]:
            raise ValueError(f"distances must be square, [K, K] with K >= 1, got {distances.shape}.")
        if not (distances >= 0).all():
            raise ValueError("distances hold negative or NaN entries; use inf where there is no edge.")
        if not (max_hop > 0 and reach >= 0 and caution >= 0):
            raise ValueError(
                f"max_hop must be positive, reach and caution non-negative, got {max_hop}, {reach} and {caution}."
            )
        self.n_nodes = len(distances)
        self.terminals, self.blocked = (
            np.broadcast_to(np.asarray(mask, dtype=bool), self.n_nodes) for mask in (terminals, blocked)
        )
        distances[self.terminals] = np.inf
        self.distances = _read_only(distances)
        self.max_hop, self.reach, self.caution = float(max_hop), float(reach), float(caution)
        self.bridges = bridges
        self.trusted_hop = self.max_hop if trusted_hop is None else float(trusted_hop)
        self.surcharges = surcharges

    def with_closures(self, blocked: np.ndarray, surcharges: np.ndarray | float) -> KeypointGraph:
        """The same graph with other nodes blocked and other surcharges."""
        return self._with(blocked=blocked, surcharges=surcharges)

    def ending_at(self, terminals: np.ndarray, trusted_hop: float) -> KeypointGraph:
        """The same graph with other terminals, and another length of hops that are trusted."""
        return self._with(terminals=terminals, trusted_hop=trusted_hop)

    def _with(self, **changes: Any) -> KeypointGraph:
        names = [
            "distances",
            "max_hop",
            "reach",
            "caution",
            "bridges",
            "trusted_hop",
            "terminals",
            "blocked",
            "surcharges",
        ]
        return KeypointGraph(**({name: getattr(self, name) for name in names} | changes))

    # Computed when needed: of several changes in a row, only the last costs a pass of shortest paths.

    @cached_property
    def weights(self) -> np.ndarray:
        """``[K, K]`` cost of each edge, inf where there is none or it is blocked."""
        weights = self.hop_costs(self.distances) + self.surcharges
        weights[self.blocked] = np.inf
        weights[:, self.blocked] = np.inf
        np.fill_diagonal(weights, np.inf)
        # A hop costs a trifle, less than the resolution of float32 distances, more than the rounding of float64
        # sums: ties go to fewer hops, and as costs fall even along edges of length zero, no plan can cycle.
        trusted = (self.distances <= self.max_hop) & np.isfinite(weights)
        return _read_only(weights + 1e-9 * weights.max(initial=1.0, where=trusted))

    @property
    def hops(self) -> np.ndarray:
        """``[K, K]`` which edges are open and trusted."""
        return (self.distances <= self.max_hop) & np.isfinite(self.weights)

    @cached_property
    def costs(self) -> np.ndarray:
        """``[K, K]`` length of the shortest path from row to column, inf where there is none."""
        # Masked, because in a plain array scipy takes entries near zero for missing edges.
        return _read_only(floyd_warshall(np.ma.masked_invalid(self.weights)))

    @cached_property
    def longest_way(self) -> float:
        """No way of trusted hops costs more, penalties aside."""
        free = np.count_nonzero(~self.blocked)
        return self.max_hop * (1.0 + self.caution) * (free + 1)

    @property
    def cost_of_a_miss(self) -> float:
        """What a goal that is missed counts when plans are compared: more than a few gaps that are bridged."""
        return max(_COST_OF_A_MISS, 100.0 * self.longest_way)

    def hop_costs(self, distances: np.ndarray) -> np.ndarray:
        """What hops of these lengths cost in a plan."""
        costs = distances * (1.0 + self.caution / self.max_hop * distances) if self.caution else distances
        beyond = self.longest_way * (distances / self.max_hop) ** 2 if self.bridges else np.inf
        return np.where(distances <= self.max_hop, costs, beyond)

    def routes(self, to_goal: np.ndarray, penalties: np.ndarray | float = 0.0) -> Routes:
        """
        Shortest routes from every keypoint to each goal.

        :param to_goal: ``[B, K]`` (or ``[K]``) distances from each keypoint to each goal
        :param penalties: likewise, what these last hops cost beyond their length
        """
        to_goal, last_hop = self.last_hops(to_goal, penalties)
        # Taken off and added at the end: a last hop far longer than the edges would drown their differences.
        offset = last_hop.min(axis=1, keepdims=True)
        offset[np.isinf(offset)] = 0.0
        last_hop -= offset
        costs, _ = min_plus(self.costs, last_hop)
        onward, successors = min_plus(self.weights, costs)
        lengths = np.take_along_axis(self.distances, successors.T, axis=1).T
        ends = last_hop <= onward
        successors[ends] = self.n_nodes
        successors[np.isinf(costs)] = -1
        trusted = self.all_trusted(np.where(ends, to_goal, lengths), successors)
        nothing = np.empty((len(costs), 0))
        return Routes(costs + offset, successors, np.isfinite(costs).astype(np.float64), trusted, nothing, nothing)

    def last_hops(self, to_goal: np.ndarray, penalties: np.ndarray | float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """``[B, K]`` lengths and costs of the hops to each goal, inf where none is allowed; see :meth:`routes`."""
        to_goal = np.atleast_2d(np.asarray(to_goal, dtype=np.float64))
        if to_goal.ndim != 2 or to_goal.shape[1] != self.n_nodes or np.isnan(to_goal).any():
            raise ValueError(f"to_goal must be [B, {self.n_nodes}] without NaN, got {to_goal.shape}.")
        to_goal = np.where(self.blocked | self.terminals, np.inf, to_goal)
        return to_goal, self.hop_costs(to_goal) + penalties

    def all_trusted(self, lengths: np.ndarray, successors: np.ndarray) -> np.ndarray:
        """``[B, K]`` whether no hop from a node to its successor and so on to the goal is beyond ``trusted_hop``."""
        trusted = np.ones((len(lengths), self.n_nodes + 1), dtype=bool)  # the goal itself is last
        trusted[:, :-1] = (lengths <= self.trusted_hop) & (successors >= 0)
        while True:
            onward = trusted[:, :-1] & np.take_along_axis(trusted, successors, axis=1)
            if np.array_equal(onward, trusted[:, :-1]):
                return onward
            trusted[:, :-1] = onward

    def next_hops(
        self,
        routes: Routes,
        from_state: np.ndarray,
        state_to_goal: np.ndarray,
        penalties: np.ndarray | float = 0.0,
        goal_penalties: np.ndarray | float = 0.0,
        goal_odds: np.ndarray | float = 1.0,
    ) -> Hops:
        """
        Choose the next node for each state: the keypoint or the goal by which it is surest to arrive, then cheapest.

        :param routes: routes to the goal of each state
        :param from_state: ``[B, K]`` distances from each state to each keypoint
        :param state_to_goal: ``[B]`` distance from each state to its own goal
        :param penalties: ``[B, K]`` what the hops to the keypoints cost beyond their length
        :param goal_penalties: ``[B]`` likewise, of the hop to the goal
        :param goal_odds: ``[B]`` how sure that hop is
        """
        goal = self.n_nodes
        rows = np.arange(len(from_state))
        first_hop = self.hop_costs(from_state) + penalties
        costs, trusted = first_hop + routes.costs, routes.trusted & (from_state <= self.trusted_hop)
        miss = self.cost_of_a_miss
        ranks = costs + miss * ((1.0 - routes.odds) + ~trusted)
        target = ranks.argmin(axis=1)
        direct_cost, near = self.hop_costs(state_to_goal) + goal_penalties, state_to_goal <= self.trusted_hop
        direct = direct_cost + miss * ((1.0 - goal_odds) + ~near) <= ranks[rows, target]
        cost = np.where(direct, direct_cost, costs[rows, target])
        odds = np.where(direct, near * goal_odds, (routes.odds * trusted)[rows, target])
        target[direct] = goal
        lost = np.isinf(cost)
        if lost.any():
            refuges = np.where(self.blocked | self.terminals, np.inf, first_hop[lost])
            nearest = refuges.argmin(axis=1)
            target[lost] = np.where(np.isinf(refuges.min(axis=1)), goal, nearest)
        if self.reach >= from_state.min():
            fine = np.ones((len(rows), goal + 1), dtype=bool)
            fine[:, :goal], fine[:, goal] = np.less(penalties, self.max_hop), np.less(goal_penalties, self.max_hop)
            for _ in range(goal):  # keypoints may lie so close that several are reached at once
                keypoint = np.minimum(target, goal - 1)
                onward = routes.successors[rows, keypoint]
                reached = (from_state[rows, keypoint] <= self.reach) & (target < goal) & (onward >= 0)
                reached &= fine[rows, onward]  # who was stuck on that hop goes by way of the keypoint itself
                if not reached.any():
                    break
                target = np.where(reached, onward, target)
        return Hops(target, cost, odds, state_to_goal <= self.reach)

    def path(self, routes: Routes, first: int) -> list[int]:
        """
        The whole plan of one state: the nodes to visit, from its next hop to the goal ``K``.

        :param routes: routes to one goal
        :param first: the next hop
        :return: nodes that end with ``K``, or the next hop alone when there is no route from there
        """
        nodes = [int(first)]
        while len(nodes) <= self.n_nodes and nodes[-1] < self.n_nodes:
            onward = int(routes.successors[0, nodes[-1]])
            if onward < 0:
                break
            nodes.append(onward)
        return nodes

    def connectivity(self, n_nodes: int | None = None) -> Connectivity:
        """
        Share of ordered pairs with a route, and the number of strongly connected components.

        :param n_nodes: only among the first so many nodes
        """
        free = np.flatnonzero(~self.blocked[:n_nodes])
        if not len(free):
            return Connectivity(0.0, 0)
        among = np.ix_(free, free)
        trusted = csr_array(self.hops[among])
        routed = np.isfinite(shortest_path(trusted, unweighted=True)).sum() - len(free)
        n_components, _ = connected_components(trusted, connection="strong")
        return Connectivity(float(routed / max(len(free) * (len(free) - 1), 1)), int(n_components))


def min_plus(matrix: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``min_j matrix[k, j] + vectors[b, j]`` and its argmin, both ``[B, K]``, in bounded memory."""
    n = len(matrix)
    values = np.empty((len(vectors), n))
    indices = np.empty((len(vectors), n), dtype=np.intp)
    goals, rows = max(1, _CHUNK // n**2), max(1, _CHUNK // n)
    for b in range(0, len(vectors), goals):
        for k in range(0, n, rows):
            sums = matrix[k : k + rows] + vectors[b : b + goals, None, :]
            best = sums.argmin(axis=2)
            indices[b : b + goals, k : k + rows] = best
            values[b : b + goals, k : k + rows] = np.take_along_axis(sums, best[..., None], axis=2)[..., 0]
    return values, indices


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
