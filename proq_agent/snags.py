"""Places on the map that cannot be passed as it says, and the hops that lead past them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch as th

from proq_agent.planner import KeypointGraph

Distance = Callable[[th.Tensor, th.Tensor], th.Tensor]  # of embeddings [..., dim], whose leading dimensions broadcast


class _Places(NamedTuple):
    """Where agents were stuck, and where they wanted to go; embeddings ``[N, dim]`` and costs ``[N]``."""

    places: th.Tensor
    targets: th.Tensor
    costs: np.ndarray  # inf: closed, in all directions


class Snags:
    """
    Places where an agent was stuck, and what they cost the hops that lead past them.

    A hop from a to b leads past the place s, where the agent was stuck on its way to t, if s lies on it,
    d(a, s) + d(s, b) <= d(a, b) + slack, and b lies in the direction of t: one of b and t is nearer to the other than
    s is. So one bump into a wall tells about all hops through it, however long, from either keypoints or states,
    while the way back and the ways beyond the wall stay what they were.

    The edges among these hops are penalised in the graph; the snag lasts as long as that penalty. A place that is
    known to be closed is a snag of infinite cost for hops in any direction, but for those that begin there.

    :param graph: whose edges are penalised
    :param distance: d of embeddings
    :param nodes: ``[K, embedding_dim]`` embeddings of the graph's nodes
    :param slack: how far beside a hop a place may lie
    """

    def __init__(self, graph: KeypointGraph, distance: Distance, nodes: th.Tensor, slack: float) -> None:
        self.graph, self.distance, self.nodes, self.slack = graph, distance, nodes, slack
        self._known = _Places(nodes[:0], nodes[:0], np.zeros(0))
        self._handles: list[int] = []
        self._version = graph.version

    def add(self, place: th.Tensor, target: th.Tensor, cost: float) -> None:
        """
        :param place: ``[embedding_dim]`` s, where the agent is stuck
        :param target: ``[embedding_dim]`` t, where it was heading
        :param cost: added to every hop that leads past
        """
        new = _Places(place[None], target[None], np.array([cost]))
        edges = self._edges_past(new)
        self._append(new, self.graph.penalise(edges[:, 0], edges[:, 1], cost))

    def close(self, places: th.Tensor, handle: int) -> None:
        """
        :param places: ``[P, embedding_dim]`` what nobody can pass any more
        :param handle: of the block in the graph, which these places share the fate of
        """
        self._append(_closed(places), handle)

    def edges_past(self, places: th.Tensor) -> np.ndarray:
        """``[n, 2]`` edges of the graph that lead past places in any direction."""
        return self._edges_past(_closed(places))

    def penalties(self, distances: np.ndarray, starts: th.Tensor, ends: th.Tensor) -> np.ndarray | float:
        """
        What hops that are not edges of the graph cost beyond their lengths, inf if they are closed.

        :param distances: ``[...]`` lengths of the hops
        :param starts: embeddings; with ``ends`` their leading dimensions broadcast to the shape of ``distances``
        :param ends: embeddings
        """
        if self._version != self.graph.version:
            self._drop_lifted()
        return self._penalties(self._known, distances, starts, ends) if self._handles else 0.0

    @th.no_grad()
    def _penalties(self, of: _Places, distances: np.ndarray, starts: th.Tensor, ends: th.Tensor) -> np.ndarray:
        starts, ends = starts.unsqueeze(-2), ends.unsqueeze(-2)
        to_place, onward, from_target, to_target, planned = (
            self.distance(x, y).cpu().numpy()
            for x, y in (
                (starts, of.places),
                (of.places, ends),
                (of.targets, ends),
                (ends, of.targets),
                (of.places, of.targets),
            )
        )
        past = to_place + onward <= distances[..., None] + self.slack
        towards = (from_target < onward) | (to_target < planned)
        counts = past & np.where(np.isinf(of.costs), to_place > self.slack, towards)
        return np.where(counts, of.costs, 0.0).sum(axis=-1)

    def _edges_past(self, places: _Places) -> np.ndarray:
        return np.argwhere(self._penalties(places, self.graph.distances, self.nodes[:, None], self.nodes) > 0)

    def _append(self, new: _Places, handle: int) -> None:
        self._drop_lifted()
        self._handles += [handle] * len(new.costs)
        self._known = _Places(
            th.cat([self._known.places, new.places]),
            th.cat([self._known.targets, new.targets]),
            np.append(self._known.costs, new.costs),
        )

    def _drop_lifted(self) -> None:
        """Forget the snags whose penalty was taken off the graph."""
        kept = [row for row, handle in enumerate(self._handles) if self.graph.in_force(handle)]
        places, targets, costs = self._known
        self._known = _Places(places[kept], targets[kept], costs[kept])
        self._handles = [self._handles[row] for row in kept]
        self._version = self.graph.version


def _closed(places: th.Tensor) -> _Places:
    return _Places(places, places, np.full(len(places), np.inf))
