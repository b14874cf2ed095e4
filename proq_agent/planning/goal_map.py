"""What planning asks of a learned map and of a controller: it knows neither networks nor devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Rows = Any  # one row a point, an array or a tensor: planning takes rows out and hands them back, nothing else


@dataclass(frozen=True, eq=False)
class Places:
    """Points of goal space with what the map makes of them."""

    points: np.ndarray  #: ``[N, goal_dim]``
    locations: Rows  #: what a controller is told of them
    embeddings: Rows  #: what distances are computed from

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, rows: np.ndarray | slice) -> Places:
        return Places(self.points[rows], self.locations[rows], self.embeddings[rows])


class GoalMap(Protocol):
    """A learned map of goal space, which does not change while plans are made on it."""

    @property
    def keypoints(self) -> np.ndarray:
        """``[n_keypoints, goal_dim]``"""

    def place(self, points: np.ndarray) -> Places:
        """
        :param points: ``[N, goal_dim]``
        """

    def reachable(self, points: np.ndarray) -> np.ndarray:
        """``[N]`` bool, which points ``[N, goal_dim]`` are like those of the data."""

    def pairwise(self, starts: Places, ends: Places) -> np.ndarray:
        """
        ``[starts, ends]`` distances, which obey the triangle inequality; the starts may be those of a
        :class:`Controller` of the same map.
        """

    def join(self, parts: Sequence[Places]) -> Places:
        """Several places as one."""


class Controller(Protocol):
    """Acts in one agent, or in a batch of them, on a map."""

    def place(self, points: np.ndarray) -> Places:
        """
        :param points: ``[B, goal_dim]`` where the agents are
        """

    def targets(self, nodes: Places, goals: Places) -> Any:
        """
        All that agents may head for, in the form that the other methods want.

        :param nodes: the same for all agents
        :param goals: one for each, or n for each, those of the first agent first
        """

    def distances(self, states: Places, targets: Any) -> tuple[np.ndarray, np.ndarray]:
        """``[B, nodes]`` distances from each agent to each node, and ``[B * n]`` to each of its own n goals."""

    def act(
        self,
        observations: np.ndarray,
        states: Places,
        targets: Any,
        chosen: np.ndarray,
        deterministic: bool,
        generator: Any,
    ) -> np.ndarray:
        """
        ``[B, action_dim]`` actions.

        :param observations: ``[B, observation_dim]``
        :param states: where the agents are
        :param targets: what :meth:`targets` returned
        :param chosen: ``[B]`` the node that each heads for; the number of nodes stands for its goal
        :param deterministic: the mean action instead of a sample
        :param generator: source of the samples
        """


class NearController(Controller, Protocol):
    """Of one agent among so many nodes that it had better not measure its distance to all of them."""

    def distances_to(self, nodes: np.ndarray, state: Places, targets: Any) -> np.ndarray:
        """``[1, nodes]`` distances from the agent to some nodes."""

    def distances_from(self, nodes: np.ndarray, state: Places, targets: Any) -> np.ndarray:
        """``[nodes]`` distances from some nodes to the agent."""

    def distance_to_goal(self, state: Places, targets: Any) -> np.ndarray:
        """``[1]`` distance from the agent to its goal."""
