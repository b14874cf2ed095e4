"""A policy's map and controller for planning: batches of any size, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch as th

from proq_agent.planning.goal_map import Places, Rows

if TYPE_CHECKING:
    from proq_agent.proq.policies import ProQPolicy


class Targets(NamedTuple):
    """What agents may head for."""

    nodes: Places
    goals: Places


class BatchMap:
    """
    A :class:`~proq_agent.planning.goal_map.GoalMap` and the :class:`~proq_agent.planning.goal_map.Controller` on it,
    also of one agent among many nodes; rows are tensors on the policy's device.

    :param policy: holds φ, d, ψ, the keypoints and the actor; must not change while plans are made
    """

    def __init__(self, policy: ProQPolicy) -> None:
        self.policy = policy

    @property
    def keypoints(self) -> np.ndarray:
        return self.policy.keypoints.cpu().numpy()

    @th.no_grad()
    def place(self, points: np.ndarray) -> Places:
        locations = self.policy.locate(self._tensor(points))
        return Places(points, locations, self.policy.embed(locations))

    @th.no_grad()
    def goal_states(self, desired: np.ndarray) -> np.ndarray:
        """
        See :class:`~proq_agent.proq.goal_states.GoalStates`. A point of a map of some coordinates asks for what it has.

        :raises ValueError: if these are no goals
        """
        goal_states = self.policy.goal_states
        assert goal_states is not None
        dim = len(goal_states.tolerances)
        if self.policy.coordinates is not None and desired.shape[1:] == goal_states.states.shape[1:]:
            desired = self.policy.shown(desired, np.zeros(dim, dtype=np.float32))
        if desired.ndim != 2 or desired.shape[1] != dim or not np.isfinite(desired).all():
            raise ValueError(f"goal must be a finite point with {dim} coordinates, got {desired.tolist()}")
        return goal_states(self._tensor(desired)).cpu().numpy()

    @th.no_grad()
    def reachable(self, points: np.ndarray) -> np.ndarray:
        """Where ψ is at least one half."""
        return (self.policy.classify_goals(self._tensor(points)) >= 0).cpu().numpy()

    @th.no_grad()
    def pairwise(self, starts: Places, ends: Places) -> np.ndarray:
        distances = self.policy.pairwise_distances(self._tensor(starts.embeddings), self._tensor(ends.embeddings))
        return distances.cpu().numpy()

    def join(self, parts: Sequence[Places]) -> Places:
        return Places(
            np.concatenate([part.points for part in parts]),
            th.cat([part.locations for part in parts]),
            th.cat([part.embeddings for part in parts]),
        )

    def targets(self, nodes: Places, goals: Places) -> Targets:
        return Targets(nodes, goals)

    @th.no_grad()
    def distances(self, states: Places, targets: Targets) -> tuple[np.ndarray, np.ndarray]:
        goals = targets.goals.embeddings
        here = states.embeddings.repeat_interleave(len(goals) // len(states), dim=0)
        return self.pairwise(states, targets.nodes), self.policy.distances(here, goals).cpu().numpy()

    def distances_to(self, nodes: np.ndarray, state: Places, targets: Targets) -> np.ndarray:
        return self.pairwise(state, targets.nodes[nodes])

    def distances_from(self, nodes: np.ndarray, state: Places, targets: Targets) -> np.ndarray:
        return self.pairwise(targets.nodes[nodes], state)[:, 0]

    def distance_to_goal(self, state: Places, targets: Targets) -> np.ndarray:
        return self.pairwise(state, targets.goals)[0]

    @th.no_grad()
    def act(
        self,
        observations: np.ndarray,
        states: Places,
        targets: Targets,
        chosen: np.ndarray,
        deterministic: bool,
        generator: th.Generator | None,
    ) -> np.ndarray:
        nodes, goals = targets
        target = th.as_tensor(chosen, device=self.policy.device)
        is_goal = target == len(nodes)
        locations = th.where(is_goal[:, None], goals.locations, nodes.locations[target.masked_fill(is_goal, 0)])
        actions = self.policy.act(self._tensor(observations), states.locations, locations, deterministic, generator)
        return actions.cpu().numpy()

    def _tensor(self, rows: Rows) -> th.Tensor:
        return th.as_tensor(rows, dtype=th.float32, device=self.policy.device)
