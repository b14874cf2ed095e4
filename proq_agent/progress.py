"""When the world is not as the map says: notice that there is no progress, and remember where."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch as th

from proq_agent.planner import KeypointGraph

if TYPE_CHECKING:
    from proq_agent.navigator import Navigator

Distance = Callable[[th.Tensor, th.Tensor], th.Tensor]  # of embeddings [..., dim], whose leading dimensions broadcast

MIN_PROGRESS = 1.0  # the cost to go counts steps; less than one is the controller's noise


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
    :param keypoints: ``[K, embedding_dim]`` embeddings of the graph's nodes
    :param slack: how far beside a hop a place may lie
    """

    def __init__(self, graph: KeypointGraph, distance: Distance, keypoints: th.Tensor, slack: float) -> None:
        self.graph, self.distance, self.keypoints, self.slack = graph, distance, keypoints, slack
        self._places = self._targets = keypoints[:0]
        self._costs = np.zeros(0)  # inf: closed, in all directions
        self._handles: list[int] = []
        self._version = graph.version

    def add(self, place: th.Tensor, target: th.Tensor, cost: float) -> None:
        """
        :param place: ``[embedding_dim]`` s, where the agent is stuck
        :param target: ``[embedding_dim]`` t, where it was heading
        :param cost: added to every hop that leads past
        """
        edges = self._edges_past(place[None], target[None], np.array([cost]))
        self._append([self.graph.penalise(edges[:, 0], edges[:, 1], cost)], place[None], target[None], [cost])

    def close(self, places: th.Tensor, handle: int) -> None:
        """
        :param places: ``[P, embedding_dim]`` what nobody can pass any more
        :param handle: of the block in the graph, which these places share the fate of
        """
        self._append([handle] * len(places), places, places, [np.inf] * len(places))

    def edges_past(self, places: th.Tensor) -> np.ndarray:
        """``[n, 2]`` edges of the graph that lead past places in any direction."""
        return self._edges_past(places, places, np.full(len(places), np.inf))

    def _edges_past(self, places: th.Tensor, targets: th.Tensor, costs: np.ndarray) -> np.ndarray:
        snags = copy.copy(self)
        snags._places, snags._targets, snags._costs = places, targets, costs
        return np.argwhere(snags._extra(self.graph.distances, self.keypoints[:, None], self.keypoints) > 0)

    def _append(self, handles: list[int], places: th.Tensor, targets: th.Tensor, costs: list[float]) -> None:
        self._drop_lifted()
        self._handles += handles
        self._places, self._targets = th.cat([self._places, places]), th.cat([self._targets, targets])
        self._costs = np.append(self._costs, costs)

    def surcharge(self, distances: np.ndarray, starts: th.Tensor, ends: th.Tensor) -> np.ndarray:
        """
        Costs of hops that are not edges of the graph: their lengths, and what the snags on the way add.

        :param distances: ``[...]`` lengths of the hops
        :param starts: embeddings; with ``ends`` their leading dimensions broadcast to the shape of ``distances``
        :param ends: embeddings
        """
        if self._version != self.graph.version:
            self._drop_lifted()
        return distances + self._extra(distances, starts, ends) if self._handles else distances

    @th.no_grad()
    def _extra(self, distances: np.ndarray, starts: th.Tensor, ends: th.Tensor) -> np.ndarray:
        starts, ends = starts.unsqueeze(-2), ends.unsqueeze(-2)
        to_place, onward, from_target, to_target, planned = (
            self.distance(x, y).cpu().numpy()
            for x, y in (
                (starts, self._places),
                (self._places, ends),
                (self._targets, ends),
                (ends, self._targets),
                (self._places, self._targets),
            )
        )
        past = to_place + onward <= distances[..., None] + self.slack
        towards = (from_target < onward) | (to_target < planned)
        counts = past & np.where(np.isinf(self._costs), to_place > self.slack, towards)
        return np.where(counts, self._costs, 0.0).sum(axis=-1)

    def _drop_lifted(self) -> None:
        """Forget the snags whose penalty was taken off the graph."""
        kept = [row for row, handle in enumerate(self._handles) if handle in self.graph._changes]
        self._places, self._targets, self._costs = self._places[kept], self._targets[kept], self._costs[kept]
        self._handles = [self._handles[row] for row in kept]
        self._version = self.graph.version


class Progress(NamedTuple):
    """What is remembered of each agent from one step to the next."""

    goals: np.ndarray  #: ``[B, goal_dim]``
    best: np.ndarray  #: ``[B]`` the least cost to go so far, on the way to this goal over this graph
    stalled: np.ndarray  #: ``[B]`` steps since then
    version: np.ndarray  #: ``[B]`` of the graph


class ProgressMonitor:
    """
    Reroutes agents that get no closer: not told that the world has changed, they find out by bumping into it.

    An agent whose cost to go has not fallen for ``patience`` steps is stuck. What leads past the place where it is
    in the direction it was heading becomes more expensive by the cost to go, so that a few bumps at one place make
    any detour cheaper. This is learned for good, and shared by all agents on the same graph: see
    :meth:`KeypointGraph.clear_penalties`.

    :param patience: steps
    """

    def __init__(self, patience: int) -> None:
        if not isinstance(patience, int) or patience < 1:
            raise ValueError(f"patience must be a whole number of steps, at least 1, got {patience!r}")
        self.patience = patience

    def watch(
        self,
        navigator: Navigator,
        achieved: np.ndarray,
        desired: np.ndarray,
        targets: np.ndarray,
        costs: np.ndarray,
        state: Progress | None = None,
        episode_start: np.ndarray | None = None,
    ) -> tuple[Progress, bool]:
        """
        Take note of one step of each agent.

        :param navigator: whose plans they follow
        :param achieved: ``[B, goal_dim]`` where they are
        :param desired: ``[B, goal_dim]`` where they want to be
        :param targets: ``[B, goal_dim]`` what they head for now
        :param costs: ``[B]`` cost to go
        :param state: what the last call returned; None at the beginning
        :param episode_start: ``[B]`` agents that begin anew
        :return: the new state, and whether an agent was stuck: then plan again
        """
        version = np.full(len(costs), navigator.graph.version)
        if state is None or state.goals.shape != desired.shape:
            return Progress(desired.copy(), costs, np.zeros(len(costs), dtype=np.intp), version), False
        anew = (state.goals != desired).any(axis=1) | (state.version != version)
        if episode_start is not None:
            anew |= np.asarray(episode_start, dtype=bool)
        closer = anew | (costs <= state.best - MIN_PROGRESS) | np.isinf(costs)
        best = np.where(closer, costs, state.best)
        stalled = np.where(closer, 0, state.stalled + 1)
        stuck = np.flatnonzero(stalled >= self.patience)
        for row in stuck:
            navigator.avoid(achieved[row], targets[row], max(float(costs[row]), navigator.graph.max_hop))
        return Progress(desired.copy(), best, stalled, version), bool(len(stuck))
