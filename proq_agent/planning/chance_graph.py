"""Plans where some steps are a lottery: first the surest way to the goal, then the shortest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proq_agent.planning.graph import KeypointGraph, Routes, min_plus

_TIE = 1e-9  # odds or shares of a cost that make no difference


class ChanceGraph(KeypointGraph):
    """
    A keypoint graph in which some nodes are entrances: whoever gets there lands at one of several exits.

    Plans maximise the probability of reaching the goal and, among the plans that do, minimise the number of steps
    expected in the case of success. Between lotteries the agent walks shortest paths; after one it plans anew from
    where it landed, so that a plan ends at the first entrance. Without entrances it is the graph that it extends.

    Nobody gambles because a keypoint is missing: a hop of up to twice ``max_hop``, two hops if there were a keypoint in
    its middle, is as sure as any, only expensive. Where there is no way at all, the map says so by far longer hops.

    :param distances: as for :class:`KeypointGraph`; entrances and exits are nodes like any other
    :param max_hop: likewise
    :param reach: likewise
    :param points: likewise
    :param caution: likewise
    :param barred: likewise
    :param entrances: nodes that are entrances
    :param outcomes: ``[entrances, nodes]`` probability of landing at each node, rows sum to one
    """

    def __init__(
        self,
        distances: np.ndarray,
        max_hop: float,
        reach: float = 0.0,
        points: np.ndarray | None = None,
        caution: float = 0.0,
        barred: Sequence[int] | np.ndarray = (),
        *,
        entrances: Sequence[int] | np.ndarray = (),
        outcomes: np.ndarray | None = None,
    ) -> None:
        self.entrances = np.asarray(entrances, dtype=np.intp)
        walkable = np.array(distances, dtype=np.float64)
        walkable[self.entrances] = np.inf  # nobody walks on from an entrance
        super().__init__(walkable, max_hop, reach, points, caution, barred)
        if len(self.entrances):
            self.trusted_hop = 2.0 * self.max_hop
        n = (len(self.entrances), self.n_nodes)
        self.outcomes = np.zeros(n) if outcomes is None else np.asarray(outcomes, dtype=np.float64)
        if self.outcomes.shape != n or not np.allclose(self.outcomes.sum(axis=1), 1.0) or (self.outcomes < 0).any():
            raise ValueError(
                f"outcomes must be {n} probabilities with rows that sum to one, got {self.outcomes.shape}."
            )

    def routes(self, to_goal: np.ndarray, penalties: np.ndarray | float = 0.0) -> Routes:
        """As :meth:`KeypointGraph.routes`, by way of entrances where that is surer or, if as sure, shorter."""
        to_goal = np.array(to_goal, dtype=np.float64, ndmin=2)
        to_goal[:, self.entrances] = np.inf
        walk = super().routes(to_goal, penalties)
        if not len(self.entrances):
            return walk
        to_entrances, towards = self._to_entrances()
        costs, odds, successors = (np.empty_like(part) for part in (walk.costs, walk.odds, walk.successors))
        nodes = np.arange(self.n_nodes)
        for row in range(len(to_goal)):
            costs[row], odds[row], ticket = self._values(walk.costs[row], walk.trusted[row], to_entrances)
            successors[row] = np.where(ticket < 0, walk.successors[row], towards[np.maximum(ticket, 0), nodes])
        successors[:, self.entrances] = -1  # the plan ends here; what comes next, chance decides
        trusted = odds > 0
        return Routes(costs, successors, np.where(trusted, odds, walk.odds), trusted)

    def _to_entrances(self) -> tuple[np.ndarray, np.ndarray]:
        """``[nodes, entrances]`` costs of trusted ways, inf where there is none; ``[entrances, nodes]`` next nodes."""
        own = self.entrances, np.arange(len(self.entrances))
        costs = self.costs[:, self.entrances].copy()
        costs[own] = 0.0
        costs[:, self.blocked[self.entrances]] = np.inf
        _, towards = min_plus(self.weights, costs.T)
        lengths = np.take_along_axis(self.distances, towards.T, axis=1)
        lengths[own] = 0.0
        onward = towards.copy()
        onward[own[::-1]] = self.n_nodes  # there
        onward[np.isinf(costs.T)] = -1
        return np.where(self._trusted(lengths.T, onward).T, costs, np.inf), towards

    def _refuges(self) -> np.ndarray:
        refuges = super()._refuges()
        refuges[self.entrances] = False  # nobody is to gamble for want of a plan
        return refuges

    def _values(
        self, walk_costs: np.ndarray, sure: np.ndarray, to_entrances: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """
        Expected cost, odds and best entrance (-1: walk to the goal) of each node, for one goal.

        Policy iteration, first on the odds and then, among what is as sure as can be, on the cost: with the entrances
        that the nodes go for held fixed, odds and costs are small linear systems. A node changes its mind for a real
        gain only, so that none comes to wait for a lottery that leads back to itself.
        """
        nodes, ticket = np.arange(self.n_nodes), np.full(self.n_nodes, -1)
        for _ in nodes:  # a few rounds will do
            odds = self._entrance_odds(sure, ticket)
            options = np.where(np.isfinite(to_entrances), odds, 0.0)
            node_odds = np.where(ticket < 0, sure, odds[ticket])
            best = options.argmax(axis=1)
            gains = options[nodes, best] > node_odds + _TIE
            if not gains.any():
                break
            ticket[gains] = best[gains]

        plays = np.where((odds >= node_odds[:, None] - _TIE) & (odds > 0), to_entrances, np.inf)
        walks = np.where(sure | (node_odds == 0.0), walk_costs, np.inf)
        for _ in nodes:
            entrance_costs = self._entrance_costs(walks, plays, node_odds, ticket)
            options = plays + entrance_costs
            costs = np.where(ticket < 0, walks, options[nodes, ticket])
            options = np.column_stack([options, walks])
            best = options.argmin(axis=1)
            gains = options[nodes, best] < costs * (1.0 - _TIE)
            if not gains.any():
                break
            ticket[gains] = np.where(best == len(odds), -1, best)[gains]
        return costs, node_odds, ticket

    def _entrance_odds(self, sure: np.ndarray, ticket: np.ndarray) -> np.ndarray:
        """``[entrances]`` probability of reaching the goal, when every node keeps to its ticket."""
        again = self.outcomes @ (ticket[:, None] == np.arange(len(self.entrances)))
        won = self.outcomes @ (sure & (ticket < 0))
        hopeful = won > 0
        for _ in self.entrances:
            hopeful |= again @ hopeful > 0
        odds = np.zeros(len(self.entrances))
        odds[hopeful] = _solve(again[np.ix_(hopeful, hopeful)], won[hopeful])
        return odds.round(9)  # rounding errors must not look like better odds

    def _entrance_costs(
        self, walks: np.ndarray, plays: np.ndarray, node_odds: np.ndarray, ticket: np.ndarray
    ) -> np.ndarray:
        """``[entrances]`` steps expected in the case of success, when every node keeps to its ticket."""
        weights = self.outcomes * node_odds  # of each outcome counts the share that ends well
        hopeful = weights.any(axis=1)
        weights = weights[hopeful] / weights[hopeful].sum(axis=1, keepdims=True)
        onward = np.where(ticket < 0, walks, plays[np.arange(len(ticket)), ticket])
        expected = 1.0 + (weights * np.where(weights > 0, onward, 0.0)).sum(axis=1)
        costs = np.full(len(self.entrances), np.inf)
        costs[hopeful] = _solve(weights @ (ticket[:, None] == np.flatnonzero(hopeful)), expected)
        return costs


def _solve(again: np.ndarray, once: np.ndarray) -> np.ndarray:
    """x = once + again x: a lottery that leads back to its own entrance counts again and again."""
    return np.linalg.solve(np.eye(len(once)) - again, once)
