"""A directed graph of keypoints with all its edges: shortest paths between all pairs, and routes to goals."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import floyd_warshall

from proq_agent.planning.hops import Connectivity, EdgeList, HopGraph, Hops, Routes

__all__ = ["Connectivity", "Hops", "KeypointGraph", "Routes", "min_plus"]

# Elements of one temporary of a min-plus product: 2 MB of doubles, about a core's cache.
_CHUNK = 1 << 18


class KeypointGraph(HopGraph):
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
        super().__init__(len(distances), max_hop, reach, caution, bridges, trusted_hop, terminals, blocked)
        distances[self.terminals] = np.inf
        self.distances = _read_only(distances)
        self.surcharges = surcharges

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

    @property
    def open_hops(self) -> EdgeList:
        """As a list: see :attr:`HopGraph.open_hops`."""
        starts, ends = np.nonzero(self.hops)
        return EdgeList(starts, ends, self.distances[starts, ends])

    @cached_property
    def edges(self) -> EdgeList:
        """As a list: see :attr:`HopGraph.edges`."""
        starts, ends = np.nonzero(np.isfinite(self.distances))
        return EdgeList(starts, ends, self.distances[starts, ends])

    def surcharges_of(self, charges: Iterable[tuple[np.ndarray, float]]) -> np.ndarray | float:
        """``[K, K]``, or a single 0 if no edge costs more."""
        surcharges: np.ndarray | float = 0.0
        for edges, cost in charges:
            if not isinstance(surcharges, np.ndarray):
                surcharges = np.zeros((self.n_nodes, self.n_nodes))
            surcharges[edges[:, 0], edges[:, 1]] += cost
        return surcharges

    @cached_property
    def costs(self) -> np.ndarray:
        """``[K, K]`` length of the shortest path from row to column, inf where there is none."""
        # Masked, because in a plain array scipy takes entries near zero for missing edges.
        return _read_only(floyd_warshall(np.ma.masked_invalid(self.weights)))

    def routes(self, to_goal: np.ndarray, penalties: np.ndarray | float = 0.0) -> Routes:
        """See :meth:`HopGraph.routes`."""
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
