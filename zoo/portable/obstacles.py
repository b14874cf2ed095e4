"""What is in the way of hops: regions where chance strikes, boxes that are closed, places where one was stuck."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from zoo.portable.runtime import Places, Runtime

N_SAMPLES, MAX_PLACES = 1024, 64  # points looked at in a box, and of these that are kept


class Obstacle:
    """P places that no hop may pass; or those which it may, at a cost, unless it leads away from a target."""

    def __init__(
        self, agent: Runtime, points: np.ndarray, target: np.ndarray | None = None, cost: float = np.inf
    ) -> None:
        self.agent, self.places, self.cost = agent, agent.place(points), cost
        self.target = None if target is None else agent.place(target)
        self.from_nodes, self.to_nodes = agent.distances(agent.nodes, self.places), self.onward(agent.nodes)

    def tolls(self, starts: Places, ends: Places, lengths: np.ndarray) -> np.ndarray:
        """``[A, B]`` what hops cost that are hardly longer by way of a place."""
        nodes, reach = self.agent.nodes, self.agent.settings.reach
        leaving = self.from_nodes if starts is nodes else self.agent.distances(starts, self.places)
        leaving, onward = leaving.T[:, :, None], (self.to_nodes if ends is nodes else self.onward(ends))[:, None]
        past = leaving + onward <= lengths + (reach / 4 if self.target is None else reach)
        if self.target is None:  # who is beside a place goes on
            past &= (reach < leaving) & (leaving < lengths)
        return np.where(past.any(axis=0), self.cost, 0.0)

    def onward(self, ends: Places) -> np.ndarray:
        """``[P, B]`` distances, infinite to ends that are not in the direction of the target, or are beside a place."""
        measure, lengths = self.agent.distances, self.agent.distances(self.places, ends)
        if self.target is not None:
            planned, left = measure(self.places, self.target), measure(ends, self.target).T
            ahead = (lengths > measure(self.target, ends)) | (left < planned)
            lengths[~ahead | (lengths <= np.minimum(self.agent.settings.reach, planned / 2))] = np.inf
        return lengths


class Box(Obstacle):
    """A box in goal space: hops lead through it, straight or, as places in it tell, bent."""

    def __init__(self, agent: Runtime, low: Any, high: Any) -> None:
        self.low, self.high, points = np.array(low, dtype=float), np.array(high, dtype=float), agent.nodes.points
        from_, to = np.clip([self.low, self.high], points.min(axis=0), points.max(axis=0))
        points = np.append(points, np.random.default_rng(0).uniform(from_, to, (N_SAMPLES, len(from_))), axis=0)
        points = points[self.holds(points)]
        reachable = agent.run("classifier", location=agent.run("encoder", goal=points)) >= 0
        super().__init__(agent, points[reachable][:MAX_PLACES])

    def holds(self, points: np.ndarray) -> np.ndarray:
        """Which points lie in it."""
        return np.all((self.low <= points) & (points <= self.high), axis=-1)

    def tolls(self, starts: Places, ends: Places, lengths: np.ndarray) -> np.ndarray:
        """``[A, B]``, infinite for hops through it, but for those that begin inside."""
        begin = starts.points[:, None]
        through = share(begin, ends.points - begin, self.low, self.high) >= 0
        return np.where(through & ~self.holds(begin), np.inf, super().tolls(starts, ends, lengths))


def risks(
    hazards: list[SimpleNamespace], starts: np.ndarray, ends: np.ndarray, lengths: np.ndarray, n_entrances: int
) -> tuple[np.ndarray, np.ndarray]:
    """Odds that straight hops arrive, ``[A, B]``, and that chance strikes on the way, ``[A, B, E]``."""
    ways, strikes = ends - starts[:, None], np.zeros((*lengths.shape, n_entrances))
    for hazard in hazards:
        inside = share((starts[:, None] - hazard.centre) @ hazard.axes.T, ways @ hazard.axes.T, -1.0, 1.0)
        steps = lengths if np.isinf(hazard.step[0]) else np.linalg.norm(ways / hazard.step, axis=-1)
        expected = hazard.rate * np.maximum(inside, 0.0) * np.where(np.isfinite(lengths), steps, 0.0)
        strikes[..., int(hazard.entrance)] += expected
    total = strikes.sum(axis=-1, keepdims=True)
    return np.exp(-total[..., 0]), -np.expm1(-total) / np.where(total > 0, total, 1.0) * strikes


@np.errstate(over="ignore")
def share(starts: np.ndarray, ways: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """The part of each segment that lies in a box, negative if none: clip it against the slab of every axis."""
    ways = np.where(np.abs(ways) < 1e-12, 1e-12, ways)
    one, other = (low - starts) / ways, (high - starts) / ways
    enter, leave = np.minimum(one, other).max(axis=-1), np.maximum(one, other).min(axis=-1)
    return np.minimum(leave, 1.0) - np.maximum(enter, 0.0)
