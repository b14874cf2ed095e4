"""Plans over the keypoints: a directed graph, its shortest paths, and what is closed in it for now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import count
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, floyd_warshall

from proq_agent.regions import Corner, Crosses, crosses_box, crosses_region

# Elements of one temporary of a min-plus product: 2 MB of doubles, about a core's cache.
_CHUNK = 1 << 18

# Steps that a missed goal is worth, so that a plan's odds come first, even a billionth, and its length second.
COST_OF_A_MISS = 1e9

_Indices = int | Sequence[int] | np.ndarray


class Routes(NamedTuple):
    """What the graph knows about ``B`` goals; stale once :attr:`KeypointGraph.version` has changed."""

    costs: np.ndarray  #: ``[B, K]`` cost-to-goal of each keypoint, inf where there is no route
    successors: np.ndarray  #: ``[B, K]`` next node on the plan; ``K`` is the goal itself, -1 no route
    ranks: np.ndarray  #: ``[B, K]`` what plans are chosen by, the costs where nothing is left to chance
    stretched: np.ndarray  #: ``[B]`` bool: no keypoint is within ``max_hop`` of the goal

    @property
    def odds(self) -> np.ndarray:
        """``[B, K]`` probability of reaching the goal from each keypoint."""
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(self.costs), 1.0 - (self.ranks - self.costs) / COST_OF_A_MISS, 0.0)


class Hops(NamedTuple):
    """Where to go now, for ``B`` states."""

    target: np.ndarray  #: ``[B]`` keypoint to head for; ``K`` is the goal itself
    cost: np.ndarray  #: ``[B]`` estimated cost to go by that choice, inf if unknown
    fallback: np.ndarray  #: ``[B]`` bool: the plan needs a hop beyond ``max_hop``, or there is none
    arrived: np.ndarray  #: ``[B]`` bool: the goal is within ``reach``


class Connectivity(NamedTuple):
    """How well the keypoints that are not blocked hang together."""

    connected_pairs: float  #: share of the ordered pairs of keypoints with a route
    n_components: int  #: number of strongly connected components


class _Change(NamedTuple):
    """One ``block`` (infinite cost) or ``penalise`` (finite cost) in force."""

    nodes: np.ndarray
    sources: np.ndarray
    ends: np.ndarray
    cost: float
    tests: list[Crosses]


class KeypointGraph:
    """
    Directed graph of ``K`` keypoints, in which every hop is at most ``max_hop`` long.

    In the paper's symbols ``distances`` is ``d(z_i, z_j)``, ``max_hop`` τ and ``costs`` ``D*``. The learned
    ``d`` obeys the triangle inequality, so no route is shorter than the direct hop: only the cut makes a plan.
    All-pairs shortest paths are computed once; a goal is one more node, added by a min-plus product in O(K²).

    Where the cut leaves no route, the plan falls back, in this order, and :attr:`Hops.fallback` says so:

    * no keypoint within ``max_hop`` of the goal: the one nearest to the goal makes a single long last hop;
    * no keypoint with a route within ``max_hop`` of the state: the nearest of those with the surest, however far;
    * no keypoint with a route at all (the goal is walled off): the nearest one not blocked, at cost inf;
    * no such keypoint either: the goal itself.

    :param distances: ``[K, K]`` directed distances from row to column; inf where there is no edge
    :param max_hop: longest hop allowed, the first and the last included
    :param reach: a keypoint at most this far is reached, and its successor becomes the target
    :param points: ``[K, goal_dim]`` keypoints in goal space; needed only to block by box or region
    :param barred: nodes that no plan may use, whatever is blocked or unblocked
    :param caution: a hop as long as ``max_hop`` costs 1 + caution times its length, shorter ones proportionally less on
        top. Of many learned distances a search for the shortest finds those that are too short, above all around
        corners; long hops are the less reliable ones
    """

    def __init__(
        self,
        distances: np.ndarray,
        max_hop: float,
        reach: float = 0.0,
        points: np.ndarray | None = None,
        caution: float = 0.0,
        barred: _Indices = (),
    ) -> None:
        self.distances = np.array(distances, dtype=np.float64)  # a copy: the caller may go on training
        if self.distances.ndim != 2 or not 0 < len(self.distances) == self.distances.shape[1]:
            raise ValueError(f"distances must be square, [K, K] with K >= 1, got {self.distances.shape}.")
        if not (self.distances >= 0).all():
            raise ValueError("distances hold negative or NaN entries; use inf where there is no edge.")
        if not (max_hop > 0 and reach >= 0 and caution >= 0):
            raise ValueError(
                f"max_hop must be positive, reach and caution non-negative, got {max_hop}, {reach} and {caution}."
            )
        self.n_nodes = len(self.distances)
        self.max_hop = float(max_hop)
        self.reach = float(reach)
        self.caution = float(caution)
        self.points = None if points is None else np.array(points, dtype=np.float64)
        if self.points is not None and (self.points.ndim != 2 or len(self.points) != self.n_nodes):
            raise ValueError(f"points must be [{self.n_nodes}, goal_dim], got {self.points.shape}.")
        self._barred = self._indices(barred, "barred")
        self.version = 0  #: grows with every change; Routes of an older version are stale
        self._changes: dict[int, _Change] = {}
        self._handles = count()

    # The next three are dropped by a change and computed when needed: several changes cost one pass.

    @cached_property
    def blocked(self) -> np.ndarray:
        """``[K]`` keypoints that are barred or blocked now."""
        mask = np.zeros(self.n_nodes, dtype=bool)
        mask[self._barred] = True
        for change in self._changes.values():
            mask[change.nodes] = True
        return mask

    @cached_property
    def weights(self) -> np.ndarray:
        """``[K, K]`` cost of each edge now, inf where there is none or it is blocked."""
        weights = np.where(self.distances <= self.max_hop, self.hop_costs(self.distances), np.inf)
        for change in self._changes.values():
            weights[change.sources, change.ends] += change.cost
        weights[self.blocked] = np.inf
        weights[:, self.blocked] = np.inf
        np.fill_diagonal(weights, np.inf)
        # A hop costs a trifle, less than the resolution of float32 distances, more than the rounding of float64
        # sums: ties go to fewer hops, and as costs fall even along edges of length zero, no plan can cycle.
        return weights + 1e-9 * weights.max(initial=1.0, where=np.isfinite(weights))

    @cached_property
    def costs(self) -> np.ndarray:
        """``[K, K]`` length of the shortest path from row to column, inf where there is none."""
        # Masked, because in a plain array scipy takes entries near zero for missing edges.
        return floyd_warshall(np.ma.masked_invalid(self.weights))

    def hop_costs(self, distances: np.ndarray) -> np.ndarray:
        """What hops of these lengths cost in a plan."""
        return distances * (1.0 + self.caution / self.max_hop * distances) if self.caution else distances

    @property
    def longest_way(self) -> float:
        """No plan without penalties costs more, but for a fallback's long hops."""
        return float(self.hop_costs(np.float64(self.max_hop)) * (self.n_nodes + 1))

    def routes(self, to_goal: np.ndarray, penalties: np.ndarray | float = 0.0) -> Routes:
        """
        Shortest routes from every keypoint to each goal.

        :param to_goal: ``[B, K]`` (or ``[K]``) distances from each keypoint to each goal
        :param penalties: likewise, what these last hops cost beyond their length
        """
        to_goal = np.atleast_2d(np.asarray(to_goal, dtype=np.float64))
        if to_goal.ndim != 2 or to_goal.shape[1] != self.n_nodes or np.isnan(to_goal).any():
            raise ValueError(f"to_goal must be [B, {self.n_nodes}] without NaN, got {to_goal.shape}.")
        to_goal = np.where(self.blocked, np.inf, to_goal)
        hop_costs = self.hop_costs(to_goal) + penalties
        last_hop = np.where(to_goal <= self.max_hop, hop_costs, np.inf)
        far = np.flatnonzero(np.isinf(last_hop).all(axis=1))
        nearest = hop_costs[far].argmin(axis=1)
        last_hop[far, nearest] = hop_costs[far, nearest]
        # Taken off and added at the end: a last hop far longer than the edges would drown their differences.
        offset = last_hop.min(axis=1, keepdims=True)
        offset[np.isinf(offset)] = 0.0
        last_hop -= offset
        costs, _ = min_plus(self.costs, last_hop)
        onward, successors = min_plus(self.weights, costs)
        successors[last_hop <= onward] = self.n_nodes
        successors[np.isinf(costs)] = -1
        stretched = np.zeros(len(to_goal), dtype=bool)
        stretched[far] = True
        costs += offset
        return Routes(costs, successors, costs, stretched)

    def next_hops(
        self,
        routes: Routes,
        from_state: np.ndarray,
        state_to_goal: np.ndarray,
        penalties: np.ndarray | float = 0.0,
        goal_penalties: np.ndarray | float = 0.0,
    ) -> Hops:
        """
        Choose the next node for each state: the cheapest of the keypoints and the goal within ``max_hop``.

        :param routes: routes to the goal of each state
        :param from_state: ``[B, K]`` distances from each state to each keypoint
        :param state_to_goal: ``[B]`` distance from each state to its own goal
        :param penalties: ``[B, K]`` what the hops to the keypoints cost beyond their length
        :param goal_penalties: ``[B]`` likewise, of the hop to the goal
        """
        goal = self.n_nodes
        rows = np.arange(len(from_state))
        first_hop = self.hop_costs(from_state) + penalties
        to_goal = self.hop_costs(state_to_goal) + goal_penalties
        ranks = np.where(from_state <= self.max_hop, first_hop + routes.ranks, np.inf)
        target = ranks.argmin(axis=1)
        direct_cost = np.where(state_to_goal <= self.max_hop, to_goal, np.inf)
        direct = direct_cost <= ranks[rows, target]
        cost = np.where(direct, direct_cost, first_hop[rows, target] + routes.costs[rows, target])
        cost[np.isinf(ranks[rows, target]) & ~direct] = np.inf
        target[direct] = goal
        fallback = routes.stretched & ~direct
        lost = np.isinf(cost)
        if lost.any():
            fallback |= lost
            target[lost], cost[lost] = self._nearest(
                Routes(*(part[lost] for part in routes)), first_hop[lost], to_goal[lost]
            )
        if self.reach >= from_state.min():
            for _ in range(goal):  # keypoints may lie so close that several are reached at once
                keypoint = np.minimum(target, goal - 1)
                onward = routes.successors[rows, keypoint]
                reached = (from_state[rows, keypoint] <= self.reach) & (target < goal) & (onward >= 0)
                if not reached.any():
                    break
                target = np.where(reached, onward, target)
        return Hops(target, cost, fallback, state_to_goal <= self.reach)

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

    def block(
        self,
        *,
        nodes: _Indices | None = None,
        edges: Sequence[tuple[int, int]] | np.ndarray | None = None,
        box: tuple[Corner, Corner] | None = None,
        region: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> int:
        """
        Close part of the map until :meth:`unblock`. Several blocks may be in force at once.

        A box or region closes the keypoints inside it and the edges whose straight segment in goal space
        passes through it. A box is tested exactly, however thin; a region at points 1/500 of the map apart.
        Hops from a state or to a goal are not edges of the graph: see :meth:`mask_blocked`.

        :param nodes: indices of keypoints
        :param edges: pairs ``(i, j)``; only that direction is closed
        :param box: ``(low, high)`` corners in goal space
        :param region: predicate that maps points ``[N, goal_dim]`` to ``[N]`` bool
        :return: handle for :meth:`unblock`
        """
        if nodes is None and edges is None and box is None and region is None:
            raise ValueError("block() needs at least one of nodes, edges, box and region.")
        closed = [self._indices([] if nodes is None else nodes, "nodes")]
        pairs = self._indices([] if edges is None else edges, "edges")
        if pairs.size and pairs.shape[-1] != 2:
            raise ValueError(f"edges must be pairs (i, j), got an array of shape {pairs.shape}.")
        pairs = pairs.reshape(-1, 2)
        tests: list[Crosses] = []
        if box is not None or region is not None:
            if self.points is None:
                raise ValueError("A box or region needs KeypointGraph(..., points=keypoints in goal space).")
            if box is not None:
                tests.append(crosses_box(*box, dim=self.points.shape[1]))
            if region is not None:
                tests.append(crosses_region(region, extent=float(np.ptp(self.points, axis=0).max())))
            hops = np.argwhere(self.distances <= self.max_hop)
            starts, ends = self.points[hops[:, 0]], self.points[hops[:, 1]]
            for crosses in tests:
                closed.append(np.flatnonzero(crosses(self.points, self.points)))
                pairs = np.concatenate([pairs, hops[crosses(starts, ends)]])
        return self._add(_Change(np.concatenate(closed), pairs[:, 0], pairs[:, 1], np.inf, tests))

    def penalise(self, i: _Indices, j: _Indices, cost: float) -> int:
        """
        Add ``cost`` to the edge (or edges) from ``i`` to ``j``, for an agent that makes no progress along it.

        :return: handle for :meth:`unblock`; :meth:`clear_penalties` undoes all penalties
        """
        if not 0 <= cost < np.inf:
            raise ValueError(f"A penalty must be finite and non-negative, got {cost}; block() closes edges.")
        sources, ends = np.broadcast_arrays(self._indices(i, "i"), self._indices(j, "j"))
        return self._add(_Change(np.empty(0, dtype=np.intp), sources, ends, float(cost), []))

    def unblock(self, handle: int | None = None) -> None:
        """
        Undo one change, or all of them.

        :param handle: what :meth:`block` or :meth:`penalise` returned; None for everything
        """
        if handle is not None and not self.in_force(handle):
            raise ValueError(f"No block or penalty {handle} is in force; in force: {sorted(self._changes)}.")
        self._drop(list(self._changes) if handle is None else [handle])

    def in_force(self, handle: int) -> bool:
        """Whether what :meth:`block` or :meth:`penalise` did has not been undone."""
        return handle in self._changes

    def clear_penalties(self) -> None:
        """Undo every penalty; blocks stay."""
        self._drop([handle for handle, change in self._changes.items() if change.cost < np.inf])

    def mask_blocked(self, distances: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """
        Distances with inf for the hops whose straight segment enters a blocked box or region.

        For the hops that the graph cannot see: from states to keypoints, from keypoints to goals, from states
        to goals. A hop that begins inside is kept, so that an agent caught there can leave.

        :param distances: ``[...]`` lengths of the hops, returned as they are if no box or region is blocked
        :param starts: ``[..., goal_dim]`` points; with ``ends`` they broadcast to the shape of ``distances``
        :param ends: ``[..., goal_dim]`` points
        """
        tests = [test for change in self._changes.values() for test in change.tests]
        if not tests:
            return distances
        dim = np.shape(ends)[-1]
        starts, ends = (array.reshape(-1, dim) for array in np.broadcast_arrays(starts, ends))
        entered = np.zeros(len(starts), dtype=bool)
        for crosses in tests:
            entered |= crosses(starts, ends) & ~crosses(starts, starts)
        return np.where(entered.reshape(np.shape(distances)), np.inf, distances)

    def connectivity(self, n_nodes: int | None = None) -> Connectivity:
        """
        Share of ordered pairs with a route, and the number of strongly connected components.

        :param n_nodes: only among the first so many nodes
        """
        free = np.flatnonzero(~self.blocked[:n_nodes])
        if not len(free):
            return Connectivity(0.0, 0)
        routed = np.isfinite(self.costs[np.ix_(free, free)]).sum() - len(free)
        edges = csr_array(np.isfinite(self.weights[np.ix_(free, free)]))
        n_components, _ = connected_components(edges, connection="strong")
        return Connectivity(float(routed / max(len(free) * (len(free) - 1), 1)), int(n_components))

    def _nearest(self, routes: Routes, first_hop: np.ndarray, to_goal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Target and cost where nothing with a route is within ``max_hop``: see the class docstring."""
        rows = np.arange(len(first_hop))
        routed = np.where(np.isfinite(routes.costs), first_hop + COST_OF_A_MISS * (1.0 - routes.odds), np.inf)
        refuges = np.where(self._refuges(), first_hop, np.inf)
        options = np.where(np.isinf(routed).all(axis=1, keepdims=True), refuges, routed)
        target = options.argmin(axis=1)
        usable = np.isfinite(options[rows, target])
        cost = np.where(usable, first_hop[rows, target] + routes.costs[rows, target], to_goal)
        return np.where(usable, target, self.n_nodes), cost

    def _refuges(self) -> np.ndarray:
        """``[K]`` keypoints to go to when there is no route."""
        return ~self.blocked

    def _indices(self, values: _Indices | Sequence[tuple[int, int]], name: str) -> np.ndarray:
        indices = np.atleast_1d(np.asarray(values))
        if indices.size and not np.issubdtype(indices.dtype, np.integer):
            raise ValueError(f"{name} must be integer indices of keypoints, got dtype {indices.dtype}.")
        if indices.size and not (indices.min() >= 0 and indices.max() < self.n_nodes):
            raise ValueError(f"{name} must be within 0..{self.n_nodes - 1}, got {indices.tolist()}.")
        return indices.astype(np.intp)

    def _add(self, change: _Change) -> int:
        handle = next(self._handles)
        self._changes[handle] = change
        self._invalidate()
        return handle

    def _drop(self, handles: list[int]) -> None:
        for handle in handles:
            del self._changes[handle]
        if handles:  # otherwise the plans that callers cached remain valid
            self._invalidate()

    def _invalidate(self) -> None:
        self.version += 1
        for name in ("blocked", "weights", "costs"):
            self.__dict__.pop(name, None)


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
