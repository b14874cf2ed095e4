"""Routes where some transitions are stochastic: the most probable way to the goal first, then the shortest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from proq_agent.chance.edges import ChanceEdge
from proq_agent.planning.graph import KeypointGraph, Routes, min_plus

_TIE = 1e-9  # differences in odds, or relative ones in cost, that make none


@dataclass(frozen=True, eq=False)
class ChanceNodes:
    """
    The nodes of a graph at which chance decides, and where it leads.

    :param entrances: ``[E]`` nodes from which one is moved to a random node
    :param outcomes: ``[E, K]`` probability of landing at each node, rows sum to one
    """

    entrances: np.ndarray
    outcomes: np.ndarray

    def __post_init__(self) -> None:
        n = len(self.entrances)
        if len(self.outcomes) != n or not np.allclose(self.outcomes.sum(axis=1), 1.0) or (self.outcomes < 0).any():
            raise ValueError(
                f"outcomes must be {n} rows of probabilities that sum to one, got shape {self.outcomes.shape}."
            )

    @classmethod
    def after(cls, n_keypoints: int, chance_edges: Sequence[ChanceEdge]) -> tuple[ChanceNodes, list[np.ndarray]]:
        """
        Entrances and then exits as nodes that follow the keypoints.

        :return: the nodes, and their points
        """
        n = len(chance_edges)
        points = [edge.entrance for edge in chance_edges] + [place for edge in chance_edges for place in edge.exits]
        outcomes, first_exit = np.zeros((n, n_keypoints + len(points))), n_keypoints + n
        for row, edge in enumerate(chance_edges):
            outcomes[row, first_exit : first_exit + len(edge.exits)] = edge.probabilities
            first_exit += len(edge.exits)
        return cls(n_keypoints + np.arange(n), outcomes), points


class ChanceGraph:
    """
    Routes over a keypoint graph with chance nodes: whoever gets to an entrance lands at one of several exits.

    Plans maximise the probability of reaching the goal and, among the plans that do, minimise the number of steps
    expected in the case of success. Between entrances the agent walks shortest paths; after one it plans anew from
    where it landed, so that a plan ends at the first entrance. Without entrances routes are those of the graph.

    No risk is taken because a keypoint is missing: a hop of up to twice ``max_hop``, two hops if there were a keypoint
    in its middle, is as sure as any, only expensive. Where there is no way at all, the map says so by far longer hops.

    :param graph: entrances and exits are nodes like any other
    :param nodes: which of them are entrances
    """

    def __init__(self, graph: KeypointGraph, nodes: ChanceNodes) -> None:
        if nodes.outcomes.shape[1] != graph.n_nodes:
            raise ValueError(f"outcomes are of {nodes.outcomes.shape[1]} nodes, the graph has {graph.n_nodes}.")
        self.nodes = nodes
        self.graph = graph  #: without the hops that leave entrances
        if len(nodes.entrances):
            is_entrance = np.isin(np.arange(graph.n_nodes), nodes.entrances)
            self.graph = graph.ending_at(is_entrance, trusted_hop=2.0 * graph.max_hop)

    def with_closures(self, blocked: np.ndarray, surcharges: np.ndarray | float) -> ChanceGraph:
        """As :meth:`KeypointGraph.with_closures`."""
        return ChanceGraph(self.graph.with_closures(blocked, surcharges), self.nodes)

    def routes(self, to_goal: np.ndarray, penalties: np.ndarray | float = 0.0) -> Routes:
        """As :meth:`KeypointGraph.routes`, by way of entrances where that is surer or, if as sure, shorter."""
        walk, entrances = self.graph.routes(to_goal, penalties), self.nodes.entrances
        if not len(entrances):
            return walk
        _, towards = self._to_entrances
        costs, odds, successors = (np.empty_like(part) for part in (walk.costs, walk.odds, walk.successors))
        nodes = np.arange(self.graph.n_nodes)
        for row in range(len(costs)):
            costs[row], odds[row], choice = self._best_choice(walk.costs[row], walk.trusted[row])
            successors[row] = np.where(choice < 0, walk.successors[row], towards[np.maximum(choice, 0), nodes])
        successors[:, entrances] = -1  # the plan ends here; what comes next, chance decides
        trusted = odds > 0
        return Routes(costs, successors, np.where(trusted, odds, walk.odds), trusted)

    @cached_property
    def _to_entrances(self) -> tuple[np.ndarray, np.ndarray]:
        """``[K, E]`` costs of trusted ways, inf where there is none; ``[E, K]`` next nodes on them."""
        graph, entrances = self.graph, self.nodes.entrances
        own = entrances, np.arange(len(entrances))
        costs = graph.costs[:, entrances].copy()
        costs[own] = 0.0
        costs[:, graph.blocked[entrances]] = np.inf
        _, towards = min_plus(graph.weights, costs.T)
        lengths = np.take_along_axis(graph.distances, towards.T, axis=1)
        lengths[own] = 0.0
        onward = towards.copy()
        onward[own[::-1]] = graph.n_nodes  # there
        onward[np.isinf(costs.T)] = -1
        return np.where(graph.all_trusted(lengths.T, onward).T, costs, np.inf), towards

    def _best_choice(self, walk_costs: np.ndarray, sure: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """
        Expected cost, odds and best entrance (-1: walk to the goal) of each node, for one goal.

        Policy iteration, first on the odds and then, among what is as sure as can be, on the cost: with the entrances
        that the nodes choose held fixed, odds and costs are small linear systems. A choice changes for a real gain
        only, so that none comes to wait for an entrance that leads back to itself.

        :param walk_costs: ``[K]`` cost of walking to the goal
        :param sure: ``[K]`` bool, whether all hops of that way are trusted
        """
        to_entrances, _ = self._to_entrances
        nodes, choice = np.arange(len(sure)), np.full(len(sure), -1)
        for _ in nodes:  # a few rounds will do
            odds = self._entrance_odds(sure, choice)
            options = np.where(np.isfinite(to_entrances), odds, 0.0)
            node_odds = np.where(choice < 0, sure, odds[choice])
            best = options.argmax(axis=1)
            gains = options[nodes, best] > node_odds + _TIE
            if not gains.any():
                break
            choice[gains] = best[gains]

        by_chance = np.where((odds >= node_odds[:, None] - _TIE) & (odds > 0), to_entrances, np.inf)
        walks = np.where(sure | (node_odds == 0.0), walk_costs, np.inf)
        for _ in nodes:
            options = by_chance + self._entrance_costs(walks, by_chance, node_odds, choice)
            costs = np.where(choice < 0, walks, options[nodes, choice])
            options = np.column_stack([options, walks])
            best = options.argmin(axis=1)
            gains = options[nodes, best] < costs * (1.0 - _TIE)
            if not gains.any():
                break
            choice[gains] = np.where(best == len(odds), -1, best)[gains]
        return costs, node_odds, choice

    def _entrance_odds(self, sure: np.ndarray, choice: np.ndarray) -> np.ndarray:
        """``[E]`` probability of reaching the goal, when every node keeps to its choice."""
        n, outcomes = len(self.nodes.entrances), self.nodes.outcomes
        transitions = outcomes @ (choice[:, None] == np.arange(n))  # from entrance to entrance
        absorbed = outcomes @ (sure & (choice < 0))  # walk to the goal
        hopeful = absorbed > 0
        for _ in range(n):
            hopeful |= transitions @ hopeful > 0
        odds = np.zeros(n)
        odds[hopeful] = _solve(transitions[np.ix_(hopeful, hopeful)], absorbed[hopeful])
        return odds.round(9)  # rounding errors must not look like better odds

    def _entrance_costs(
        self, walks: np.ndarray, by_chance: np.ndarray, node_odds: np.ndarray, choice: np.ndarray
    ) -> np.ndarray:
        """``[E]`` steps expected in the case of success, when every node keeps to its choice."""
        weights = self.nodes.outcomes * node_odds  # of each outcome counts the share that ends well
        hopeful = weights.any(axis=1)
        weights = weights[hopeful] / weights[hopeful].sum(axis=1, keepdims=True)
        onward = np.where(choice < 0, walks, by_chance[np.arange(len(choice)), choice])
        expected = 1.0 + (weights * np.where(weights > 0, onward, 0.0)).sum(axis=1)
        costs = np.full(len(hopeful), np.inf)
        costs[hopeful] = _solve(weights @ (choice[:, None] == np.flatnonzero(hopeful)), expected)
        return costs


def _solve(transitions: np.ndarray, immediate: np.ndarray) -> np.ndarray:
    """The values x = immediate + transitions x of a Markov chain whose every state may be left for good."""
    return np.linalg.solve(np.eye(len(immediate)) - transitions, immediate)
