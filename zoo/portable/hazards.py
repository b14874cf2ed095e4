"""Regions on the map of an exported agent that are dangerous to cross: chance strikes there now and then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from zoo.portable.runtime import Places, Routes, Runtime

STRAYING = 0.1  # share of the steps beside a region that stray into it
TIE = 1e-9  # relative differences that make none


class Hazards:
    """Regions, each with an entrance, which may be among portals: whoever is struck lands where that leads."""

    def __init__(self, agent: Runtime, regions: SimpleNamespace) -> None:
        self.agent, self.regions, self.outcomes = agent, regions, agent.chance.outcomes
        self.entrances = agent.chance.entrances
        self.survival, self.losses = self.risks(agent.nodes.points[:, None], agent.nodes.points, agent.graph.distances)

    def update(self, weights: np.ndarray, closed: np.ndarray) -> None:
        """Take other costs of hops, all of them short enough, and other nodes for closed."""
        self.weights, self.may_wait = weights, ~closed[self.entrances]

    def risks(self, starts: np.ndarray, ends: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Odds that straight hops arrive ``[...]``, and that an entrance takes one away instead, ``[..., E]``."""
        regions, exist = self.regions, np.isfinite(lengths[..., None])
        inside, around = (shares(starts, ends, regions.centres, axes) for axes in (regions.axes, regions.wider_axes))
        steps = np.linalg.norm((ends - starts)[..., None, :] / regions.steps, axis=-1)
        steps = np.where(np.isinf(regions.steps[:, 0]), lengths[..., None], steps)
        steps = np.where(exist, inside + STRAYING * (around - inside), 0.0) * np.where(exist, steps, 0.0)
        strikes = -np.log1p(-regions.rates) * steps  # expected
        total, losses = strikes.sum(axis=-1, keepdims=True), np.zeros((*lengths.shape, len(self.entrances)))
        losses[..., regions.numbers] = -np.expm1(-total) / np.where(total > 0, total, 1.0) * strikes
        return np.exp(-total[..., 0]), losses

    def on_the_way(
        self, here: np.ndarray, goal: np.ndarray, lengths: np.ndarray, routes: Routes
    ) -> tuple[np.ndarray, np.ndarray]:
        """Odds and costs to go after first hops, ``[K + 1]``, whether these arrive or chance takes one away."""
        survival, losses = self.risks(here, np.append(self.agent.nodes.points, goal[None], axis=0), lengths)
        odds, costs = survival * np.append(routes.odds, 1.0), np.append(routes.costs, 0.0)
        total = odds + losses @ routes.landing_odds
        landing_costs = np.where(routes.landing_odds > 0, routes.landing_costs, 0.0)
        spent = odds * np.where(odds > 0, costs, 0.0) + losses @ (routes.landing_odds * landing_costs)
        return total, np.where(total > 0, spent / np.where(total > 0, total, 1.0), costs)

    @np.errstate(divide="ignore", invalid="ignore")
    def routes(self, end: Places, lengths: np.ndarray, last: np.ndarray) -> Routes:
        """
        Policy iteration: begin with routes that leave nothing to chance, and change whatever makes the cost smaller.
        A node goes to another one, to the goal (K), or gives up (-1), which costs as much as to miss the goal.
        """
        agent, n, miss = self.agent, self.agent.size, self.agent.graph.miss
        risks = survival, losses = self.risks(agent.nodes.points, end.points, lengths)
        walk = agent.walk(agent.graph, lengths, last + miss * (1.0 - survival))
        last = np.where(lengths <= agent.graph.trusted_hop, last, np.inf)
        policy = np.where(walk.trusted, walk.successors, -1)
        for _ in range(10 * n):
            costs, leads, gives_up = self.follow(policy, last, *risks)
            system = np.eye(n) - leads[:, :n]
            values = np.linalg.solve(system, costs)
            landings = self.outcomes @ values
            options = self.weights + self.survival * values + self.losses @ landings
            best, options = options.argmin(axis=1), options.min(axis=1)
            options = np.stack([values * (1.0 - TIE), options, last + losses @ landings, np.full(n, miss)])
            options[1:, self.entrances] = np.inf  # nobody chooses there
            change = options.argmin(axis=0)
            if not change.any():
                break
            policy = np.choose(change, [policy, best, n, -1])
        odds = np.linalg.solve(system, leads[:, n]).round(9)
        spent = np.linalg.solve(system, np.where(gives_up, 0.0, costs * odds))
        landing_odds, trusted = (self.outcomes @ odds).round(9), odds > 0
        landing_costs = np.where(landing_odds > 0, self.outcomes @ spent / landing_odds, np.inf)
        costs, odds = np.where(trusted, spent / odds, walk.costs), np.where(trusted, odds, walk.odds)
        successors = np.where(policy < 0, walk.successors, policy)
        return type(walk)(costs, successors, odds, trusted, landing_odds, landing_costs)

    def follow(
        self, policy: np.ndarray, last: np.ndarray, survival: np.ndarray, losses: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What one step of a policy costs, where it leads (``[K, K + 1]`` odds, the goal is last), and who gives up."""
        n, rows, ends, gives_up = len(policy), np.arange(len(policy)), policy == len(policy), policy < 0
        onward, waiting = np.where(ends | gives_up, 0, policy), self.entrances[self.may_wait]
        costs = np.where(ends, last, self.weights[rows, onward])
        survival = np.where(ends, survival, self.survival[rows, onward])
        losses = np.where(ends[:, None], losses, self.losses[rows, onward])
        costs[gives_up], survival[gives_up], losses[gives_up] = self.agent.graph.miss, 0.0, 0.0
        costs[waiting], survival[waiting] = self.agent.chance.waits[self.may_wait], 0.0
        losses[waiting], gives_up[waiting] = np.eye(len(self.may_wait))[self.may_wait], False
        leads = np.zeros((n, n + 1))
        leads[rows, policy] = survival
        leads[:, :n] += losses @ self.outcomes
        return costs, leads, gives_up


def shares(starts: np.ndarray, ends: np.ndarray, centres: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """``[..., R]`` the part of each segment that lies in each of R boxes: clip it against the slab of every axis."""
    at = np.einsum("rkd,...rd->...rk", axes, starts[..., None, :] - centres)  # in half-widths
    way = np.einsum("rkd,...d->...rk", axes, ends - starts)
    way = np.where(np.abs(way) < 1e-12, 1e-12, way)
    one, other = (-1.0 - at) / way, (1.0 - at) / way
    enter, leave = np.minimum(one, other).max(axis=-1), np.maximum(one, other).min(axis=-1)
    return np.maximum(np.minimum(leave, 1.0) - np.maximum(enter, 0.0), 0.0)
