"""Portals on the map of an exported agent: whoever goes to an entrance waits there, and lands at a random exit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from zoo.portable.runtime import Places, Routes, Runtime

MAX_ROUNDS = 100  # a few will do; rounding must not make it go on for ever


class Portals:
    """E entrances. The ways between nodes are known; what a goal leaves open is what it costs to land, E numbers."""

    def __init__(self, agent: Runtime) -> None:
        self.agent, self.entrances, self.outcomes = agent, agent.chance.entrances, agent.chance.outcomes
        self.update(agent.chance, agent.graph.closed)

    def update(self, ways: Any, closed: np.ndarray) -> None:
        """Take other ways between nodes, all by hops that are short enough, and other nodes for closed."""
        self.ways, self.onward = ways, ways.onward[:, self.entrances]
        self.costs = ways.costs[:, self.entrances] + self.agent.chance.waits
        self.costs[:, closed[self.entrances]] = np.inf

    def routes(self, end: Places, lengths: np.ndarray, last: np.ndarray) -> Routes:
        """
        Policy iteration: each node chooses one of the E portals, to walk (E) or to give up (E + 1), which costs as much
        as to miss the goal; until nobody chooses anything else.
        """
        agent, n, nodes = self.agent, len(self.entrances), np.arange(self.agent.size)
        walk = agent.walk(agent.graph, lengths, last)
        near = agent.walk(self.ways, lengths, np.where(lengths <= agent.graph.trusted_hop, last, np.inf))
        options = np.column_stack([self.costs, near.costs, np.full(len(nodes), agent.graph.miss)])
        landings, choices = np.full(n, np.inf), nodes
        for _ in range(MAX_ROUNDS):
            before, choices = choices, (options + np.append(landings, [0.0, 0.0])).argmin(axis=1)
            if (choices == before).all():
                break
            enters, costs = choices[:, None] == np.arange(n), options[nodes, choices]
            again = np.eye(n) - self.outcomes @ enters  # who lands may go to a portal once more
            landings = np.linalg.solve(again, self.outcomes @ costs)
        landing_odds = np.linalg.solve(again, self.outcomes @ (choices == n)).round(9)
        odds = (choices == n) + enters @ landing_odds
        spent = np.linalg.solve(again, self.outcomes @ np.where(choices <= n, costs * odds, 0.0))
        landing_costs = np.divide(spent, landing_odds, out=np.full(n, np.inf), where=landing_odds > 0)
        costs = costs + np.where(enters, landing_costs, 0.0).sum(axis=1)
        successors = np.append(self.onward, near.successors[:, None], axis=1)[nodes, np.minimum(choices, n)]
        successors = np.where(choices > n, walk.successors, successors)
        successors[self.entrances] = -1  # a plan ends here: what comes next, chance decides
        trusted = odds > 0
        costs, odds = np.where(trusted, costs, walk.costs), np.where(trusted, odds, walk.odds)
        return type(walk)(costs, successors, odds, trusted, landing_odds, landing_costs)
