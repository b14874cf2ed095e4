"""Small worlds with and without chance: logged walks, exact maps to plan on, and agents that follow the plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from proq_agent import GoalDataset
from proq_agent.chance.edges import ChanceEdge
from proq_agent.planning.goal_map import Places
from proq_agent.planning.navigator import Navigator
from proq_agent.planning.planner import Planner
from proq_agent.planning.settings import PlanningSettings

SIDE, STEP = 20.0, 0.25  # of the walled square; full speed
ELSEWHERE = np.array([40.0, 10.0])  # the middle of another, smaller square, to which nobody can walk

Rate = Callable[[np.ndarray], np.ndarray]
Landing = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


class Square:
    """
    A walled square in which a point walks, unless chance takes it elsewhere instead.

    :param rate: probability of that at each of ``[N, 2]`` positions
    :param landing: where those positions are taken, given the actions and a generator
    """

    def __init__(self, rate: Rate, landing: Landing) -> None:
        self.rate, self.landing = rate, landing

    def step(self, positions: np.ndarray, actions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        low, high = np.where(
            is_elsewhere(positions)[:, None, None], [ELSEWHERE - 3.0, ELSEWHERE + 3.0], [[0.0, 0.0], [SIDE, SIDE]]
        ).swapaxes(0, 1)
        moved = np.clip(positions + STEP * actions, low, high)
        taken = rng.random(len(positions)) < np.where(is_elsewhere(positions), 0.0, self.rate(positions))
        return np.where(taken[:, None], self.landing(positions, actions, rng), moved)

    def walks(self, n: int, length: int = 100, seed: int = 0) -> GoalDataset:
        """Noisy walks towards random places, ``n`` transitions in all."""
        rng = np.random.default_rng(seed)
        positions, aims = rng.uniform(0.0, SIDE, (2, n // length, 2))
        states, actions = [], []
        for _ in range(length + 1):
            arrived = np.linalg.norm(aims - positions, axis=1) < 1.0
            aims = np.where(arrived[:, None], rng.uniform(0.0, SIDE, aims.shape), aims)
            home = np.where(is_elsewhere(positions)[:, None], ELSEWHERE, aims)
            action = np.clip(towards(positions, home) + rng.normal(scale=0.5, size=positions.shape), -1.0, 1.0)
            states.append(positions)
            actions.append(action)
            positions = self.step(positions, action, rng)
        ends = np.arange((length + 1) * len(positions)) % (length + 1) == length
        return GoalDataset(*(np.stack(rows, axis=1).reshape(-1, 2) for rows in (states, actions)), ends)


def landing_at(place: Sequence[float] | np.ndarray) -> Landing:
    """Always the same place, within a step."""
    return lambda at, actions, rng: np.asarray(place) + rng.uniform(-STEP, STEP, at.shape)


def is_elsewhere(positions: np.ndarray) -> np.ndarray:
    return positions[..., 0] > SIDE + 5.0


def towards(positions: np.ndarray, aims: np.ndarray) -> np.ndarray:
    """Actions of full speed along the straight line, slower on the last step."""
    way = (aims - positions) / STEP
    return way / np.maximum(np.linalg.norm(way, axis=-1, keepdims=True), 1.0)


class ExactMap:
    """The map and the controller that a perfect learner would have: distances are steps along straight lines."""

    keypoints: np.ndarray = np.concatenate(
        [
            np.stack(np.meshgrid(np.linspace(1.0, SIDE - 1.0, 10), np.linspace(1.0, SIDE - 1.0, 10)), -1).reshape(
                -1, 2
            ),
            ELSEWHERE + np.array([[-2.0, 0.0], [2.0, 0.0]]),
        ]
    )

    def place(self, points: np.ndarray) -> Places:
        return Places(np.asarray(points, dtype=np.float64), points, points)

    def reachable(self, points: np.ndarray) -> np.ndarray:
        return np.ones(len(points), dtype=bool)

    def pairwise(self, starts: Places, ends: Places) -> np.ndarray:
        return steps_between(starts.points[:, None], ends.points)

    def join(self, parts: Sequence[Places]) -> Places:
        return self.place(np.concatenate([part.points for part in parts]))

    def targets(self, nodes: Places, goals: Places) -> tuple[Places, Places]:
        return nodes, goals

    def distances(self, states: Places, targets: tuple[Places, Places]) -> tuple[np.ndarray, np.ndarray]:
        nodes, goals = targets
        return self.pairwise(states, nodes), steps_between(states.points, goals.points)

    def act(
        self, observations: np.ndarray, states: Places, targets: tuple[Places, Places], chosen: np.ndarray, *_: Any
    ) -> np.ndarray:
        nodes, goals = targets
        is_goal = chosen == len(nodes)
        aims = np.where(is_goal[:, None], goals.points, nodes.points[np.where(is_goal, 0, chosen)])
        return towards(observations, aims)


def steps_between(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    apart = is_elsewhere(starts) != is_elsewhere(ends)
    return np.where(apart, np.inf, np.linalg.norm(starts - ends, axis=-1) / STEP)


def navigator(edges: Sequence[ChanceEdge] = (), without: Callable[[np.ndarray], np.ndarray] | None = None) -> Navigator:
    """
    Plans over the square with these chance edges.

    :param without: keypoints that are missing, ``[N, 2]`` to ``[N]`` bool
    """
    exact = ExactMap()
    if without is not None:
        exact.keypoints = exact.keypoints[~without(exact.keypoints)]
    return Navigator(Planner(exact, PlanningSettings(max_hop=20.0, reach=2.0), edges), exact, exact)


class Played(NamedTuple):
    """What became of agents that followed plans."""

    success: np.ndarray  #: ``[episodes]`` bool
    steps: np.ndarray  #: ``[episodes]`` until then, or until time was up


def play(
    world: Square,
    plans: Navigator,
    start: Sequence[float],
    goal: Sequence[float],
    episodes: int,
    limit: int,
    seed: int = 0,
) -> Played:
    """Let agents go from start to goal, all at once."""
    rng = np.random.default_rng(seed)
    positions = np.tile(np.asarray(start, dtype=np.float64), (episodes, 1))
    goals = np.tile(np.asarray(goal, dtype=np.float64), (episodes, 1))
    success, steps = np.zeros(episodes, dtype=bool), np.full(episodes, limit)
    plans = plans.fork()
    for t in range(limit):
        decision, _ = plans.decide(positions, goals)
        moved = world.step(positions, plans.act(positions, decision, True, None), rng)
        positions = np.where(success[:, None], positions, moved)
        arrived = ~success & (np.linalg.norm(positions - goals, axis=1) < 2 * STEP)
        success |= arrived
        steps[arrived] = t + 1
        if success.all():
            break
    return Played(success, steps)
