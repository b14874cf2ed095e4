"""From where the agent is and wants to be to the point it should head for next."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
import torch as th

from proq_agent.planning.graph import Hops, Routes
from proq_agent.planning.map_graph import MapGraph
from proq_agent.proq.row_policy import Ends, RowPolicy

Locations = th.Tensor | np.ndarray  # an array for a single row on the CPU


class Plan(NamedTuple):
    """A way to a goal. Where chance decides it ends at the entrance; what follows is planned after the jump."""

    nodes: list[int]  #: keypoints, entrances, and last the goal itself, ``graph.n_nodes``
    points: np.ndarray  #: ``[nodes, goal_dim]``
    cost: float  #: steps expected, with ``caution`` somewhat more
    probability: float  #: of reaching the goal by trusted hops, below one where a lottery cannot be avoided
    fallback: bool  #: it needs a hop that is longer than trusted, or there is no way at all
    arrived: bool  #: the goal is within ``reach``


class _Goals(NamedTuple):
    """What is known of the goals that the agent was last asked for, row by row."""

    points: np.ndarray
    locations: th.Tensor
    embeddings: th.Tensor
    routes: Routes
    version: int
    ends: Ends | None = None  # of a single goal


class Navigator:
    """
    Plans over a frozen map. A goal's routes are computed when it is first asked for and kept while it stays.

    :param graph: the map, with all that is closed on it
    """

    def __init__(self, graph: MapGraph) -> None:
        self.graph = graph
        self.policy = graph.policy
        self._rows = RowPolicy.of(graph.policy)
        self._goals: _Goals | None = None

    def fork(self) -> Navigator:
        """A navigator for another agent in the same world: the graph is shared, what is known of goals is not."""
        other = copy.copy(self)
        other._goals = None
        return other

    @th.no_grad()
    def next_hops(self, achieved: np.ndarray, desired: np.ndarray) -> tuple[Hops, Locations, Locations]:
        """
        The next target of each row.

        :param achieved: ``[B, goal_dim]`` where the agents are
        :param desired: ``[B, goal_dim]`` where they want to be
        :return: the chosen hops, and the locations of the agents and of their targets, for :meth:`act`
        """
        goals = self._known_goals(desired)
        if self._rows is None or goals.ends is None:
            locations = self.policy.locate(self.graph.tensor(achieved))
            embeddings = self.policy.embed(locations)
            to_nodes = self.policy.pairwise_distances(embeddings, self.graph.embeddings).cpu().numpy()
            to_goal = self.policy.distances(embeddings, goals.embeddings).cpu().numpy()
            hops = self._cheapest(goals, achieved, embeddings, to_nodes, to_goal)
            return hops, locations, self._target_rows(self.graph.locations, goals.locations, hops)
        here = self._rows.locate(achieved)
        embedding, coordinates = self._rows.embed(here)
        distances = self._rows.distances(embedding, coordinates, goals.ends)[None]
        embeddings = th.from_numpy(np.concatenate([embedding, coordinates], axis=1))
        hops = self._cheapest(goals, achieved, embeddings, distances[:, :-1], distances[:, -1])
        return hops, here, goals.ends.locations[hops.target]

    @th.no_grad()
    def act(
        self,
        observations: np.ndarray,
        here: Locations,
        target: Locations,
        deterministic: bool,
        generator: th.Generator | None,
    ) -> np.ndarray:
        """
        Head for targets.

        :param observations: ``[B, observation_dim]``
        :param here: what :meth:`next_hops` returned
        :param target: likewise
        :param deterministic: the mean action instead of a sample
        :param generator: source of the samples
        :return: ``[B, action_dim]``
        """
        if isinstance(here, np.ndarray) and isinstance(target, np.ndarray):
            assert self._rows is not None
            return self._rows.act(observations, here, target, deterministic, generator)
        assert isinstance(here, th.Tensor) and isinstance(target, th.Tensor)
        return self.policy.act(self.graph.tensor(observations), here, target, deterministic, generator).cpu().numpy()

    def _cheapest(
        self,
        goals: _Goals,
        achieved: np.ndarray,
        embeddings: th.Tensor,
        to_nodes: np.ndarray,
        to_goal: np.ndarray,
    ) -> Hops:
        graph = self.graph
        to_nodes, penalties = graph.passable(
            to_nodes, achieved[:, None], graph.points, embeddings[:, None], graph.embeddings
        )
        to_goal, goal_penalties = graph.passable(to_goal, achieved, goals.points, embeddings, goals.embeddings)
        return graph.next_hops(goals.routes, to_nodes, to_goal, penalties, goal_penalties)

    def targets(self, nodes: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """The points in goal space ``[B, goal_dim]`` of nodes ``[B]``: keypoints, or the goal of that row."""
        is_goal = nodes == self.graph.n_nodes
        return np.where(is_goal[:, None], desired, self.graph.points[np.where(is_goal, 0, nodes)]).astype(np.float32)

    @th.no_grad()
    def plan(self, start: np.ndarray, goal: np.ndarray) -> Plan:
        """
        The whole plan from one point of goal space to another; what is known of several goals stays known.

        :raises ValueError: if one is not a finite point of goal space
        """
        start, goal = (self._point(name, point) for name, point in (("start", start), ("goal", goal)))
        is_alone = self._goals is None or len(self._goals.points) == 1
        navigator = self if is_alone else self.fork()
        hops, _, _ = navigator.next_hops(start[None], goal[None])
        nodes = self.graph.path(navigator._known_goals(goal[None]).routes, hops.target[0])
        points = self.targets(np.array(nodes), goal[None])
        cost, odds, fallback, arrived = (part[0].item() for part in (hops.cost, hops.odds, hops.fallback, hops.arrived))
        return Plan(nodes, points, cost, odds, fallback, arrived)

    def _point(self, name: str, point: np.ndarray) -> np.ndarray:
        dim = self.graph.points.shape[1]
        if np.shape(point) != (dim,) or not np.isfinite(point).all():
            raise ValueError(f"{name} must be a finite point with {dim} coordinates, got {point}")
        return np.asarray(point, dtype=np.float32)

    def _target_rows(self, keypoint_rows: th.Tensor, goal_rows: th.Tensor, hops: Hops) -> th.Tensor:
        target = th.as_tensor(hops.target, device=keypoint_rows.device)
        is_goal = target == self.graph.n_nodes
        return th.where(is_goal[:, None], goal_rows, keypoint_rows[target.masked_fill(is_goal, 0)])

    def _known_goals(self, desired: np.ndarray) -> _Goals:
        known = self._goals
        is_fresh = known is not None and known.version == self.graph.version
        if known is not None and is_fresh and np.array_equal(known.points, desired):
            return known
        if known is None or not is_fresh or known.points.shape != desired.shape or len(desired) == 1:
            self._goals = self._plan(desired)
        else:
            changed = np.flatnonzero((known.points != desired).any(axis=1))
            new = self._plan(desired[changed])
            rows = th.as_tensor(changed, device=new.embeddings.device)
            self._goals = _Goals(
                desired.copy(),
                known.locations.index_copy(0, rows, new.locations),
                known.embeddings.index_copy(0, rows, new.embeddings),
                Routes(*(_replaced(old, changed, part) for old, part in zip(known.routes, new.routes, strict=True))),
                known.version,
            )
        return self._goals

    def _plan(self, desired: np.ndarray) -> _Goals:
        locations = self.policy.locate(self.graph.tensor(desired))
        embeddings = self.policy.embed(locations)
        to_goal = self.policy.pairwise_distances(self.graph.embeddings, embeddings).T.cpu().numpy()
        to_goal, penalties = self.graph.passable(
            to_goal, self.graph.points, desired[:, None], self.graph.embeddings, embeddings[:, None]
        )
        routes = self.graph.routes(to_goal, penalties)
        ends = self._ends(locations, embeddings) if len(desired) == 1 and self._rows is not None else None
        return _Goals(desired.copy(), locations, embeddings, routes, self.graph.version, ends)

    def _ends(self, goal_location: th.Tensor, goal_embedding: th.Tensor) -> Ends:
        embeddings = th.cat([self.graph.embeddings, goal_embedding]).numpy()
        n = embeddings.shape[1] - self.graph.points.shape[1]
        locations = th.cat([self.graph.locations, goal_location]).numpy()
        return Ends(locations, np.ascontiguousarray(embeddings[:, :n]), np.ascontiguousarray(embeddings[:, n:]))


def _replaced(old: np.ndarray, rows: np.ndarray, new: np.ndarray) -> np.ndarray:
    result = old.copy()
    result[rows] = new
    return result
