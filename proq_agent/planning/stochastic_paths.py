"""Stochastic shortest paths to a goal: hops that may go wrong, and nodes from which one is taken to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from proq_agent.chance.hazards import Risks

_TIE = 1e-9  # relative differences in value that make none
_FORGOTTEN = 1e-12  # what is less likely to lie ahead; nodes may lead in a circle until chance takes one out of it
_DOUBLINGS = 40


class Paths(NamedTuple):
    """The best policy for one goal, and what comes of it at each of ``K`` nodes."""

    successors: np.ndarray  #: ``[K]`` next node, ``K`` for the goal, -1 for none
    odds: np.ndarray  #: ``[K]`` probability of reaching the goal
    costs: np.ndarray  #: ``[K]`` expected in the case of success, inf where there is none
    certain: np.ndarray  #: ``[K]`` bool: chance has no part in it, nor in the policy to begin with
    landing_odds: np.ndarray  #: ``[E]`` odds of those whom chance takes away
    landing_costs: np.ndarray  #: ``[E]`` their costs


class StochasticPaths:
    """
    Policies over ``K`` nodes that minimise the expected cost, where giving up has its price.

    :param hop_costs: ``[K, K]``, inf where there is no hop; none leaves an entrance
    :param risky: pairs ``(i, j)`` of nodes whose hops are not safe, two arrays ``[P]``
    :param risks: ``[P]`` of these hops
    :param entrances: ``[E]`` nodes at which one waits to be taken away
    :param waits: ``[E]`` how long; inf where one may not
    :param outcomes: ``[E, K]`` where to
    :param miss: cost of giving up
    """

    def __init__(
        self,
        hop_costs: np.ndarray,
        risky: tuple[np.ndarray, np.ndarray],
        risks: Risks,
        entrances: np.ndarray,
        waits: np.ndarray,
        outcomes: np.ndarray,
        miss: float,
    ) -> None:
        self.entrances, self.waits, self.outcomes, self.miss = entrances, waits, outcomes, miss
        # As a list, ordered by their starts, because most pairs of nodes have no hop; at its end one that nobody takes.
        starts, ends = np.nonzero(np.isfinite(hop_costs))
        n = len(starts)
        self.costs, self.ends = np.append(hop_costs[starts, ends], np.inf), np.append(ends, 0)
        self.number = np.full(hop_costs.shape, n, dtype=np.int32)  # of each hop in that list
        self.number[starts, ends] = np.arange(n)
        self._starts, self._leaving = starts, np.unique(starts, return_index=True, return_counts=True)
        exist = self.number[risky] < n
        self._risky, self._risks = self.number[risky][exist], type(risks)(*(part[exist] for part in risks))
        self.survival = np.ones(n + 1)
        self.survival[self._risky] = self._risks.survival
        self._risk = np.full(n + 1, len(self._risky), dtype=np.int32)  # of each hop among the risky ones
        self._risk[self._risky] = np.arange(len(self._risky))
        self._losses = np.concatenate([self._risks.losses, np.zeros((1, len(entrances)))])

    def losses(self, hops: np.ndarray) -> np.ndarray:
        """``[n, E]`` of some hops."""
        return self._losses[self._risk[hops]]

    def best(self, successors: np.ndarray, last_hops: np.ndarray, last_risks: Risks) -> Paths:
        """
        Policy iteration: while nodes keep to their successors, values are a small linear system. A node changes for a
        real gain only, so that none comes to wait for an entrance that leads back to itself.

        :param successors: ``[K]`` a policy to begin with; -1 gives up
        :param last_hops: ``[K]`` costs of hops to the goal, inf where there is none
        :param last_risks: ``[K]`` of these hops
        """
        n = len(successors)
        goal = n
        begin = policy = _Policy(self, successors, last_hops, last_risks)
        for _ in range(10 * n):  # a few rounds will do; rounding errors must not make it go on for ever
            values, landings = policy.evaluate(policy.costs, at_goal=0.0, stranded=self.miss)
            best, least = self._best_hops(values, landings)
            options = np.stack([values * (1.0 - _TIE), least, last_hops + last_risks.losses @ landings])
            options = np.concatenate([options, np.full((1, n), self.miss)])
            options[1:, self.entrances] = np.inf  # nobody chooses here
            change = options.argmin(axis=0)
            if not change.any():
                break
            successors = np.choose(change, [policy.successors, best, goal, -1])
            policy = _Policy(self, successors, last_hops, last_risks)
        return policy.outcome(begin)

    def _best_hops(self, values: np.ndarray, landings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``[K]`` where the best hop of each node leads, and what it costs to go that way; inf if there is none."""
        ends, least = np.zeros(len(values), dtype=np.intp), np.full(len(values), np.inf)
        if len(self._starts):
            nodes, first, number = self._leaving
            sums = self.costs[:-1] + self.survival[:-1] * values[self.ends[:-1]]
            sums[self._risky] += self._risks.losses @ landings
            least[nodes] = lowest = np.minimum.reduceat(sums, first)
            paid = np.flatnonzero(sums == lowest.repeat(number))[::-1]  # of several the first is written last
            ends[self._starts[paid]] = self.ends[paid]
        return ends, least


