"""What is closed on a map, or more expensive than it says: blocks, penalties and snags as one immutable state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from proq_agent.planning.regions import Corner, Crosses, crosses_box, crosses_region
from proq_agent.planning.snags import Ahead, Snags

Indices = int | Sequence[int] | np.ndarray
Edges = Sequence[tuple[int, int]] | np.ndarray
Box = tuple[Corner, Corner]
Region = Callable[[np.ndarray], np.ndarray]

_NONE = np.empty(0, dtype=np.intp)


class Closure(NamedTuple):
    """One part of the map that is closed (infinite cost) or penalised (finite cost)."""

    nodes: np.ndarray  #: ``[n]`` closed nodes
    edges: np.ndarray  #: ``[n, 2]``
    cost: float  #: of each of these edges, beyond its length
    crosses: tuple[Crosses, ...] = ()  #: tests of the closed boxes and regions
    snags: Snags | None = None  #: what the hops of states and goals meet

    def contains(self, points: np.ndarray) -> np.ndarray:
        """``[N]`` bool, which points ``[N, goal_dim]`` lie in a closed box or region."""
        return np.any([crosses(points, points) for crosses in self.crosses], axis=0)

    @classmethod
    def penalty(cls, n_nodes: int, sources: Indices, ends: Indices, cost: float) -> Closure:
        """
        Edges that cost more.

        :param n_nodes: number of nodes of the graph
        :param sources: where the edges begin
        :param ends: where they end
        :param cost: finite and non-negative
        """
        if not 0 <= cost < np.inf:
            raise ValueError(f"A penalty must be finite and non-negative, got {cost}; block() closes edges.")
        pairs = np.broadcast_arrays(_indices(sources, n_nodes, "i"), _indices(ends, n_nodes, "j"))
        return cls(_NONE, np.stack(pairs, axis=-1).reshape(-1, 2), float(cost))

    @classmethod
    def block(
        cls,
        hops: np.ndarray,
        points: np.ndarray,
        nodes: Indices | None = None,
        edges: Edges | None = None,
        box: Box | None = None,
        region: Region | None = None,
    ) -> Closure:
        """
        Nodes and edges that are closed, of which a box or region takes in those whose straight segment it touches.

        :param hops: ``[E, 2]`` all edges of the graph
        :param points: ``[K, goal_dim]`` its nodes
        :param nodes: indices
        :param edges: pairs ``(i, j)``; only that direction is closed
        :param box: ``(low, high)`` corners in goal space
        :param region: predicate that maps points ``[N, goal_dim]`` to ``[N]`` bool
        """
        if nodes is None and edges is None and box is None and region is None:
            raise ValueError("block() needs at least one of nodes, edges, box and region.")
        closed = [_NONE if nodes is None else _indices(nodes, len(points), "nodes")]
        pairs = _NONE if edges is None else _indices(edges, len(points), "edges")
        if pairs.size and pairs.shape[-1] != 2:
            raise ValueError(f"edges must be pairs (i, j), got an array of shape {pairs.shape}.")
        pairs = pairs.reshape(-1, 2)
        tests: list[Crosses] = []
        if box is not None:
            tests.append(crosses_box(*box, dim=points.shape[1]))
        if region is not None:
            tests.append(crosses_region(region, extent=float(np.ptp(points, axis=0).max())))
        for crosses in tests:
            closed.append(np.flatnonzero(crosses(points, points)))
            pairs = np.concatenate([pairs, hops[crosses(points[hops[:, 0]], points[hops[:, 1]])]])
        return cls(np.concatenate(closed), pairs, np.inf, tuple(tests))


@dataclass(frozen=True, eq=False)
class Closures:
    """
    All that is closed or penalised at one moment. It never changes: :meth:`add` and :meth:`lift` return another.

    :param barred: ``[K]`` bool, nodes that are closed whatever is lifted
    :param no_snags: an empty set of the map's snags
    :param in_force: by handle
    :param version: number of changes that led here
    """

    barred: np.ndarray
    no_snags: Snags
    in_force: Mapping[int, Closure] = field(default_factory=dict)
    version: int = 0

    def add(self, closure: Closure) -> Closures:
        """With one more, whose handle is the version that this makes."""
        version = self.version + 1
        return replace(self, in_force={**self.in_force, version: closure}, version=version)

    def lift(self, handles: Iterable[int]) -> Closures:
        """
        Without these.

        :raises ValueError: if one is not in force
        """
        in_force = dict(self.in_force)
        for handle in handles:
            if handle not in in_force:
                raise ValueError(f"No block or penalty {handle} is in force; in force: {sorted(self.in_force)}.")
            del in_force[handle]
        if len(in_force) == len(self.in_force):  # plans that were made remain valid
            return self
        return replace(self, in_force=in_force, version=self.version + 1)

    @cached_property
    def blocked(self) -> np.ndarray:
        """``[K]`` bool, closed nodes."""
        blocked = self.barred.copy()
        for closure in self.in_force.values():
            blocked[closure.nodes] = True
        blocked.flags.writeable = False
        return blocked

    @property
    def charges(self) -> list[tuple[np.ndarray, float]]:
        """Edges ``[n, 2]`` and what each of them costs beyond its length, inf if they are closed."""
        return [(closure.edges, closure.cost) for closure in self.in_force.values() if len(closure.edges)]

    @cached_property
    def snags(self) -> Snags:
        """All of them."""
        parts = [closure.snags for closure in self.in_force.values() if closure.snags is not None]
        return Snags.joined(parts) if parts else self.no_snags

    @cached_property
    def _crosses(self) -> list[Crosses]:
        return [crosses for closure in self.in_force.values() for crosses in closure.crosses]

    def passable(
        self, lengths: np.ndarray, starts: np.ndarray, ends: np.ndarray, leaving: np.ndarray, ahead: Ahead
    ) -> tuple[np.ndarray, np.ndarray | float]:
        """
        What the hops that are no edges of the graph meet: from states, to goals, and from states to goals.

        :param lengths: ``[...]`` of the hops
        :param starts: ``[..., goal_dim]`` points; with ``ends`` they broadcast to the shape of ``lengths``
        :param ends: ``[..., goal_dim]`` points
        :param leaving: ``[..., P]`` what :attr:`snags` says of the starts
        :param ahead: ``[..., P]`` what :attr:`snags` says of the ends
        :return: lengths, inf where there is no way, and penalties
        """
        open_lengths = self.mask_blocked(lengths, starts, ends)
        if not len(self.snags):
            return open_lengths, 0.0
        penalties = self.snags.penalties(lengths, leaving, ahead)
        closed = np.isinf(penalties)
        return np.where(closed, np.inf, open_lengths), np.where(closed, 0.0, penalties)

    def mask_blocked(self, lengths: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """
        Lengths with inf for the hops whose straight segment enters a closed box or region.

        A hop that begins inside is kept, so that an agent caught there can leave.

        :param lengths: ``[...]`` of the hops, returned as they are if no box or region is closed
        :param starts: ``[..., goal_dim]`` points; with ``ends`` they broadcast to the shape of ``lengths``
        :param ends: ``[..., goal_dim]`` points
        """
        if not self._crosses:
            return lengths
        dim = np.shape(ends)[-1]
        starts, ends = (array.reshape(-1, dim) for array in np.broadcast_arrays(starts, ends))
        entered = np.zeros(len(starts), dtype=bool)
        for crosses in self._crosses:
            entered |= crosses(starts, ends) & ~crosses(starts, starts)
        return np.where(entered.reshape(np.shape(lengths)), np.inf, lengths)


def _indices(values: Indices | Edges, n_nodes: int, name: str) -> np.ndarray:
    indices = np.atleast_1d(np.asarray(values))
    if indices.size and not np.issubdtype(indices.dtype, np.integer):
        raise ValueError(f"{name} must be integer indices of keypoints, got dtype {indices.dtype}.")
    if indices.size and not (indices.min() >= 0 and indices.max() < n_nodes):
        raise ValueError(f"{name} must be within 0..{n_nodes - 1}, got {indices.tolist()}.")
    return indices.astype(np.intp)
