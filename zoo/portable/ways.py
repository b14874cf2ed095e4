"""The best ways over the graph of an exported agent, where chance may take one from a hop to somewhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from zoo.portable.runtime import Runtime

TIE = 1e-9  # relative differences that make none


class Hops(NamedTuple):
    """From A places to B others."""

    lengths: np.ndarray  #: ``[A, B]``, infinite where something closed is in the way
    tolls: np.ndarray  #: ``[A, B]`` what they cost beyond their lengths
    costs: np.ndarray  #: ``[A, B]`` with tolls
    arrive: np.ndarray  #: ``[A, B]`` odds that they end where they should
    struck: np.ndarray  #: ``[A, B, E]`` odds that chance takes one, instead, to where each of E entrances leads

    def join(self, *others: Hops) -> Hops:
        """From the same places, to these ends and to others."""
        return Hops(*(np.concatenate(parts, axis=1) for parts in zip(self, *others, strict=True)))


class Routes(NamedTuple):
    """From each node to a goal."""

    odds: np.ndarray  #: ``[K]`` of getting there
    spent: np.ndarray  #: ``[K]`` costs in the case of success, times these odds
    successors: np.ndarray  #: ``[K]`` next nodes, K for the goal, -1 if there is none or chance decides


class Ways:
    """The graph as it is now: ``[K, K]`` hops between nodes, and ``[K]`` bool, which nodes are closed."""

    def __init__(self, agent: Runtime, hops: Hops, closed: np.ndarray) -> None:
        self.agent, self.size, self.outcomes, entrances = agent, len(closed), agent.outcomes, agent.entrances
        self.open = ~closed & ~np.isin(np.arange(self.size), entrances)  # nodes that one can go to and leave
        costs = np.where(closed | closed[:, None] | np.eye(self.size, dtype=bool), np.inf, hops.costs)
        short = (hops.lengths <= agent.settings.max_hop) & np.isfinite(costs)
        self.hops = hops._replace(costs=costs + TIE * costs.max(initial=1.0, where=short))  # ties go to fewer hops
        wary = self.hops.costs + agent.miss * (1.0 - hops.arrive)
        self.shortest = np.where(np.eye(self.size, dtype=bool), 0.0, wary)  # Floyd and Warshall's algorithm
        for node in range(self.size):
            self.shortest = np.minimum(self.shortest, self.shortest[:, node, None] + self.shortest[node])
        # The last resort of a node is to wait, at an entrance; or to give up, which costs as much as to miss the goal.
        waiting, none = np.flatnonzero(~closed[entrances]), np.zeros((self.size, 1))
        costs, struck = none + agent.miss, np.zeros((self.size, 1, len(entrances)))
        costs[entrances[waiting], 0] = agent.chance.waits[waiting]
        struck[entrances[waiting], 0, waiting] = 1.0
        self.resort = Hops(none, none, costs, none, struck)

    def to(self, last: Hops) -> tuple[Routes, np.ndarray, np.ndarray]:
        """
        By ``[K, 1]`` last hops to a goal.

        :return: the routes, ``[K]`` bool, which of them are by hops that are short enough, and ``[2, E]`` the odds of
            those whom chance takes away, and what they spend
        """
        n, last = self.size, last._replace(costs=np.where(self.open[:, None], last.costs, np.inf))
        hops = self.hops.join(last, self.resort)
        short = hops.lengths <= self.agent.graph.trusted_hop
        # The shortest ways, in which gaps are bridged, and nothing is left to chance.
        wary = (hops.costs + self.agent.miss * (1.0 - hops.arrive))[:, :-1]
        costs = (self.shortest + wary[:, n]).min(axis=1)
        onward, possible = (wary + np.append(costs, 0.0)).argmin(axis=1), np.isfinite(costs)
        walk = Routes(possible.astype(float), np.where(possible, costs, 0.0), np.where(possible, onward, -1))
        trusted = np.append(np.zeros(n, dtype=bool), True)
        for node in costs.argsort():  # from the goal backwards
            trusted[node] = possible[node] and short[node, onward[node]] and trusted[onward[node]]
        # Those of them that can be trusted are where to begin to look for better ones.
        hops = hops._replace(costs=np.where(short, hops.costs, np.inf))
        best = self.improve(hops, np.where(trusted[:n], onward, n + 1))
        trusted, landings = best.odds > 0, np.array(best[:2]) @ self.outcomes.T
        return Routes(*(np.where(trusted, *both) for both in zip(best, walk, strict=True))), trusted, landings

    def improve(self, hops: Hops, choice: np.ndarray) -> Routes:
        """
        Policy iteration: while a node can do better, let it. Sure hops, portals and hazards are alike: a hop
        arrives, or ends where chance leads. Columns of hops are nodes, the goal, and the last resort.
        """
        n, rows = self.size, np.arange(self.size)
        for _ in range(10 * n):  # a few rounds will do; rounding must not make it go on for ever
            costs, arrive, struck = (part[rows, choice] for part in hops[2:])
            leads = np.append(struck @ self.outcomes, np.zeros((n, 2)), axis=1)
            leads[rows, choice] += arrive
            visits = np.linalg.inv(np.eye(n) - leads[:, :n])  # how often one comes by each node on the way from another
            values = visits @ costs
            options = hops.costs + hops.arrive * np.append(values, [0.0, 0.0]) + hops.struck @ (self.outcomes @ values)
            options[rows, choice] = values * (1.0 - TIE)
            before, choice = choice, options.argmin(axis=1)
            if (choice == before).all():
                break
        odds = (visits @ leads[:, n]).round(9)
        return Routes(odds, visits @ (costs * odds), np.where(choice > n, -1, choice))