class _Policy:
    """
    What every node does next. Any quantity x that adds up along the way then obeys, with goal and exits as the ends,
    x_i = constant_i + survival_i x_successor(i) + losses_i · landings, where landings = outcomes x.
    """

    def __init__(
        self, paths: StochasticPaths, successors: np.ndarray, last_hops: np.ndarray, last_risks: Risks
    ) -> None:
        n = len(successors)
        nodes, ends, gives_up = np.arange(n), successors == n, successors < 0
        hops = np.where(ends | gives_up, -1, paths.number[nodes, np.where(ends | gives_up, 0, successors)])
        self.paths, self.successors, self.gives_up = paths, successors, gives_up
        self.costs = np.where(ends, last_hops, paths.costs[hops])
        self.survival = np.where(ends, last_risks.survival, paths.survival[hops])
        self.losses = np.where(ends[:, None], last_risks.losses, paths.losses(hops))
        self.costs[gives_up], self.survival[gives_up], self.losses[gives_up] = paths.miss, 0.0, 0.0
        may_wait = np.isfinite(paths.waits)
        waiting = paths.entrances[may_wait]
        self.costs[waiting], self.survival[waiting] = paths.waits[may_wait], 0.0
        self.losses[waiting] = np.eye(len(may_wait))[may_wait]
        self.gives_up[waiting] = False

    def evaluate(self, constants: np.ndarray, at_goal: float, stranded: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """
        ``[K]`` the values x, and ``[E]`` those of landings.

        :param constants: ``[K]``
        :param at_goal: value of the goal
        :param stranded: value of landings after which chance takes one from entrance to entrance for ever
        """
        outcomes, n = self.paths.outcomes, len(constants)
        values, losses = np.append(constants, at_goal), np.concatenate([self.losses, np.zeros_like(self.losses[:1])])
        survival = np.append(self.survival, 0.0)
        onward = np.append(np.where(self.successors < 0, n, self.successors), n)
        for _ in range(_DOUBLINGS):  # of the way ahead that is summed up
            if survival.max() <= _FORGOTTEN:
                break
            values = values + survival * values[onward]
            losses = losses + survival[:, None] * losses[onward]
            survival, onward = survival * survival[onward], onward[onward]
        self.exposure = losses[:-1]
        transitions = outcomes @ losses[:-1]
        leaves = transitions.sum(axis=1) < 1.0 - 1e-12
        for _ in range(len(leaves)):
            leaves |= transitions @ leaves > 0
        landings = np.where(leaves, 0.0, stranded)
        known = outcomes @ values[:-1] + transitions @ landings
        among = np.ix_(leaves, leaves)
        landings[leaves] = np.linalg.solve(np.eye(leaves.sum()) - transitions[among], known[leaves])
        return (values + losses @ landings)[:-1], landings

    def outcome(self, begin: _Policy) -> Paths:
        """Of this policy, which developed from another."""
        odds, landing_odds = (part.round(9) for part in self.evaluate(np.zeros(len(self.costs)), at_goal=1.0))
        spent, landing_spent = self.evaluate(np.where(self.gives_up, 0.0, self.costs * odds), at_goal=0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            costs, landing_costs = (
                np.where(part > 0, total / part, np.inf)
                for total, part in ((spent, odds), (landing_spent, landing_odds))
            )
        certain = (odds == 1.0) & ~self.exposure.any(axis=1) & ~begin.exposure.any(axis=1)
        return Paths(self.successors, odds, costs, certain, landing_odds, landing_costs)
