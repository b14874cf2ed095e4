"""Hops over a directed graph of keypoints: what they cost, which one a state takes next, and what comes of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from proq_agent.planning.components import Components

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


class EdgeList(NamedTuple):
    """``E`` edges of a graph, ordered by their starts and then by their ends."""

    starts: np.ndarray  #: ``[E]`` nodes
    ends: np.ndarray  #: ``[E]`` nodes
    lengths: np.ndarray  #: ``[E]`` finite

    @property
    def pairs(self) -> np.ndarray:
        """``[E, 2]``"""
        return np.stack([self.starts, self.ends], axis=1)

    def among(self, n_nodes: int | None) -> EdgeList:
        """Those between the first so many nodes."""
        if n_nodes is None:
            return self
        kept = (self.starts < n_nodes) & (self.ends < n_nodes)
        return EdgeList(*(part[kept] for part in self))


class HopGraph(ABC):
    """
    What dense and sparse graphs have in common: see :class:`~proq_agent.planning.graph.KeypointGraph`, which says what
    the parameters mean.
    """

    def __init__(
        self,
        n_nodes: int,
        max_hop: float,
        reach: float,
        caution: float,
        bridges: bool,
        trusted_hop: float | None,
        terminals: ArrayLike,
        blocked: ArrayLike,
    ) -> None:
        if not (max_hop > 0 and reach >= 0 and caution >= 0):
            raise ValueError(
                f"max_hop must be positive, reach and caution non-negative, got {max_hop}, {reach} and {caution}."
            )
        self.n_nodes = n_nodes
        self.terminals, self.blocked = (
            np.broadcast_to(np.asarray(mask, dtype=bool), n_nodes) for mask in (terminals, blocked)
        )
        self.max_hop, self.reach, self.caution = float(max_hop), float(reach), float(caution)
        self.bridges = bridges
        self.trusted_hop = self.max_hop if trusted_hop is None else float(trusted_hop)

    # What each of the two does in its own way.

    @property
    @abstractmethod
    def edges(self) -> EdgeList:
        """All edges, closed ones too."""

    @property
    @abstractmethod
    def open_hops(self) -> EdgeList:
        """The edges that are open and not longer than ``max_hop``."""

    @abstractmethod
    def routes(self, to_goal: np.ndarray, penalties: np.ndarray | float = 0.0) -> Routes:
        """
        Shortest routes from every keypoint to each goal.

        :param to_goal: ``[B, K]`` (or ``[K]``) distances from each keypoint to each goal
        :param penalties: likewise, what these last hops cost beyond their length
        """

    @abstractmethod
    def surcharges_of(self, charges: Iterable[tuple[np.ndarray, float]]) -> np.ndarray | float:
        """
        What :meth:`with_closures` wants of edges that cost more.

        :param charges: edges ``[n, 2]`` and what each of them costs beyond its length; inf closes them
        """

    def with_closures(self, blocked: np.ndarray, surcharges: np.ndarray | float) -> HopGraph:
        """
        The same graph with other nodes blocked and other surcharges.

        :param blocked: ``[K]`` bool
        :param surcharges: what :meth:`surcharges_of` returns
        """
        return self._with(blocked=blocked, surcharges=surcharges)

    @abstractmethod
    def ending_at(self, terminals: np.ndarray, trusted_hop: float) -> HopGraph:
        """
        The same graph with other terminals, and another length of hops that are trusted.

        :raises ValueError: if it is sparse
        """

    @abstractmethod
    def _with(self, **changes: Any) -> HopGraph:
        """The same graph with other arguments."""

    # What they share.

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

    def last_hops(self, to_goal: np.ndarray, penalties: np.ndarray | float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """``[B, K]`` lengths and costs of the hops to each goal, inf where none is allowed; see :meth:`routes`."""
        to_goal = np.atleast_2d(np.asarray(to_goal, dtype=np.float64))
        if to_goal.ndim != 2 or to_goal.shape[1] != self.n_nodes:
            raise ValueError(f"to_goal must be [B, {self.n_nodes}], got {to_goal.shape}.")
        if np.isnan(to_goal).any():
            raise ValueError("to_goal holds NaN: the goal is far from all that was learned from.")
        to_goal = np.where(self.blocked | self.terminals, np.inf, to_goal)
        return to_goal, self.hop_costs(to_goal) + penalties

    def all_trusted(self, lengths: np.ndarray, successors: np.ndarray) -> np.ndarray:
        """``[B, K]`` whether no hop from a node to its successor and so on to the goal is beyond ``trusted_hop``."""
        own = (lengths <= self.trusted_hop) & (successors >= 0)
        if (own | (successors < 0)).all():  # nobody's way leads over a node without a successor
            return own
        trusted = np.ones((len(lengths), self.n_nodes + 1), dtype=bool)  # the goal itself is last
        trusted[:, :-1] = own
        ahead = np.full(trusted.shape, self.n_nodes)
        ahead[:, :-1] = np.where(successors < 0, self.n_nodes, successors)
        for _ in range(self.n_nodes.bit_length()):  # each time the way ahead that is looked at doubles
            if (ahead == self.n_nodes).all():
                break
            trusted &= np.take_along_axis(trusted, ahead, axis=1)
            ahead = np.take_along_axis(ahead, ahead, axis=1)
        return trusted[:, :-1]

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
        goal, rows = self.n_nodes, np.arange(len(from_state))
        hops = self.surest(routes, from_state, state_to_goal, penalties, goal_penalties, goal_odds)
        target, lost = hops.target, np.isinf(hops.cost)
        if lost.any():
            first_hop = (self.hop_costs(from_state) + penalties)[lost]
            refuges = np.where(self.blocked | self.terminals, np.inf, first_hop)
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
            else:  # in a circle until chance strikes, which need not strike who stands still
                apart = np.where(from_state <= self.reach, np.inf, from_state)
                away = self.surest(routes, apart, state_to_goal, penalties, goal_penalties, goal_odds)
                target = np.where(reached, away.target, target)
        return hops._replace(target=target)

    def surest(
        self,
        routes: Routes,
        from_state: np.ndarray,
        state_to_goal: np.ndarray,
        penalties: np.ndarray | float,
        goal_penalties: np.ndarray | float,
        goal_odds: np.ndarray | float = 1.0,
    ) -> Hops:
        """
        :meth:`next_hops` as if no keypoint were reached: the surest and then cheapest of the columns of ``routes``,
        whose number stands for the goal itself. Of equal ones the goal is taken, or else the first.
        """
        rows = np.arange(len(from_state))
        costs = self.hop_costs(from_state) + penalties + routes.costs
        trusted = routes.trusted & (from_state <= self.trusted_hop)
        miss = self.cost_of_a_miss
        ranks = costs + miss * ((1.0 - routes.odds) + ~trusted)
        target = ranks.argmin(axis=1)
        direct_cost, near = self.hop_costs(state_to_goal) + goal_penalties, state_to_goal <= self.trusted_hop
        direct = direct_cost + miss * ((1.0 - goal_odds) + ~near) <= ranks[rows, target]
        cost = np.where(direct, direct_cost, costs[rows, target])
        odds = np.where(direct, near * goal_odds, (routes.odds * trusted)[rows, target])
        target[direct] = routes.costs.shape[1]
        return Hops(target, cost, odds, state_to_goal <= self.reach)

    def path(self, routes: Routes, first: int) -> list[int]:
        """
        The whole plan of one state: the nodes to visit, from its next hop to the goal ``K``.

        :param routes: routes to one goal
        :param first: the next hop
        :return: nodes that end with ``K``, or the next hop alone when there is no route from there
        """
        nodes, successors = [int(first)], routes.successors[0]
        while len(nodes) <= self.n_nodes and nodes[-1] < self.n_nodes:
            onward = successors.item(nodes[-1])
            if onward < 0:
                break
            nodes.append(onward)
        return nodes

    def connectivity(self, n_nodes: int | None = None) -> Connectivity:
        """
        Share of ordered pairs with a route, and the number of strongly connected components.

        :param n_nodes: only among the first so many nodes
        """
        components = self.components(n_nodes)
        n = len(components.nodes)
        return Connectivity(components.connected_pairs / max(n * (n - 1), 1), components.number)

    def components(self, n_nodes: int | None = None) -> Components:
        """
        What hangs together by open hops, of the nodes that are not blocked.

        :param n_nodes: only among the first so many nodes
        """
        hops = self.open_hops.among(n_nodes)
        return Components.of(np.flatnonzero(~self.blocked[:n_nodes]), hops.starts, hops.ends)

    def nearest(self, n_nodes: int | None = None) -> np.ndarray:
        """
        ``[n_nodes]`` distance from each node to the nearest other one, inf if no edge leads to any.

        :param n_nodes: only among the first so many nodes
        """
        starts, ends, lengths = self.edges.among(n_nodes)
        nearest = np.full(self.n_nodes if n_nodes is None else n_nodes, np.inf)
        np.minimum.at(nearest, starts, np.where(starts == ends, np.inf, lengths))
        return nearest
