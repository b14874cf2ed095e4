"""The graph of a learned map, as it is now: keypoints and chance nodes, and what is closed among them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from proq_agent.chance.edges import ChanceEdge
from proq_agent.planning.chance_graph import ChanceGraph, ChanceNodes
from proq_agent.planning.closures import Box, Closure, Closures, Edges, Indices, Region
from proq_agent.planning.goal_map import GoalMap, Places
from proq_agent.planning.graph import KeypointGraph
from proq_agent.planning.hops import Connectivity, HopGraph
from proq_agent.planning.landmarks import Landmarks
from proq_agent.planning.near_edges import near_edges
from proq_agent.planning.settings import PlanningSettings
from proq_agent.planning.snags import Snags
from proq_agent.planning.sparse_graph import SparseGraph

DENSE_NODES = 1000  # up to so many all edges are kept, and all shortest paths; with more, those to near nodes
N_LANDMARKS = 512
N_SAMPLES = 1 << 14  # points looked at to find places in a part of goal space; a sixteenth will do in a box
MAX_PLACES = 64  # of these that are kept: each makes every plan a little slower while it is blocked

# Held for a moment by whoever changes a planner. Not its own, so that planners can be copied and pickled.
_CHANGING = threading.Lock()


class Snapshot(NamedTuple):
    """The graph and what is closed on it at one moment. It never changes, so that a plan is made on one of them."""

    closures: Closures
    chance: ChanceGraph

    @property
    def graph(self) -> HopGraph:
        return self.chance.graph


class Planner:
    """
    The graph over which plans are made, parts of which can be closed and opened again.

    Any thread may do so at any time: the changes make a new :attr:`snapshot`, while plans that are being made go on
    with theirs.

    :param goal_map: the learned map; must not change while the planner is in use
    :param settings: how plans are made
    :param chance_edges: their entrances and exits become nodes, after the keypoints
    """

    def __init__(
        self,
        goal_map: GoalMap,
        settings: PlanningSettings,
        chance_edges: Sequence[ChanceEdge] = (),
    ) -> None:
        settings = settings.known()
        assert settings.max_hop is not None and settings.reach is not None
        keypoints = goal_map.keypoints
        chance_nodes, chance_points = ChanceNodes.after(len(keypoints), chance_edges)
        points = np.array([*keypoints, *chance_points], dtype=np.float32).astype(np.float64)
        self.goal_map, self.settings, self.chance_edges = goal_map, settings, tuple(chance_edges)
        self.nodes: Places = goal_map.place(points)
        # The barrier holds on average; a keypoint that ψ takes for unreachable is no place to send anyone, and one
        # in a portal cannot be stood on.
        self.strays = np.zeros(len(points), dtype=bool)  #: ``[n_nodes]`` nodes that no plan uses, ever
        if settings.bar_strays:
            self.strays[: len(keypoints)] = ~goal_map.reachable(keypoints)
        for edge in chance_edges:
            if edge.is_portal:
                self.strays[: len(keypoints)] |= edge.contains(keypoints)
        barred = self.strays | bool(settings.direct)
        graph: HopGraph
        self.landmarks: Landmarks | None = None  #: of a graph with many nodes
        hops: dict[str, Any] = {"bridges": settings.bridge_gaps, "blocked": barred}
        hops |= {"max_hop": settings.max_hop, "reach": settings.reach, "caution": settings.caution}
        if len(points) <= DENSE_NODES:
            distances = goal_map.pairwise(self.nodes, self.nodes)
            graph = KeypointGraph(distances, **hops)
        else:
            never = barred if settings.patience is None else self.strays
            self.landmarks = Landmarks.among(goal_map, self.nodes, ~never, N_LANDMARKS)
            edges = near_edges(self.landmarks, settings.max_hop, settings.bridge_gaps)
            graph = SparseGraph(len(points), edges, **hops)
        self.snapshot = Snapshot(
            Closures(barred, self._snags(self.nodes[:0])), ChanceGraph(graph, chance_nodes, points)
        )

    def for_the_stuck(self) -> Planner:
        """
        A copy for an agent that was stuck, with all that is closed here. One that headed straight for its goal has to
        look for a way round: straight on leads nowhere.
        """
        other = copy.copy(self)
        if self.settings.direct:
            other.settings = replace(self.settings, direct=False)
            other._change(lambda closures: replace(closures, barred=self.strays, version=closures.version + 1))
        return other

    # ------------------------------------------------------------------------------------------------- as it is now

    @property
    def graph(self) -> HopGraph:
        """The graph with what is closed on it now."""
        return self.snapshot.graph

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self.snapshot.closures.version

    @property
    def max_hop(self) -> float:
        """Longest hop that plans keep to."""
        return self.graph.max_hop

    @property
    def reach(self) -> float:
        """A keypoint at most this far is reached."""
        return self.graph.reach

    @property
    def n_nodes(self) -> int:
        """Keypoints, and the entrances and exits of chance edges."""
        return len(self.nodes)

    @property
    def points(self) -> np.ndarray:
        """``[n_nodes, goal_dim]`` the nodes in goal space."""
        return self.nodes.points

    @property
    def distances(self) -> np.ndarray:
        """``[n_nodes, n_nodes]`` learned distances; inf from entrances, which nobody leaves as they like."""
        return self._dense.distances

    @property
    def blocked(self) -> np.ndarray:
        """``[n_nodes]`` bool, which nodes no plan may use now."""
        return self.graph.blocked

    @property
    def weights(self) -> np.ndarray:
        """See :attr:`KeypointGraph.weights`."""
        return self._dense.weights

    @property
    def hops(self) -> np.ndarray:
        """See :attr:`KeypointGraph.hops`."""
        return self._dense.hops

    @property
    def costs(self) -> np.ndarray:
        """See :attr:`KeypointGraph.costs`."""
        return self._dense.costs

    @property
    def _dense(self) -> KeypointGraph:
        graph = self.graph
        if not isinstance(graph, KeypointGraph):
            raise ValueError(
                f"of {self.n_nodes} nodes, more than {DENSE_NODES}, there is no matrix of all pairs; see "
                "planner.graph.edges and planner.graph.open_hops"
            )
        return graph

    def connectivity(self, n_nodes: int | None = None) -> Connectivity:
        """See :meth:`HopGraph.connectivity`."""
        return self.graph.connectivity(n_nodes)

    # ------------------------------------------------------------------------------------------------------ changes

    def block(
        self,
        *,
        nodes: Indices | None = None,
        edges: Edges | None = None,
        box: Box | None = None,
        region: Region | None = None,
    ) -> int:
        """
        Close part of the map until :meth:`unblock`. Several blocks may be in force at once.

        A box or region closes the keypoints inside it and the hops whose straight segment in goal space passes through
        it. A box is tested exactly, however thin; a region at points 1/500 of the map apart. It also closes the hops
        that bend through it: straight lines between keypoints cut corners, and may miss it.

        :param nodes: indices of keypoints
        :param edges: pairs ``(i, j)``; only that direction is closed
        :param box: ``(low, high)`` corners in goal space
        :param region: predicate that maps points ``[N, goal_dim]`` to ``[N]`` bool
        :return: handle for :meth:`unblock`
        """
        closure = Closure.block(self.graph.edges.pairs, self.points, nodes, edges, box, region)
        if closure.crosses:
            snags = self._snags(self._places_in(closure, box if region is None else None))
            bent = snags.edges_past(self.graph.edges)
            closure = closure._replace(edges=np.concatenate([closure.edges, bent]), snags=snags)
        return self._add(closure)

    def penalise(self, i: Indices, j: Indices, cost: float) -> int:
        """
        Add ``cost`` to the edge (or edges) from ``i`` to ``j``.

        :return: handle for :meth:`unblock`; :meth:`clear_penalties` undoes all penalties
        """
        return self._add(Closure.penalty(self.n_nodes, i, j, cost))

    def avoid(self, place: np.ndarray, target: np.ndarray, cost: float) -> int:
        """
        Make hops more expensive that lead past a place in the direction of a target, see :class:`Snags`.

        :param place: ``[goal_dim]`` where an agent is stuck
        :param target: ``[goal_dim]`` where it was heading
        :param cost: added to each of these hops
        :return: handle for :meth:`unblock`; :meth:`clear_penalties` undoes all penalties
        """
        both = self.goal_map.place(np.stack([place, target]))
        snags = self._snags(both[:1], both[1:], cost)
        edges = snags.edges_past(self.graph.edges)
        return self._add(Closure.penalty(self.n_nodes, edges[:, 0], edges[:, 1], cost)._replace(snags=snags))

    def unblock(self, handle: int | None = None) -> None:
        """
        Undo one change, or all of them.

        :param handle: what :meth:`block` or :meth:`penalise` returned; None for everything
        """
        self._change(lambda closures: closures.lift(closures.in_force if handle is None else [handle]))

    def clear_penalties(self) -> None:
        """Undo every penalty; blocks stay."""
        self._change(
            lambda closures: closures.lift([key for key, one in closures.in_force.items() if one.cost < np.inf])
        )

    def in_force(self, handle: int) -> bool:
        """Whether what :meth:`block` or :meth:`penalise` did has not been undone."""
        return handle in self.snapshot.closures.in_force

    def _add(self, closure: Closure) -> int:
        return self._change(lambda closures: closures.add(closure)).version

    def _change(self, change: Callable[[Closures], Closures]) -> Closures:
        with _CHANGING:
            closures, chance = self.snapshot
            changed = change(closures)
            if changed is not closures:
                surcharges = chance.graph.surcharges_of(changed.charges)
                self.snapshot = Snapshot(changed, chance.with_closures(changed.blocked, surcharges))
            return changed

    def _snags(self, places: Places, targets: Places | None = None, cost: float = np.inf) -> Snags:
        slack = self.settings.reach or 0.0  # what is reached on a hop lies on it
        return Snags.at(self.goal_map, self.nodes, slack, places, places if targets is None else targets, cost)

    def _places_in(self, closure: Closure, box: Box | None) -> Places:
        """
        Places that the map takes for reachable, in the closed part of goal space.

        :param box: where to look for them besides the nodes; by default all over the map
        """
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        n = N_SAMPLES
        if box is not None:
            low, high, n = np.clip(box[0], low, high), np.clip(box[1], low, high), N_SAMPLES // 16
        samples = np.random.default_rng(0).uniform(low, high, (n, self.points.shape[1]))
        points = np.concatenate([self.points, samples])
        inside = points[closure.contains(points)]
        return self.goal_map.place(inside[self.goal_map.reachable(inside)][:MAX_PLACES])
