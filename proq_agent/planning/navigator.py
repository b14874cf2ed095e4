"""From where agents are and want to be to what they head for next: plan, watch the progress, plan anew if stuck."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from proq_agent.planning.goal_map import Controller, NearController, Places
from proq_agent.planning.hops import Hops, Routes
from proq_agent.planning.planner import Planner, Snapshot
from proq_agent.planning.progress import Progress, watch
from proq_agent.planning.snags import Ahead
from proq_agent.planning.sparse_graph import SparseGraph

if TYPE_CHECKING:
    from proq_agent.planning.settings import PlanningSettings

# Graphs of agents that were stuck, and nodes that all of them may have; those that nobody asks for are forgotten.
MAX_DETOURS, MIN_DETOURS, DETOUR_NODES = 256, 16, 51200


ROUTED_NODES = 1 << 21  # of all goals that are planned for at once
N_AROUND = 4  # landmarks that are looked at for the nearest


class Plan(NamedTuple):
    """A way to a goal. Where chance decides it ends at the entrance; what follows is planned after the jump."""

    nodes: list[int]  #: keypoints, entrances, and last the goal itself, ``planner.n_nodes``
    points: np.ndarray  #: ``[nodes, goal_dim]``
    cost: float  #: steps expected, with ``caution`` somewhat more
    probability: float  #: of reaching the goal by trusted hops and sampled actions, below one where chance decides
    fallback: bool  #: it needs a hop that is longer than trusted, or there is no way at all
    arrived: bool  #: the goal is within ``reach``


class _Goals(NamedTuple):
    """What is known of the goals of some agents, one row each, as long as nothing is closed or opened."""

    snapshot: Snapshot
    places: Places
    ahead: Ahead  # where they lie, seen from the snags
    routes: Routes
    targets: Any = None  # nodes and goals, as the controller wants them


class Decision(NamedTuple):
    """Where agents go now."""

    hops: Hops  #: the chosen nodes, their costs and odds
    states: Places  #: where the agents are
    goals: _Goals  #: where they want to be


class Navigator:
    """
    Finds the way for agents over a map. The routes to a goal are computed when it is first asked for and kept while it
    stays; what is kept is replaced as a whole, so that threads may share a navigator.

    :param planner: the graph, with all that is closed on it
    :param batch: acts in any number of agents; must be of the planner's map
    :param single: acts in one
    :param goal_states: finds ``[B, n, goal_dim]`` points of the map that satisfy goals ``[B, ...]``; by default a goal
        is such a point
    """

    def __init__(
        self,
        planner: Planner,
        batch: Controller,
        single: Controller,
        goal_states: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.planner = planner
        self._goal_states = goal_states
        self._last_states: tuple[np.ndarray, np.ndarray] | None = None  # of the last goals
        self._batch, self._single = batch, single
        self._goals: dict[bool, _Goals] = {}  # of a single agent, and of a batch
        self._detours: dict[tuple[int, bytes], Navigator] = {}  # of agents that were stuck

    def fork(self) -> Navigator:
        """A navigator for another agent in the same world: the graph is shared, what is known of goals is not."""
        other = copy.copy(self)
        other._goals, other._detours = {}, {}
        return other

    def replanned(self, settings: PlanningSettings) -> Navigator:
        """A navigator on the same map that plans in another way; nothing is closed there."""
        planner = Planner(self.planner.goal_map, settings, self.planner.chance_edges)
        return Navigator(planner, self._batch, self._single, self._goal_states)

    def next_points(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """``[N, goal_dim]`` what agents head for on their way from one point of the map to another."""
        n = max(1, ROUTED_NODES // self.planner.n_nodes)  # what is known of a goal is as large as the graph
        parts = [self._decide_on_states(starts[i : i + n], ends[i : i + n]) for i in range(0, len(starts), n)]
        return np.concatenate([self.points(part) for part in parts])

    def decide(
        self,
        achieved: np.ndarray,
        desired: np.ndarray,
        progress: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
    ) -> tuple[Decision, tuple[np.ndarray, ...] | None]:
        """
        Choose where to go, and notice who gets no closer: not told that the world has changed, agents find out.

        What leads past the place where an agent is stuck, in the direction it was heading, becomes more expensive for
        it by its cost to go, so that a few bumps at one place make any detour cheaper. It remembers them in
        ``progress``, other agents know nothing of them; see :meth:`Planner.avoid` to tell all.

        :param achieved: ``[B, goal_dim]`` where the agents are
        :param desired: ``[B, goal_dim]`` where they want to be
        :param progress: what the last call returned; None at the beginning
        :param episode_start: ``[B]`` agents that begin anew, and forget
        :return: the decision, and ``progress`` for the next call
        """
        patience = self.planner.settings.patience
        if patience is None:
            return self._decide(achieved, desired), progress
        known = Progress.of(progress, desired, self.planner.version, achieved.shape[1], episode_start)
        decision = self._decide_each(achieved, desired, known)
        known, stuck = watch(patience, decision.hops.cost, decision.hops.arrived, known)
        if len(stuck):
            graph, targets = self.planner.graph, self.points(decision)
            # As the cost to go holds earlier penalties, it would grow without end.
            penalties = np.clip(decision.hops.cost, graph.max_hop, graph.longest_way)
            for row in stuck:
                known = known.with_snag(row, achieved[row], targets[row], float(penalties[row]))
            decision = self._decide_each(achieved, desired, known)
        return decision, known

    def act(self, observations: np.ndarray, decision: Decision, deterministic: bool, generator: Any) -> np.ndarray:
        """
        Head for what was decided.

        :param observations: ``[B, observation_dim]``
        :param decision: what :meth:`decide` returned
        :param deterministic: the mean action instead of a sample
        :param generator: source of the samples
        :return: ``[B, action_dim]``
        """
        hops, states, goals = decision
        controller = self._controller(len(observations))
        return controller.act(observations, states, goals.targets, hops.target, deterministic, generator)

    def plan(self, start: np.ndarray, goal: np.ndarray) -> Plan:
        """
        The whole plan from one point of goal space to another.

        :raises ValueError: if one is not a finite point of goal space
        """
        return self.follow(start, goal)[0]

    def follow(
        self,
        start: np.ndarray,
        goal: np.ndarray,
        progress: tuple[np.ndarray, ...] | None = None,
    ) -> tuple[Plan, tuple[np.ndarray, ...] | None]:
        """
        The whole plan of an agent on its way, see :meth:`decide`.

        :raises ValueError: if ``start`` or ``goal`` is not a finite point of goal space
        """
        start = self._point("start", start)
        goal = self._point("goal", goal) if self._goal_states is None else np.asarray(goal, dtype=np.float32)
        (hops, _, goals), progress = self.decide(start[None], goal[None], progress)
        nodes = goals.snapshot.graph.path(goals.routes, hops.target[0])
        cost, odds, fallback, arrived = (part[0].item() for part in (hops.cost, hops.odds, hops.fallback, hops.arrived))
        return Plan(nodes, self._points(np.array(nodes), goals), cost, odds, fallback, arrived), progress

    def points(self, decision: Decision) -> np.ndarray:
        """``[B, goal_dim]`` what each agent heads for."""
        return self._points(decision.hops.target, decision.goals)

    def _points(self, nodes: np.ndarray, goals: _Goals) -> np.ndarray:
        is_goal, ends = nodes == self.planner.n_nodes, goals.places.points
        return np.where(is_goal[:, None], ends, self.planner.points[np.where(is_goal, 0, nodes)]).astype(np.float32)

    def _controller(self, n_agents: int) -> Controller:
        return self._single if n_agents == 1 and self._goal_states is None else self._batch

    def _decide_each(self, achieved: np.ndarray, desired: np.ndarray, progress: Progress) -> Decision:
        """Who was stuck plans with what it has found out, the others with the map as it is."""
        snagged = progress.snagged
        if len(achieved) == len(snagged) == 1:
            return self._detour(progress.snags_of(0))._decide(achieved, desired)
        decision = self._decide(achieved, desired)
        if not len(snagged):
            return decision
        hops, goals = Hops(*(part.copy() for part in decision.hops)), decision.goals
        ends = goals.places.points.copy()
        for row in snagged:
            own = self._detour(progress.snags_of(row))._decide(achieved[row : row + 1], desired[row : row + 1])
            for part, of_row in zip(hops, own.hops, strict=True):
                part[row] = of_row[0]
            ends[row] = own.goals.places.points[0]
        if self._goal_states is not None:  # another state may satisfy the goal better now
            places = self.planner.goal_map.place(ends)
            goals = goals._replace(places=places, targets=self._batch.targets(self.planner.nodes, places))
        return Decision(hops, decision.states, goals)

    def _detour(self, snags: np.ndarray) -> Navigator:
        """A navigator for agents that were stuck at some places, ``[n, 2 * map_dim + 1]``."""
        if not len(snags):
            return self
        key = self.planner.version, snags.tobytes()
        found = self._detours.get(key)
        if found is None:
            *_, cost = snag = snags[-1]
            place, target = snag[:-1].astype(np.float32).reshape(2, -1)
            planner = self._detour(snags[:-1]).planner.for_the_stuck()
            planner.avoid(place, target, cost)
            found = Navigator(planner, self._batch, self._single, self._goal_states)
            kept = np.clip(DETOUR_NODES // self.planner.n_nodes, MIN_DETOURS, MAX_DETOURS)
            self._detours = dict([*self._detours.items(), (key, found)][-kept:])
        return found

    def _decide(self, achieved: np.ndarray, desired: np.ndarray) -> Decision:
        """Where a goal is several states, all of them are planned for, and the best is chosen."""
        if self._goal_states is None:
            return self._decide_on_states(achieved, desired)
        goal_states = self._states_of(desired)
        n_agents, n_states = goal_states.shape[:2]
        hops, states, goals = self._decide_on_states(achieved, goal_states.reshape(n_agents * n_states, -1))
        ranks = hops.cost + goals.snapshot.graph.cost_of_a_miss * (1.0 - hops.odds)
        best = np.arange(n_agents) * n_states + ranks.reshape(n_agents, n_states).argmin(axis=1)
        chosen = goals._replace(
            places=goals.places[best],
            ahead=Ahead(*(part[best] for part in goals.ahead)),
            routes=Routes(*(part[best] for part in goals.routes)),
            targets=self._batch.targets(self.planner.nodes, goals.places[best]),
        )
        return Decision(Hops(*(part[best] for part in hops)), states, chosen)

    def _states_of(self, desired: np.ndarray) -> np.ndarray:
        assert self._goal_states is not None
        last = self._last_states
        if last is None or not np.array_equal(last[0], desired):
            last = self._last_states = desired.copy(), self._goal_states(desired)
        return last[1]

    def _decide_on_states(self, achieved: np.ndarray, desired: np.ndarray) -> Decision:
        """
        :param achieved: ``[B, goal_dim]``
        :param desired: ``[B * n, goal_dim]`` n for each of these
        :return: for each of those
        """
        goals = self._known_goals(desired)
        closures, chance = goals.snapshot
        controller = self._controller(len(achieved))
        states = controller.place(achieved)
        if isinstance(chance.graph, SparseGraph) and len(desired) == 1:
            near = cast(NearController, controller)
            return Decision(self._nearby_hops(chance.graph, near, states, goals), states, goals)
        to_nodes, to_goal = controller.distances(states, goals.targets)
        leaving = closures.snags.leaving(states)
        to_nodes, penalties = closures.passable(
            to_nodes, achieved[:, None], self.planner.points, leaving[:, None], closures.snags.to_nodes
        )
        n = len(desired) // len(achieved)
        if n > 1:
            achieved, leaving, to_nodes = (part.repeat(n, axis=0) for part in (achieved, leaving, to_nodes))
            penalties = penalties.repeat(n, axis=0) if isinstance(penalties, np.ndarray) else penalties
        to_goal, goal_penalties = closures.passable(to_goal, achieved, goals.places.points, leaving, goals.ahead)
        risks = chance.risks(achieved[:, None], self.planner.points, to_nodes)
        goal_risks = chance.risks(achieved, goals.places.points, to_goal)
        hops = chance.next_hops(goals.routes, to_nodes, to_goal, penalties, goal_penalties, risks, goal_risks)
        return Decision(hops, states, goals)

    def _nearby_hops(self, graph: SparseGraph, controller: NearController, state: Places, goals: _Goals) -> Hops:
        """What :meth:`_decide_on_states` finds for one agent among many nodes, of which few are looked at."""
        closures, landmarks = goals.snapshot.closures, self.planner.landmarks
        assert landmarks is not None
        here, points, leaving = state.points, self.planner.points, closures.snags.leaving(state)

        def measure(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
            lengths = controller.distances_to(nodes, state, goals.targets)
            if not closures.in_force:
                return lengths, 0.0
            ahead = Ahead(*(part[nodes] for part in closures.snags.to_nodes))
            return closures.passable(lengths, here[:, None], points[nodes], leaving[:, None], ahead)

        some = landmarks.around(here[0], N_AROUND)
        away = controller.distances_from(landmarks.nodes[some], state, goals.targets)
        nearest = away.argmin()
        bounds = landmarks.lower_bounds(some[nearest], away[nearest])
        to_goal = controller.distance_to_goal(state, goals.targets)
        to_goal, penalties = closures.passable(to_goal, here, goals.places.points, leaving, goals.ahead)
        slack = 2.0 * float(away[nearest])  # the way there and back
        return graph.nearby_hops(goals.routes, bounds, slack, measure, to_goal, penalties)

    def _known_goals(self, desired: np.ndarray) -> _Goals:
        snapshot, single = self.planner.snapshot, len(desired) == 1
        known = self._goals.get(single)
        if known is None or known.snapshot is not snapshot or known.places.points.shape != desired.shape:
            goals = self._new_goals(snapshot, desired)
        elif np.array_equal(known.places.points, desired):
            return known
        else:
            changed = np.flatnonzero((known.places.points != desired).any(axis=1))
            goals = self._new_goals(snapshot, desired[changed])
            if len(changed) < len(desired):
                goals = self._replaced(known, changed, goals)
        goals = goals._replace(targets=self._controller(len(desired)).targets(self.planner.nodes, goals.places))
        self._goals[single] = goals
        return goals

    def _new_goals(self, snapshot: Snapshot, desired: np.ndarray) -> _Goals:
        nodes, goal_map, closures = self.planner.nodes, self.planner.goal_map, snapshot.closures
        goals = goal_map.place(desired.copy())
        ahead = closures.snags.ahead(goals)
        to_goals, penalties = closures.passable(
            goal_map.pairwise(nodes, goals),
            nodes.points[:, None],
            goals.points,
            closures.snags.from_nodes[:, None],
            ahead,
        )
        risks = snapshot.chance.risks(nodes.points, goals.points[:, None], to_goals.T)
        routes = snapshot.chance.routes(to_goals.T, np.transpose(penalties), risks)
        return _Goals(snapshot, goals, ahead, routes)

    def _replaced(self, known: _Goals, rows: np.ndarray, new: _Goals) -> _Goals:
        """What is known, with new goals in some rows."""
        n = len(known.places)
        index = np.arange(n)
        index[rows] = n + np.arange(len(rows))
        places = self.planner.goal_map.join([known.places, new.places])[index]
        ahead, routes = (
            [np.concatenate(arrays)[index] for arrays in zip(old, others, strict=True)]
            for old, others in ((known.ahead, new.ahead), (known.routes, new.routes))
        )
        return _Goals(known.snapshot, places, Ahead(*ahead), Routes(*routes))

    def _point(self, name: str, point: np.ndarray) -> np.ndarray:
        dim = self.planner.points.shape[1]
        if np.shape(point) != (dim,) or not np.isfinite(point).all():
            raise ValueError(f"{name} must be a finite point with {dim} coordinates, got {point}")
        return np.asarray(point, dtype=np.float32)
