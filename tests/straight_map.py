"""Open ground as a map for planning: the distance is the length of the straight line, and controllers walk along it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from proq_agent.planning.goal_map import Places
from proq_agent.planning.navigator import Navigator
from proq_agent.planning.planner import Planner
from proq_agent.planning.settings import PlanningSettings


def apart(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    return np.linalg.norm(starts[:, None] - ends[None], axis=-1)


class StraightMap:
    """
    :param keypoints: ``[K, goal_dim]``
    :param reachable: which points are; all by default
    """

    def __init__(self, keypoints: Any, reachable: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        self.keypoints = np.asarray(keypoints, dtype=np.float64)
        self._reachable = reachable
        self.n_placed = 0  # points so far

    def place(self, points: np.ndarray) -> Places:
        self.n_placed += len(points)
        return Places(points, points, points)

    def reachable(self, points: np.ndarray) -> np.ndarray:
        return np.ones(len(points), dtype=bool) if self._reachable is None else self._reachable(points)

    def pairwise(self, starts: Places, ends: Places) -> np.ndarray:
        return apart(starts.embeddings, ends.embeddings)

    def join(self, parts: Sequence[Places]) -> Places:
        points = np.concatenate([part.points for part in parts])
        return Places(points, points, points)

    def targets(self, nodes: Places, goals: Places) -> tuple[Places, Places]:
        return nodes, goals

    def distances(self, states: Places, targets: tuple[Places, Places]) -> tuple[np.ndarray, np.ndarray]:
        nodes, goals = targets
        return self.pairwise(states, nodes), np.linalg.norm(states.points - goals.points, axis=-1)

    def distances_to(self, nodes: np.ndarray, state: Places, targets: tuple[Places, Places]) -> np.ndarray:
        return self.pairwise(state, targets[0][nodes])

    def distances_from(self, nodes: np.ndarray, state: Places, targets: tuple[Places, Places]) -> np.ndarray:
        return self.pairwise(targets[0][nodes], state)[:, 0]

    def distance_to_goal(self, state: Places, targets: tuple[Places, Places]) -> np.ndarray:
        return self.pairwise(state, targets[1])[0]

    def act(
        self,
        observations: np.ndarray,
        states: Places,
        targets: tuple[Places, Places],
        chosen: np.ndarray,
        deterministic: bool,
        generator: Any,
    ) -> np.ndarray:
        """All the way in one step."""
        nodes, goals = targets
        is_goal = chosen == len(nodes)
        ends = np.where(is_goal[:, None], goals.points, nodes.points[np.where(is_goal, 0, chosen)])
        return ends - states.points


def straight_planner(keypoints: Any, chance_edges: Any = (), **settings: Any) -> Planner:
    return Planner(StraightMap(keypoints), PlanningSettings(**({"reach": 0.0} | settings)), chance_edges)


def straight_navigator(keypoints: Any, **settings: Any) -> Navigator:
    planner = straight_planner(keypoints, **settings)
    return Navigator(planner, batch=planner.goal_map, single=planner.goal_map)  # type: ignore[arg-type]


# Around a 20 x 20 square, so that there are two ways to everywhere.
RING = np.array([[0, 0], [10, 0], [20, 0], [20, 10], [20, 20], [10, 20], [0, 20], [0, 10]], dtype=float)
