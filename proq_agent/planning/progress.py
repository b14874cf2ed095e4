"""When the world is not as the map says: notice that there is no progress, and tell the graph where."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proq_agent.planning.map_graph import MapGraph

MIN_PROGRESS = 1.0  # the cost to go counts steps; less than one is the controller's noise


class Progress(NamedTuple):
    """What is remembered of each agent from one step to the next."""

    goals: np.ndarray  #: ``[B, goal_dim]``
    best: np.ndarray  #: ``[B]`` the least cost to go so far, on the way to this goal over this graph
    stalled: np.ndarray  #: ``[B]`` steps since then
    version: np.ndarray  #: ``[B]`` of the graph


class ProgressMonitor:
    """
    Reroutes agents that get no closer: not told that the world has changed, they find out by bumping into it.

    An agent whose cost to go has not fallen for ``patience`` steps is stuck. What leads past the place where it is
    in the direction it was heading becomes more expensive by the cost to go, so that a few bumps at one place make
    any detour cheaper. This is learned for good, and shared by all agents on the same graph: see
    :meth:`KeypointGraph.clear_penalties`.

    :param patience: steps
    """

    def __init__(self, patience: int) -> None:
        if not isinstance(patience, int) or patience < 1:
            raise ValueError(f"patience must be a whole number of steps, at least 1, got {patience!r}")
        self.patience = patience

    def watch(
        self,
        graph: MapGraph,
        achieved: np.ndarray,
        desired: np.ndarray,
        targets: np.ndarray,
        costs: np.ndarray,
        arrived: np.ndarray,
        state: Progress | None = None,
        episode_start: np.ndarray | None = None,
    ) -> tuple[Progress, bool]:
        """
        Take note of one step of each agent.

        :param graph: over which they plan
        :param achieved: ``[B, goal_dim]`` where they are
        :param desired: ``[B, goal_dim]`` where they want to be
        :param targets: ``[B, goal_dim]`` what they head for now
        :param costs: ``[B]`` cost to go
        :param arrived: ``[B]`` agents that are at their goals, and need not get closer
        :param state: what the last call returned; None at the beginning
        :param episode_start: ``[B]`` agents that begin anew
        :return: the new state, and whether an agent was stuck: then plan again
        """
        version = np.full(len(costs), graph.version)
        if state is None or state.goals.shape != desired.shape:
            return Progress(desired.copy(), costs, np.zeros(len(costs), dtype=np.intp), version), False
        anew = (state.goals != desired).any(axis=1) | (state.version != version)
        if episode_start is not None:
            anew |= np.asarray(episode_start, dtype=bool)
        closer = anew | (costs <= state.best - MIN_PROGRESS) | arrived | np.isinf(costs)
        best = np.where(closer, costs, state.best)
        stalled = np.where(closer, 0, state.stalled + 1)
        stuck = np.flatnonzero(stalled >= self.patience)
        for row in stuck:
            # As the cost to go holds earlier penalties, it would grow without end.
            penalty = np.clip(costs[row], graph.max_hop, graph.longest_way)
            graph.avoid(achieved[row], targets[row], float(penalty))
        return Progress(desired.copy(), best, stalled, version), bool(len(stuck))
