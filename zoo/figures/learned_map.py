"""What an agent has learned, asked point by point: which places are reachable, how far, by which plan."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch as th

from proq_agent.proq.difficulty import difficulty

if TYPE_CHECKING:
    from proq_agent.planning.navigator import Plan


CHUNK = 8192  # points in one pass of the networks
N_ROUNDS = 16  # of a few states each, over which a difficulty is averaged


def has_map(model: Any) -> bool:
    """Whether an agent has learned a map with keypoints to plan over, which can be drawn."""
    return hasattr(type(model), "planner")


def in_plane(goals: np.ndarray, axes: tuple[int, int] = (0, 1)) -> np.ndarray:
    """Goals ``[..., goal_dim]`` to points of the plane ``[..., 2]``: two of their coordinates, by default the first."""
    goals = np.asarray(goals)
    return np.concatenate([goals, np.zeros_like(goals)], axis=-1) if goals.shape[-1] == 1 else goals[..., list(axes)]


class LearnedMap:
    """
    The map of an agent, seen in a plane: two coordinates of goal space.

    A point of the plane stands for the goal whose other coordinates are those of the keypoint nearest in the plane.
    A goal space of one dimension is drawn as a horizontal band.

    :param model: a trained agent
    :param axes: the two coordinates
    :raises ValueError: if it has no map
    """

    def __init__(self, model: Any, axes: tuple[int, int] = (0, 1)) -> None:
        if not has_map(model):
            raise ValueError(f"{type(model).__name__} learns no map: there is nothing to draw")
        self.model, self.axes = model, axes
        self.policy = model.policy
        self.policy.set_training_mode(False)
        self.graph = model.planner
        self.keypoints: np.ndarray = self.policy.keypoints.cpu().numpy()
        self.goal_dim = self.keypoints.shape[1]

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top of the data that the agent learned from."""
        low, high = in_plane(self.corners, self.axes).tolist()
        return low[0], high[0], low[1], high[1]

    @property
    def corners(self) -> np.ndarray:
        """``[2, goal_dim]`` the lowest and the highest of each coordinate in these data."""
        corners = th.stack([self.policy.keypoint_low, self.policy.keypoint_high])
        return self.policy.goal_scaler.inverse(corners).cpu().numpy()

    def to_goals(self, points: np.ndarray) -> np.ndarray:
        """Points ``[n, 2]`` of the plane to goals ``[n, goal_dim]``; whole goals are returned as they are."""
        points = np.atleast_2d(np.asarray(points, dtype=np.float32))
        if points.shape[1:] == self.policy.observation_space["desired_goal"].shape:
            points = self.policy.on_map(points)
        if points.shape[1] == self.goal_dim:
            return points
        if points.shape[1] != 2:
            raise ValueError(f"a point needs 2 or {self.goal_dim} coordinates here, got {points.shape[1]}")
        if self.goal_dim == 1:
            return points[:, :1]
        offsets = points[:, None] - in_plane(self.keypoints, self.axes)
        goals = self.keypoints[np.square(offsets).sum(axis=-1).argmin(axis=1)]
        goals[:, list(self.axes)] = points
        return goals

    def reachability(self, points: np.ndarray) -> np.ndarray:
        """ψ: how far each point ``[n, 2]`` looks like a state of the data, from 0 to 1."""
        return self._in_chunks(points, lambda goals: self.policy.classify_goals(goals).sigmoid())

    def distances(self, points: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """d(point, goal): steps from each point ``[n, 2]`` to one goal, in one hop."""
        with th.no_grad():
            target = self._embed(self._tensor(self.to_goals(goal)))
        return self._in_chunks(points, lambda goals: self.policy.pairwise_distances(self._embed(goals), target)[:, 0])

    def difficulty(self, points: np.ndarray) -> np.ndarray:
        """
        How much the ways past each point ``[n, 2]`` bend.

        :raises ValueError: if none of them looks like a state of the data, between which there are ways
        """
        states = self._tensor(self.to_goals(points[self.reachability(points) > 0.5]))
        if not len(states):
            raise ValueError("nothing here is in distribution: there are no ways to draw; has the map been trained?")
        generator = th.Generator().manual_seed(0)
        rounds = []
        for _ in range(N_ROUNDS):
            some = states[th.randperm(len(states), generator=generator)]
            measure = partial(difficulty, self.policy, states=some, keypoints=self.policy.keypoints)
            rounds.append(self._in_chunks(points, measure))
        return np.mean(rounds, axis=0)

    def plan(self, start: np.ndarray, goal: np.ndarray) -> Plan:
        """
        The plan that the agent follows.

        :param start: a point of the plane or a whole goal
        :param goal: the same
        """
        return self.model.navigator.plan(self.to_goals(start)[0], self.to_goals(goal)[0])

    def _embed(self, goals: th.Tensor) -> th.Tensor:
        return self.policy.embed_goals(goals)

    def _tensor(self, goals: np.ndarray) -> th.Tensor:
        return th.as_tensor(goals, dtype=th.float32, device=self.policy.standard_keypoints.device)

    @th.no_grad()
    def _in_chunks(self, points: np.ndarray, function: Callable[[th.Tensor], th.Tensor]) -> np.ndarray:
        parts = np.array_split(points, max(1, -(-len(points) // CHUNK)))
        return np.concatenate([function(self._tensor(self.to_goals(part))).cpu().numpy() for part in parts])
