"""Where chance decides on the map of an exported agent: portals, and regions that are dangerous to cross."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

STRAYING = 0.1  # share of the steps beside a region that stray into it
TIE = 1e-9  # relative differences that make none


class Routes(NamedTuple):
    """How K nodes get to one goal."""

    costs: np.ndarray  #: ``[K]`` steps in the case of success, infinite where there is none
    successors: np.ndarray  #: ``[K]`` next node; K is the goal, -1 stands for no way
    odds: np.ndarray  #: ``[K]`` of getting there
    trusted: np.ndarray  #: ``[K]`` bool: by hops that are short enough
    landing_odds: np.ndarray  #: ``[E]`` odds of those whom chance takes away
    landing_costs: np.ndarray  #: ``[E]``


class Chance:
    """
    E entrances, which lead to random exits.

    :param data: that part of agent.json
    :param points: ``[K, goal_dim]`` the nodes
    :param distances: ``[K, K]`` between them
    :param max_hop: longest hop that plans keep to
    """

    def __init__(self, data: dict[str, Any], points: np.ndarray, distances: np.ndarray, max_hop: float) -> None:
        self.entrances, self.waits = np.array(data["entrances"], dtype=int), np.array(data["waits"], dtype=float)
        self.outcomes = np.array(data["outcomes"], dtype=float).reshape(len(self.entrances), len(points))
        self.hazards = {name: numbers(values) for name, values in data["hazards"].items()}
        self.is_entrance = np.isin(np.arange(len(points)), self.entrances)
        # No risk is taken because a keypoint is missing: beside portals hops may be as long as two.
        has_portals = len(self.hazards["rates"]) < len(self.entrances)
        self.longest = (2.0 if has_portals else 1.0) * max_hop
        self.short = distances <= self.longest
        self.survival, self.losses = self.risks(points[:, None], points, distances)

    def risks(self, starts: np.ndarray, ends: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Odds that straight hops arrive ``[...]``, and that an entrance takes one away instead, ``[..., E]``."""
        losses, regions = np.zeros((*lengths.shape, len(self.entrances))), self.hazards
        if not len(regions["rates"]):
            return np.ones(lengths.shape), losses
        inside, around = (_shares(starts, ends, regions["centres"], regions[name]) for name in ("axes", "wider_axes"))
        steps = np.linalg.norm((ends - starts)[..., None, :] / regions["steps"], axis=-1)
        steps = np.where(np.isinf(regions["steps"][:, 0]), lengths[..., None], steps)
        exist = np.isfinite(lengths[..., None])
        steps = np.where(exist, inside + STRAYING * (around - inside), 0.0) * np.where(exist, steps, 0.0)
        strikes = -np.log1p(-regions["rates"]) * steps  # expected
        total = strikes.sum(axis=-1, keepdims=True)
        losses[..., regions["numbers"].astype(int)] = -np.expm1(-total) / np.where(total > 0, total, 1.0) * strikes
        return np.exp(-total[..., 0]), losses

    def routes(
        self,
        walk: Routes,
        hops: np.ndarray,
        last_hops: np.ndarray,
        last_risks: tuple[np.ndarray, np.ndarray],
        blocked: np.ndarray,
        miss: float,
    ) -> Routes:
        """
        Policy iteration: begin with routes that leave nothing to chance, and change whatever makes the cost smaller.

        :param walk: these routes
        :param hops: ``[K, K]`` costs
        :param last_hops: ``[K]`` costs of hops to the goal
        :param last_risks: their :meth:`risks`
        :param blocked: ``[K]`` bool, closed nodes
        :param miss: what it costs to give up
        """
        n, hops = len(hops), np.where(self.short, hops, np.inf)
        policy = np.where(walk.trusted, walk.successors, -1)
        for _ in range(10 * n):
            costs, leads, gives_up = self._follow(policy, hops, last_hops, last_risks, blocked, miss)
            system = np.eye(n) - leads[:, :n]
            values = np.linalg.solve(system, costs)
            landings = self.outcomes @ values
            options = hops + self.survival * values + self.losses @ landings
            best, last = options.argmin(axis=1), last_hops + last_risks[1] @ landings
            options = np.stack([values * (1.0 - TIE), options.min(axis=1), last, np.full(n, miss)])
            options[1:, self.entrances] = np.inf  # nobody chooses there
            change = options.argmin(axis=0)
            if not change.any():
                break
            policy = np.choose(change, [policy, best, n, -1])
        odds = np.linalg.solve(system, leads[:, n]).round(9)
        spent = np.linalg.solve(system, np.where(gives_up, 0.0, costs * odds))
        landing_odds, landing_spent = (self.outcomes @ odds).round(9), self.outcomes @ spent
        successors = np.where(policy < 0, walk.successors, policy)
        with np.errstate(divide="ignore", invalid="ignore"):
            costs = np.where(odds > 0, spent / odds, walk.costs)
            landing_costs = np.where(landing_odds > 0, landing_spent / landing_odds, np.inf)
        return Routes(costs, successors, np.where(odds > 0, odds, walk.odds), odds > 0, landing_odds, landing_costs)

    def _follow(
        self,
        policy: np.ndarray,
        hops: np.ndarray,
        last_hops: np.ndarray,
        last_risks: tuple[np.ndarray, np.ndarray],
        blocked: np.ndarray,
        miss: float,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What one step of a policy costs, where it leads (``[K, K + 1]`` odds, the goal is last), and who gives up."""
        n, rows = len(policy), np.arange(len(policy))
        ends, gives_up, waits = policy == n, policy < 0, ~blocked[self.entrances]
        onward, waiting = np.where(ends | gives_up, 0, policy), self.entrances[waits]
        costs = np.where(ends, last_hops, hops[rows, onward])
        survival = np.where(ends, last_risks[0], self.survival[rows, onward])
        losses = np.where(ends[:, None], last_risks[1], self.losses[rows, onward])
        costs[gives_up], survival[gives_up], losses[gives_up] = miss, 0.0, 0.0
        costs[waiting], survival[waiting], losses[waiting] = self.waits[waits], 0.0, np.eye(len(waits))[waits]
        gives_up[waiting] = False
        leads = np.zeros((n, n + 1))
        leads[rows, policy] = survival
        leads[:, :n] += losses @ self.outcomes
        return costs, leads, gives_up


def _shares(starts: np.ndarray, ends: np.ndarray, centres: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """``[..., R]`` the part of each segment that lies in each of R boxes: clip it against the slab of every axis."""
    at = np.einsum("rkd,...rd->...rk", axes, starts[..., None, :] - centres)  # in half-widths
    way = np.einsum("rkd,...d->...rk", axes, ends - starts)
    way = np.where(np.abs(way) < 1e-12, 1e-12, way)
    one, other = (-1.0 - at) / way, (1.0 - at) / way
    enter, leave = np.minimum(one, other).max(axis=-1), np.maximum(one, other).min(axis=-1)
    return np.maximum(np.minimum(leave, 1.0) - np.maximum(enter, 0.0), 0.0)


def numbers(values: Any) -> np.ndarray:
    """From JSON, which has no infinity: null stands for it."""
    return np.nan_to_num(np.array(values, dtype=float), nan=np.inf, posinf=np.inf)
