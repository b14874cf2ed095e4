"""What is closed on the map of an exported agent: boxes in goal space, and places where it got stuck."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from zoo.portable.networks import Networks

N_SAMPLES, MAX_PLACES = 1024, 64  # points looked at in a box, and of these that are kept


class Snags(NamedTuple):
    """P places that hops cannot pass (infinite costs) or had better not (finite costs)."""

    places: np.ndarray  #: ``[P, embedding]``
    targets: np.ndarray  #: ``[P, embedding]`` where the agent was heading that got stuck there
    planned: np.ndarray  #: ``[P]`` distances from places to targets
    costs: np.ndarray  #: ``[P]``
    leaving: np.ndarray  #: ``[P, K]`` distances from nodes to places
    onward: np.ndarray  #: ``[P, K]`` distances from places to nodes
    towards: np.ndarray  #: ``[P, K]`` bool, nodes in the direction of the targets


class Closure(NamedTuple):
    """One box, or one place."""

    nodes: np.ndarray  #: ``[K]`` bool, closed nodes
    edges: np.ndarray  #: ``[K, K]`` bool, edges that cost more
    cost: float
    snags: Snags
    boxes: tuple[tuple[np.ndarray, np.ndarray], ...] = ()


class Closures:
    """
    All that is closed now.

    :param networks: the learned map
    :param points: ``[K, goal_dim]`` the nodes
    :param distances: ``[K, K]`` between them
    :param slack: by how much a hop may be longer by way of a place and still lead past it
    """

    def __init__(self, networks: Networks, points: np.ndarray, distances: np.ndarray, slack: float) -> None:
        self.networks, self.points, self.lengths, self.slack = networks, points, distances, slack
        self.embeddings = networks.embed(points)
        nowhere = self.embeddings[:0]
        nothing = np.zeros(len(points), dtype=bool)
        self.in_force = {0: Closure(nothing, nothing, 0.0, self._snags(nowhere, nowhere, 0.0))}
        self.version = 0  #: grows with every change
        self._changed()

    def block(self, low: Any, high: Any) -> int:
        """Close a box with the nodes in it, and all hops that lead through it, straight or, as d tells, bent."""
        low, high = np.array(low, dtype=float), np.array(high, dtype=float)
        from_, to = np.clip([low, high], self.points.min(axis=0), self.points.max(axis=0))
        samples = np.random.default_rng(0).uniform(from_, to, (N_SAMPLES, len(low)))
        places = np.append(self.points, samples, axis=0)
        places = places[crosses(low, high, places, places)]
        places = self.networks.embed(places[self.networks.reachable(places)][:MAX_PLACES])
        snags, starts = self._snags(places, places, np.inf), self.points[:, None]
        edges = crosses(low, high, starts, self.points) | self._lead_past(snags)
        nodes = crosses(low, high, self.points, self.points)
        return self._add(Closure(nodes, edges, np.inf, snags, ((low, high),)))

    def avoid(self, here: np.ndarray, target: np.ndarray, cost: float) -> int:
        """Make hops that lead past a point in the direction of another more expensive."""
        snags = self._snags(self.networks.embed(here[None]), self.networks.embed(target[None]), cost)
        return self._add(Closure(np.zeros(len(self.points), dtype=bool), self._lead_past(snags), cost, snags))

    def lift(self, handle: int) -> None:
        """Undo what returned this handle."""
        del self.in_force[handle]
        self._changed()

    def ahead(self, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``onward`` and ``towards`` of the snags, for the embeddings of other ends of hops than nodes."""
        return self._ahead(*self.snags[:3], ends)

    def passable(
        self,
        lengths: np.ndarray,
        starts: np.ndarray,
        ends: np.ndarray,
        leaving: np.ndarray,
        onward: np.ndarray,
        towards: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """
        Lengths of hops ``[N]``, infinite where something closed is in the way, and what they cost beyond.

        :param starts: points, as the ends
        :param leaving: ``[P, N or 1]`` distances from the starts to the snags, as the others of :class:`Snags`
        """
        penalties = self._penalties(self.snags, lengths, leaving, onward, towards)
        closed = np.isinf(penalties)
        penalties[closed] = 0.0
        for box in self.boxes:  # who is inside may leave
            closed = closed | (crosses(*box, starts, ends) & ~crosses(*box, starts, starts))
        return np.where(closed, np.inf, lengths), penalties

    def _add(self, closure: Closure) -> int:
        handle = self.version + 1
        self.in_force[handle] = closure
        self._changed()
        return handle

    def _changed(self) -> None:
        closures = self.in_force.values()
        self.version += 1
        self.snags = Snags(*map(np.concatenate, zip(*(closure.snags for closure in closures), strict=True)))
        self.boxes = [box for closure in closures for box in closure.boxes]
        self.nodes = np.any([closure.nodes for closure in closures], axis=0)
        self.surcharges = sum(np.where(closure.edges, closure.cost, 0.0) for closure in closures)

    def _snags(self, places: np.ndarray, targets: np.ndarray, cost: float) -> Snags:
        planned = self.networks.distances(places, targets).diagonal()
        leaving = self.networks.distances(self.embeddings, places).T
        ahead = self._ahead(places, targets, planned, self.embeddings)
        return Snags(places, targets, planned, np.full(len(places), cost), leaving, *ahead)

    def _ahead(
        self, places: np.ndarray, targets: np.ndarray, planned: np.ndarray, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        onward = self.networks.distances(places, ends)
        beyond, remaining = onward > self.networks.distances(targets, ends), self.networks.distances(ends, targets).T
        return onward, beyond | (remaining < planned[:, None])

    def _lead_past(self, snags: Snags) -> np.ndarray:
        """``[K, K]`` bool, which edges do."""
        seen = snags.leaving[:, :, None], snags.onward[:, None], snags.towards[:, None]
        return self._penalties(snags, self.lengths, *seen) > 0

    def _penalties(
        self, snags: Snags, lengths: np.ndarray, leaving: np.ndarray, onward: np.ndarray, towards: np.ndarray
    ) -> np.ndarray:
        """
        A closed place stops hops in any direction, but those that begin or end beside it. By what lies beside a place
        where one got stuck, less than half as far away as the target, one may get round.
        """
        costs, planned = (array.reshape(-1, *[1] * lengths.ndim) for array in (snags.costs, snags.planned))
        closed = np.isinf(costs)
        past = leaving + onward <= lengths + np.where(closed, self.slack / 4, self.slack)
        between = (leaving > self.slack) & (leaving < lengths)
        beyond = towards & (onward > np.minimum(self.slack, planned / 2))
        return np.where(past & np.where(closed, between, beyond), costs, 0.0).sum(axis=0)


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def crosses(low: np.ndarray, high: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Which segments touch a box: clip each against the slab of every axis. NaN: it runs along a face, inside."""
    one, other = (low - starts) / (ends - starts), (high - starts) / (ends - starts)
    enter = np.fmax.reduce(np.minimum(one, other), axis=-1, initial=0.0)
    leave = np.fmin.reduce(np.maximum(one, other), axis=-1, initial=1.0)
    return enter <= leave
