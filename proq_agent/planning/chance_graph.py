"""Routes where some transitions are stochastic: a stochastic shortest path problem over the keypoint graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from proq_agent.chance.edges import ChanceEdge
from proq_agent.chance.hazards import Hazards, Risks
from proq_agent.planning.hops import HopGraph, Hops, Routes
from proq_agent.planning.stochastic_paths import Paths, StochasticPaths

if TYPE_CHECKING:
    from proq_agent.planning.graph import KeypointGraph


@dataclass(frozen=True, eq=False)
class ChanceNodes:
    """
    The nodes of a graph at which chance decides, and where it leads.

    :param entrances: ``[E]`` nodes from which one is moved to a random node
    :param outcomes: ``[E, K]`` probability of landing at each node, rows sum to one
    :param waits: ``[E]`` steps until it happens, on average; 1 by default
    :param hazards: regions around entrances that strike at those who pass; by default none does
    """

    entrances: np.ndarray
    outcomes: np.ndarray
    waits: np.ndarray | float = 1.0
    hazards: Hazards = field(default_factory=lambda: Hazards([]))

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
        n, exits = len(chance_edges), [place for edge in chance_edges for place in edge.exits]
        if not n:
            return cls(np.empty(0, dtype=np.intp), np.empty((0, n_keypoints))), []
        _, first, of_exit = np.unique(exits, axis=0, return_index=True, return_inverse=True)
        places, of_exit = np.array(exits)[np.sort(first)], np.argsort(np.argsort(first))[of_exit.ravel()]
        of_edge = np.repeat(np.arange(n), [len(edge.exits) for edge in chance_edges])
        outcomes = np.zeros((n, n_keypoints + n + len(places)))
        probabilities = np.concatenate([edge.probabilities for edge in chance_edges])
        np.add.at(outcomes, (of_edge, n_keypoints + n + of_exit), probabilities)
        waits = np.array([1.0 / edge.rate for edge in chance_edges])
        points = [*(edge.entrance for edge in chance_edges), *places]
        return cls(n_keypoints + np.arange(n), outcomes, waits, Hazards(chance_edges)), points


class ChanceGraph:
    """
    Routes over a keypoint graph with chance nodes: whoever gets to an entrance lands at one of several exits, in time.

    Entrances are of two kinds. At a portal most steps jump, and no hop crosses it. Any other region strikes now and
    then: a hop that spends n steps in it arrives with probability (1 - rate)^n, and otherwise ends at one of the exits;
    who wants to be taken there goes to its entrance and waits.

    Plans minimise the steps expected, where a goal that is missed counts like very many. So they go around a region if
    that is surer, and through it if it is not worth the way. After a jump the agent plans anew from where it landed, so
    that a plan ends at the first entrance. Costs are the steps expected in the case of success. Without entrances
    routes are those of the graph.

    No risk is taken because a keypoint is missing: where there are portals, a hop of up to twice ``max_hop``, two hops
    if there were a keypoint in its middle, is as sure as any, only expensive. Where longer ones are needed nothing is
    promised, and in the ways that bridge gaps to be struck costs as much as to miss the goal.

    :param graph: entrances and exits are nodes like any other; with entrances it must not be sparse
    :param nodes: which of them are entrances
    :param points: ``[K, goal_dim]`` the nodes in goal space; needed if there are hazards
    """

    def __init__(self, graph: HopGraph, nodes: ChanceNodes, points: np.ndarray | None = None) -> None:
        if nodes.outcomes.shape[1] != graph.n_nodes:
            raise ValueError(f"outcomes are of {nodes.outcomes.shape[1]} nodes, the graph has {graph.n_nodes}.")
        self.nodes, self.points = nodes, points
        self.graph = graph  #: without the hops that leave entrances
        if len(nodes.entrances):
            is_entrance = np.isin(np.arange(graph.n_nodes), nodes.entrances)
            has_portals = len(nodes.hazards) < len(nodes.entrances)
            self.graph = graph.ending_at(is_entrance, trusted_hop=(1.0 + has_portals) * graph.max_hop)

    def with_closures(self, blocked: np.ndarray, surcharges: np.ndarray | float) -> ChanceGraph:
        """As :meth:`KeypointGraph.with_closures`."""
        other = ChanceGraph(self.graph.with_closures(blocked, surcharges), self.nodes, self.points)
        if len(self.nodes.entrances):
            other.__dict__["_risky_hops"] = self._risky_hops  # lengths do not change
            if self._wary is not self.graph:
                other.__dict__["_survival"] = self._survival
        return other

    def risks(self, starts: np.ndarray, ends: np.ndarray, lengths: np.ndarray) -> Risks | None:
        """What hops risk (see :meth:`Hazards.risks`), None if there are no hazards."""
        hazards = self.nodes.hazards
        return hazards.risks(starts, ends, lengths) if len(hazards) else None

    def routes(self, to_goal: np.ndarray, penalties: np.ndarray | float = 0.0, risks: Risks | None = None) -> Routes:
        """
        As :meth:`KeypointGraph.routes`, by way of entrances where that is better.

        :param risks: of the hops to the goals, ``[B, K]``
        """
        n = len(self.nodes.entrances)
        charges = penalties if risks is None else penalties + self.graph.cost_of_a_miss * (1.0 - risks.survival)
        walk = self._wary.routes(to_goal, charges)
        if not n:
            return walk
        to_goal, last_hops = self.graph.last_hops(to_goal, penalties)
        last_hops = np.where(to_goal <= self.graph.trusted_hop, last_hops, np.inf)
        if risks is None:
            risks = Risks(np.ones(last_hops.shape), np.zeros((*last_hops.shape, n)))
        begin = np.where(walk.trusted, walk.successors, -1)
        found = [
            self._paths.best(begin[row], last_hops[row], Risks(*(part[row] for part in risks)))
            for row in range(len(begin))
        ]
        best = Paths(*(np.stack(part) for part in zip(*found, strict=True)))
        trusted = best.odds > 0
        successors = np.where(best.successors < 0, walk.successors, best.successors)
        successors[:, self.nodes.entrances] = -1  # the plan ends here; what comes next, chance decides
        # Where chance has no part, sums are left as they were.
        costs = np.where(trusted & ~(best.certain & walk.trusted), best.costs, walk.costs)
        odds = np.where(trusted, best.odds, walk.odds)
        return Routes(costs, successors, odds, trusted, best.landing_odds, best.landing_costs)

    def next_hops(
        self,
        routes: Routes,
        from_state: np.ndarray,
        state_to_goal: np.ndarray,
        penalties: np.ndarray | float = 0.0,
        goal_penalties: np.ndarray | float = 0.0,
        risks: Risks | None = None,
        goal_risks: Risks | None = None,
    ) -> Hops:
        """
        As :meth:`KeypointGraph.next_hops`.

        :param risks: of the hops to the keypoints, ``[B, K]``
        :param goal_risks: of the hops to the goals, ``[B]``
        """
        if risks is None or goal_risks is None:
            return self.graph.next_hops(routes, from_state, state_to_goal, penalties, goal_penalties)
        costs = np.where(routes.odds > 0, routes.costs, 0.0)
        landings = routes.landing_odds, routes.landing_costs
        odds, delays = _mixed(risks, routes.odds, costs, *landings)
        goal_risks = Risks(goal_risks.survival[:, None], goal_risks.losses[:, None])
        goal_odds, goal_delays = (part[:, 0] for part in _mixed(goal_risks, 1.0, 0.0, *landings))
        seen = routes._replace(odds=odds, costs=np.where(odds > 0, delays, routes.costs))
        return self.graph.next_hops(seen, from_state, state_to_goal, penalties, goal_penalties + goal_delays, goal_odds)

    @cached_property
    def _wary(self) -> HopGraph:
        """The graph in which every hop costs what it risks; without hazards it is the same."""
        if self.points is None or not len(self.nodes.hazards):
            return self.graph
        graph = cast("KeypointGraph", self.graph)
        charges = graph.cost_of_a_miss * (1.0 - self._survival)
        return graph.with_closures(graph.blocked, graph.surcharges + charges)

    @cached_property
    def _survival(self) -> np.ndarray:
        """``[K, K]`` how likely hops arrive, be they as long as they may."""
        points, distances = cast(np.ndarray, self.points), cast("KeypointGraph", self.graph).distances
        rows = zip(points, distances, strict=True)  # all at once might be more than memory holds
        return np.stack([self.nodes.hazards.risks(point, points, lengths).survival for point, lengths in rows])

    @cached_property
    def _paths(self) -> StochasticPaths:
        graph, nodes = cast("KeypointGraph", self.graph), self.nodes
        costs = np.where(graph.distances <= graph.trusted_hop, graph.weights, np.inf)
        risky, risks = self._risky_hops
        waits = np.where(graph.blocked[nodes.entrances], np.inf, nodes.waits)
        return StochasticPaths(costs, risky, risks, nodes.entrances, waits, nodes.outcomes, graph.cost_of_a_miss)

    @cached_property
    def _risky_hops(self) -> tuple[tuple[np.ndarray, np.ndarray], Risks]:
        """Pairs of nodes whose hops lead through hazards, and what they risk."""
        i, j, lengths = self.graph.edges
        i, j, lengths = (part[lengths <= self.graph.trusted_hop] for part in (i, j, lengths))
        risks = None if self.points is None else self.risks(self.points[i], self.points[j], lengths)
        if risks is None:
            risks = Risks(np.ones(len(i)), np.zeros((len(i), len(self.nodes.entrances))))
        risky = risks.survival < 1.0
        return (i[risky], j[risky]), Risks(*(part[risky] for part in risks))


def _mixed(
    risks: Risks,
    odds: np.ndarray | float,
    costs: np.ndarray | float,
    landing_odds: np.ndarray,
    landing_costs: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Odds after a hop, and costs in the case of success, whether it arrives or is taken away by chance."""
    arrived, known = risks.survival * odds, np.where(landing_odds > 0, landing_costs, 0.0)
    total = arrived + (risks.losses @ landing_odds[..., None])[..., 0]
    spent = arrived * costs + (risks.losses @ (landing_odds * known)[..., None])[..., 0]
    return total, spent / np.where(total > 0, total, 1.0)
