"""From where the agent is and wants to be to the point it should head for next."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch as th

from proq_agent.chance_edges import ChanceEdge
from proq_agent.chance_graph import ChanceGraph
from proq_agent.planner import Hops, Routes
from proq_agent.policies import ProQPolicy
from proq_agent.progress import Snags
from proq_agent.regions import Corner
from proq_agent.row_policy import Ends, RowPolicy

Locations = th.Tensor | np.ndarray  # an array for a single row on the CPU
Box = tuple[Corner, Corner]
N_SAMPLES = 1024  # points looked at to find places in a part of goal space
MAX_PLACES = 64  # of these that are kept: each makes every plan a little slower while it is blocked


class Plan(NamedTuple):
    """A way to a goal. Where chance decides it ends at the entrance; what follows is planned after the jump."""

    nodes: list[int]  #: keypoints, entrances, and last the goal itself, ``graph.n_keypoints``
    points: np.ndarray  #: ``[nodes, goal_dim]``
    cost: float  #: steps expected, with ``caution`` somewhat more
    probability: float  #: of reaching the goal; below one where a lottery cannot be avoided
    fallback: bool  #: it needs a hop beyond ``max_hop``, or there is no way at all


class _Goals(NamedTuple):
    """What is known of the goals that the agent was last asked for, row by row."""

    points: np.ndarray
    locations: th.Tensor
    embeddings: th.Tensor
    routes: Routes
    version: int
    ends: Ends | None = None  # of a single goal


class MapGraph(ChanceGraph):
    """
    The graph of a map. A box or region that is blocked also closes the hops that bend through it: straight lines
    between keypoints cut corners, and may miss it.
    """

    snags: Snags
    places: Callable[[Callable[[np.ndarray], np.ndarray], Box | None], th.Tensor]  #: see :meth:`Navigator.places`

    def block(
        self,
        *,
        nodes: int | Sequence[int] | np.ndarray | None = None,
        edges: Sequence[tuple[int, int]] | np.ndarray | None = None,
        box: Box | None = None,
        region: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> int:
        """As :meth:`KeypointGraph.block`."""
        handle = super().block(nodes=nodes, edges=edges, box=box, region=region)
        change = self._changes[handle]
        if change.tests:
            places = self.places(lambda points: np.any([test(points, points) for test in change.tests], axis=0), box)
            edges = np.concatenate([np.stack([change.sources, change.ends], axis=1), self.snags.edges_past(places)])
            self._changes[handle] = change._replace(sources=edges[:, 0], ends=edges[:, 1])
            self.snags.close(places, handle)
        return handle


class Navigator:
    """
    Plans over a frozen map. A goal's routes are computed when it is first asked for and kept while it stays.

    :param policy: holds φ, d and the keypoints; must not change while the navigator is in use
    :param max_hop: τ, the longest distance that is trusted as a single hop
    :param reach: a keypoint nearer than this counts as reached
    :param caution: how much more long hops count, see :class:`~proq_agent.planner.KeypointGraph`
    :param chance_edges: lotteries; their entrances and exits become nodes of the graph, after the keypoints
    """

    def __init__(
        self,
        policy: ProQPolicy,
        max_hop: float,
        reach: float,
        caution: float = 0.0,
        chance_edges: Sequence[ChanceEdge] = (),
    ) -> None:
        self.policy = policy
        keypoints = policy.keypoints.cpu().numpy()
        entrances = [edge.entrance for edge in chance_edges]
        exits = [place for edge in chance_edges for place in edge.exits]
        self.points = np.array([*keypoints, *entrances, *exits], dtype=np.float32)
        with th.no_grad():
            self.locations = policy.locate(th.as_tensor(self.points, device=policy.device))
            self.embeddings = policy.embed(self.locations)
            distances = policy.pairwise_distances(self.embeddings, self.embeddings).cpu().numpy()
            latents = self.locations[:, : policy.latent_dim]
            stray = (policy.classifier(latents).squeeze(-1) < 0).cpu().numpy()
        self.graph = MapGraph(
            distances,
            max_hop,
            reach,
            self.points,
            caution,
            entrances=len(keypoints) + np.arange(len(entrances)),
            outcomes=_outcomes(chance_edges, len(keypoints) + len(entrances)),
        )
        # The barrier holds on average; a keypoint that ψ takes for unreachable is no place to send anyone, and one
        # in an entrance cannot be stood on.
        barred = stray[: len(keypoints)]
        for edge in chance_edges:
            barred |= edge.contains(keypoints)
        self.graph.block(nodes=np.flatnonzero(barred))
        self.snags = self.graph.snags = Snags(self.graph, policy.distances, self.embeddings, slack=reach)
        self.graph.places = self.places
        self.rows = RowPolicy.of(policy)
        self._goals: _Goals | None = None

    @th.no_grad()
    def places(self, inside: Callable[[np.ndarray], np.ndarray], box: Box | None = None) -> th.Tensor:
        """
        Embeddings ``[P, embedding_dim]`` of places that the map takes for reachable, in a part of goal space.

        :param inside: which of the points ``[N, goal_dim]`` are in that part
        :param box: where to look for them besides the keypoints; by default all over the map
        """
        low, high = (self.points.min(axis=0), self.points.max(axis=0)) if box is None else box
        samples = np.random.default_rng(0).uniform(low, high, (N_SAMPLES, self.points.shape[1]))
        points = np.concatenate([self.points, samples])
        points = points[inside(points)]
        locations = self.policy.locate(self._tensor(points))
        reachable = self.policy.classifier(locations[:, : self.policy.latent_dim])[:, 0] > 0
        return self.policy.embed(locations[reachable][:MAX_PLACES])

    def fork(self) -> Navigator:
        """A navigator for another agent in the same world: the graph is shared, what is known of goals is not."""
        other = copy.copy(self)
        other._goals = None
        return other

    @th.no_grad()
    def avoid(self, place: np.ndarray, target: np.ndarray, cost: float) -> None:
        """
        Make hops more expensive that lead past a place in the direction of a target, see :class:`Snags`.

        :param place: ``[goal_dim]`` where an agent is stuck
        :param target: ``[goal_dim]`` where it was heading
        :param cost: added to each of these hops
        """
        embeddings = self.policy.embed(self.policy.locate(self._tensor(np.stack([place, target]))))
        self.snags.add(embeddings[0], embeddings[1], cost)

    @th.no_grad()
    def next_hops(self, achieved: np.ndarray, desired: np.ndarray) -> tuple[Hops, Locations, Locations]:
        """
        The next target of each row.

        :param achieved: ``[B, goal_dim]`` where the agents are
        :param desired: ``[B, goal_dim]`` where they want to be
        :return: the chosen hops, and the locations of the agents and of their targets, for :meth:`act`
        """
        goals = self._known_goals(desired)
        if self.rows is None or goals.ends is None:
            locations = self.policy.locate(self._tensor(achieved))
            hops = self._choose(goals, achieved, self.policy.embed(locations))[0]
            return hops, locations, self._target_rows(self.locations, goals.locations, hops)
        here = self.rows.locate(achieved)
        embedding, coordinates = self.rows.embed(here)
        distances = self.rows.distances(embedding, coordinates, goals.ends)[None]
        embeddings = th.from_numpy(np.concatenate([embedding, coordinates], axis=1))
        hops = self._cheapest(goals, achieved, embeddings, distances[:, :-1], distances[:, -1])[0]
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
            assert self.rows is not None
            return self.rows.act(observations, here, target, deterministic, generator)
        assert isinstance(here, th.Tensor) and isinstance(target, th.Tensor)
        return self.policy.act(self._tensor(observations), here, target, deterministic, generator).cpu().numpy()

    def _choose(
        self, goals: _Goals, achieved: np.ndarray, embeddings: th.Tensor
    ) -> tuple[Hops, np.ndarray, np.ndarray]:
        """The hops, and the lengths that they were chosen by: to each keypoint and to the goal."""
        to_keypoints = self.policy.pairwise_distances(embeddings, self.embeddings).cpu().numpy()
        to_goal = self.policy.distances(embeddings, goals.embeddings).cpu().numpy()
        return self._cheapest(goals, achieved, embeddings, to_keypoints, to_goal)

    def _cheapest(
        self,
        goals: _Goals,
        achieved: np.ndarray,
        embeddings: th.Tensor,
        to_keypoints: np.ndarray,
        to_goal: np.ndarray,
    ) -> tuple[Hops, np.ndarray, np.ndarray]:
        points, ends = self.points, self.embeddings
        to_keypoints = self._passable(to_keypoints, achieved[:, None], points, embeddings[:, None], ends)
        to_goal = self._passable(to_goal, achieved, goals.points, embeddings, goals.embeddings)
        return self.graph.next_hops(goals.routes, to_keypoints, to_goal), to_keypoints, to_goal

    def _passable(
        self, distances: np.ndarray, starts: np.ndarray, ends: np.ndarray, from_: th.Tensor, to: th.Tensor
    ) -> np.ndarray:
        """Costs of hops that are no edges: what is blocked or penalised in the graph holds for them too."""
        return self.snags.surcharge(self.graph.mask_blocked(distances, starts, ends), from_, to)

    def targets(self, nodes: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """The points in goal space ``[B, goal_dim]`` of nodes ``[B]``: keypoints, or the goal of that row."""
        is_goal = nodes == self.graph.n_keypoints
        return np.where(is_goal[:, None], desired, self.points[np.where(is_goal, 0, nodes)])

    @th.no_grad()
    def plan(self, start: np.ndarray, goal: np.ndarray) -> Plan:
        """The whole plan from one point of goal space to another; what is known of several goals stays known."""
        is_alone = self._goals is None or len(self._goals.points) == 1
        goals = self._known_goals(goal[None]) if is_alone else self._plan(goal[None])
        embeddings = self.policy.embed(self.policy.locate(self._tensor(start[None])))
        hops, to_keypoints, to_goal = self._choose(goals, start[None], embeddings)
        nodes = self.graph.path(goals.routes, to_keypoints[0], to_goal[0])
        probability = 1.0 if nodes[0] == self.graph.n_keypoints else float(goals.routes.odds[0, nodes[0]])
        points = self.targets(np.array(nodes), goal[None])
        return Plan(nodes, points, float(hops.cost[0]), probability, bool(hops.fallback[0]))

    def _tensor(self, array: np.ndarray) -> th.Tensor:
        return th.as_tensor(array, dtype=th.float32, device=self.embeddings.device)

    def _target_rows(self, keypoint_rows: th.Tensor, goal_rows: th.Tensor, hops: Hops) -> th.Tensor:
        target = th.as_tensor(hops.target, device=keypoint_rows.device)
        is_goal = target == self.graph.n_keypoints
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
        locations = self.policy.locate(self._tensor(desired))
        embeddings = self.policy.embed(locations)
        to_goal = self.policy.pairwise_distances(self.embeddings, embeddings).T.cpu().numpy()
        to_goal = self._passable(to_goal, self.points, desired[:, None], self.embeddings, embeddings[:, None])
        ends = self._ends(locations, embeddings) if len(desired) == 1 and self.rows is not None else None
        return _Goals(desired.copy(), locations, embeddings, self.graph.routes(to_goal), self.graph.version, ends)

    def _ends(self, goal_location: th.Tensor, goal_embedding: th.Tensor) -> Ends:
        embeddings = th.cat([self.embeddings, goal_embedding]).numpy()
        n = embeddings.shape[1] - self.points.shape[1]
        locations = th.cat([self.locations, goal_location]).numpy()
        return Ends(locations, np.ascontiguousarray(embeddings[:, :n]), np.ascontiguousarray(embeddings[:, n:]))


def _outcomes(chance_edges: Sequence[ChanceEdge], first_exit: int) -> np.ndarray:
    """Where each entrance leads, ``[entrances, nodes]``: its own exits follow those of the entrances before it."""
    outcomes = np.zeros((len(chance_edges), first_exit + sum(len(edge.exits) for edge in chance_edges)))
    for row, edge in enumerate(chance_edges):
        outcomes[row, first_exit : first_exit + len(edge.exits)] = edge.probabilities
        first_exit += len(edge.exits)
    return outcomes


def _replaced(old: np.ndarray, rows: np.ndarray, new: np.ndarray) -> np.ndarray:
    result = old.copy()
    result[rows] = new
    return result
