"""Places on the map that cannot be passed as it says, and the hops that lead past them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch as th

from proq_agent.planning.graph import KeypointGraph

Pairwise = Callable[[th.Tensor, th.Tensor], th.Tensor]  # embeddings [A, dim] and [B, dim] -> distances [A, B]


class _Places(NamedTuple):
    """Where agents were stuck, and all about it that does not depend on where others are; a row for each of P."""

    places: th.Tensor  # embeddings
    targets: th.Tensor  # embeddings of where the agents were heading
    costs: np.ndarray  # inf: closed, in all directions
    planned: np.ndarray  # distance from place to target
    onward: np.ndarray  # [P, K] distance from the place to each node of the graph
    towards: np.ndarray  # [P, K] whether that node lies in the direction of the target


class Snags:
    """
    Places where an agent was stuck, and what they cost the hops that lead past them.

    A hop from a to b leads past the place s, where the agent was stuck on its way to t, if s lies on it,
    d(a, s) + d(s, b) <= d(a, b) + slack, and b lies in the direction of t: one of b and t is nearer to the other than
    s is. So one bump into a wall tells about all hops through it, however long, from either keypoints or states,
    while the way back and the ways beyond the wall stay what they were.

    The edges among these hops are penalised in the graph; the snag lasts as long as that penalty. A place that is
    known to be closed is a snag of infinite cost for hops in any direction, but for those that begin or end beside it;
    as it is one of many, it need not catch what passes at a distance.

    :param graph: whose edges are penalised
    :param pairwise: d of embeddings
    :param nodes: ``[K, embedding_dim]`` embeddings of the graph's nodes
    :param slack: how far beside a hop a place may lie
    """

    def __init__(self, graph: KeypointGraph, pairwise: Pairwise, nodes: th.Tensor, slack: float) -> None:
        self.graph, self.pairwise, self.nodes, self.slack = graph, pairwise, nodes, slack
        self._known = self._describe(nodes[:0], nodes[:0], np.inf)
        self._handles: list[int] = []
        self._version = graph.version

    def add(self, place: th.Tensor, target: th.Tensor, cost: float) -> None:
        """
        :param place: ``[embedding_dim]`` s, where the agent is stuck
        :param target: ``[embedding_dim]`` t, where it was heading
        :param cost: added to every hop that leads past
        """
        new = self._describe(place[None], target[None], cost)
        edges = self._edges_past(new)
        self._append(new, self.graph.penalise(edges[:, 0], edges[:, 1], cost))

    def close(self, places: th.Tensor, handle: int) -> None:
        """
        :param places: ``[P, embedding_dim]`` what nobody can pass any more
        :param handle: of the block in the graph, which these places share the fate of
        """
        self._append(self._describe(places, places, np.inf), handle)

    def edges_past(self, places: th.Tensor) -> np.ndarray:
        """``[n, 2]`` edges of the graph that lead past places in any direction."""
        return self._edges_past(self._describe(places, places, np.inf))

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

    def _penalties(self, of: _Places, distances: np.ndarray, starts: th.Tensor, ends: th.Tensor) -> np.ndarray:
        to_place = self._from(starts, of.places)
        onward, towards = (of.onward, of.towards) if ends is self.nodes else self._ahead(of, ends)
        onward, towards = np.moveaxis(onward, 0, -1), np.moveaxis(towards, 0, -1)
        length, closed = distances[..., None], np.isinf(of.costs)
        past = to_place + onward <= length + np.where(closed, self.slack / 4, self.slack)
        between = (to_place > self.slack) & (to_place < length)
        return np.where(past & np.where(closed, between, towards), of.costs, 0.0).sum(axis=-1)

    def _describe(self, places: th.Tensor, targets: th.Tensor, cost: float) -> _Places:
        costs, planned = np.full(len(places), cost), self._from(places, targets).diagonal()
        nowhere = np.empty((len(places), 0))
        new = _Places(places, targets, costs, planned, nowhere, nowhere)
        onward, towards = self._ahead(new, self.nodes)
        return new._replace(onward=onward, towards=towards)

    def _ahead(self, of: _Places, ends: th.Tensor) -> tuple[np.ndarray, np.ndarray]:
        """``[P, ...]`` distance from each place to ends ``[..., dim]``, and whether these lie ahead."""
        onward = self._to(of.places, ends)
        planned = of.planned.reshape(-1, *[1] * (ends.ndim - 1))
        ahead = self._to(of.targets, ends) < onward
        ahead |= np.moveaxis(self._from(ends, of.targets), -1, 0) < planned
        return onward, ahead

    @th.no_grad()
    def _from(self, points: th.Tensor, places: th.Tensor) -> np.ndarray:
        """Distances ``[..., P]`` from points ``[..., dim]`` to places ``[P, dim]``."""
        return self.pairwise(points.flatten(end_dim=-2), places).cpu().numpy().reshape(*points.shape[:-1], len(places))

    @th.no_grad()
    def _to(self, places: th.Tensor, points: th.Tensor) -> np.ndarray:
        """Distances ``[P, ...]`` from places ``[P, dim]`` to points ``[..., dim]``."""
        return self.pairwise(places, points.flatten(end_dim=-2)).cpu().numpy().reshape(len(places), *points.shape[:-1])

    def _edges_past(self, places: _Places) -> np.ndarray:
        return np.argwhere(self._penalties(places, self.graph.distances, self.nodes[:, None], self.nodes) > 0)

    def _append(self, new: _Places, handle: int) -> None:
        self._drop_lifted()
        self._handles += [handle] * len(new.costs)
        places, targets, *arrays = zip(self._known, new, strict=True)
        self._known = _Places(th.cat(places), th.cat(targets), *map(np.concatenate, arrays))  # type: ignore[arg-type]

    def _drop_lifted(self) -> None:
        """Forget the snags whose penalty was taken off the graph."""
        kept = [row for row, handle in enumerate(self._handles) if self.graph.in_force(handle)]
        self._known = _Places(*(part[kept] for part in self._known))  # type: ignore[arg-type]
        self._handles = [self._handles[row] for row in kept]
        self._version = self.graph.version
