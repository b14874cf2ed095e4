"""Plans where some steps are a lottery: first the surest way to the goal, then the shortest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from proq_agent.planner import COST_OF_A_MISS, KeypointGraph, Routes, min_plus


class ChanceGraph(KeypointGraph):
    """
    A keypoint graph in which some nodes are entrances: whoever gets there lands at one of several exits.

    Plans maximise the probability of reaching the goal and, among the plans that do, minimise the number of steps
    expected in the case of success. Between lotteries the agent walks shortest paths; after one it plans anew from
    where it landed, so that a plan ends at the first entrance. Without entrances it is the graph that it extends.

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
        to_entrances = self.costs[:, self.entrances].copy()
        to_entrances[self.entrances, np.arange(len(self.entrances))] = 0.0
        _, towards = min_plus(self.weights, to_entrances.T)

        sure = np.isfinite(walk.costs)
        costs, ranks, successors = (np.empty_like(part) for part in (walk.costs, walk.ranks, walk.successors))
        for row in range(len(to_goal)):
            node_ranks, node_costs, ticket = self._values(walk.costs[row], sure[row], to_entrances)
            costs[row], ranks[row] = node_costs, node_ranks
            nodes = np.arange(self.n_nodes)
            successors[row] = np.where(ticket < 0, walk.successors[row], towards[np.maximum(ticket, 0), nodes])
        successors[:, self.entrances] = -1  # the plan ends here; what comes next, chance decides
        return Routes(costs, successors, ranks, walk.stretched)

    def _values(
        self, walk_costs: np.ndarray, sure: np.ndarray, to_entrances: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rank, expected cost and best entrance (-1: walk to the goal) of each node, for one goal."""
        reachable = np.isfinite(to_entrances)

        def best(entrance_odds: np.ndarray) -> np.ndarray:
            return np.maximum(sure, np.where(reachable, entrance_odds, 0.0).max(axis=1))

        entrance_odds = _fixed_point(lambda odds: self.outcomes @ best(odds), np.zeros(len(self.entrances)))
        entrance_odds = entrance_odds.round(9)  # what value iteration leaves must not look like better odds
        node_odds = best(entrance_odds)
        # Only plans that are as sure as any may compete for the lowest cost.
        walks = np.where(sure & (node_odds <= 1.0), walk_costs, np.inf)
        plays = np.where(reachable & (entrance_odds >= node_odds[:, None]) & (entrance_odds > 0), to_entrances, np.inf)

        def cheapest(entrance_costs: np.ndarray) -> np.ndarray:
            return np.minimum(walks, (plays + entrance_costs).min(axis=1))

        # Of each outcome counts the share that ends well; an entrance without any is never played.
        weights = self.outcomes * node_odds
        weights[entrance_odds > 0] /= weights[entrance_odds > 0].sum(axis=1, keepdims=True)

        def expected(entrance_costs: np.ndarray) -> np.ndarray:
            return 1.0 + (weights * np.where(weights > 0, cheapest(entrance_costs), 0.0)).sum(axis=1)

        entrance_costs = _fixed_point(expected, np.zeros(len(self.entrances)))
        costs = cheapest(entrance_costs)
        ticket = np.where(walks <= costs, -1, (plays + entrance_costs).argmin(axis=1))
        # Nothing leads to the goal: no rank at all.
        ranks = np.where(np.isfinite(costs), costs + COST_OF_A_MISS * (1.0 - node_odds), np.inf)
        return ranks, costs, ticket


def _fixed_point(step: Callable[[np.ndarray], np.ndarray], value: np.ndarray, most: int = 100_000) -> np.ndarray:
    """Value iteration from below: a lottery that leads back to its own entrance counts again and again."""
    for _ in range(most):
        last, value = value, step(value)
        if np.allclose(value, last, rtol=1e-12, atol=1e-12, equal_nan=True):
            break
    return value
