"""Ants on a flat floor that are told directions to walk in: where the walker is trained and measured."""

from __future__ import annotations

from typing import Any

import gymnasium
import mujoco
import numpy as np
import ogbench.online_locomotion  # noqa: F401  (registers the environment)

from zoo.data.ant import Walker, world_axes

DIRECTION_STEPS = 100  # in which an ant keeps its direction
EPISODE_STEPS = 1000
HEALTHY_HEIGHTS = (0.2, 1.0)  # the environment's; an ant outside has fallen
RESET_NOISE = 0.1  # the environment's: half the range for positions, standard deviation for velocities


class FlatFloor:
    """
    Several ants, each alone on OGBench's ``online-ant-v0``, without the Gym overhead.

    :param n_ants: how many
    :param rng: source of starts and directions
    """

    def __init__(self, n_ants: int, rng: np.random.Generator):
        env: Any = gymnasium.make("online-ant-v0").unwrapped
        self.model, self.frame_skip, self.rng = env.model, env.frame_skip, rng
        self._datas = [mujoco.MjData(self.model) for _ in range(n_ants)]
        self.qpos = np.empty((n_ants, self.model.nq))
        self.qvel = np.empty((n_ants, self.model.nv))
        self.directions = np.empty((n_ants, 2))
        self._steps = np.empty(n_ants, dtype=np.int64)
        for ant in range(n_ants):
            self._reset(ant)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """
        Move all ants; :meth:`renew` has to follow, once the new state is read.

        :param actions: of each ant, in the order of the motors
        :return: how far each moved in the plane, and which have fallen
        """
        before = self.qpos[:, :2].copy()
        for ant, data in enumerate(self._datas):
            data.ctrl[:] = actions[ant]
            mujoco.mj_step(self.model, data, nstep=self.frame_skip)
            self.qpos[ant], self.qvel[ant] = data.qpos, data.qvel
        self._steps += 1
        low, high = HEALTHY_HEIGHTS
        heights, up = self.qpos[:, 2], world_axes(self.qpos)[:, 2, 2]
        # On its back an ant lies high enough for the environment, but does not get up.
        return self.qpos[:, :2] - before, (heights < low) | (heights > high) | (up < 0)

    def renew(self, fallen: np.ndarray) -> None:
        """Let fallen ants and those at the end of their episode start anew, and give the others directions in time."""
        for ant in range(len(fallen)):
            if fallen[ant] or self._steps[ant] >= EPISODE_STEPS:
                self._reset(ant)
            elif self._steps[ant] % DIRECTION_STEPS == 0:
                self._turn(ant)

    def _reset(self, ant: int) -> None:
        model, data = self.model, self._datas[ant]
        mujoco.mj_resetData(model, data)
        data.qpos[:] = model.qpos0 + self.rng.uniform(-RESET_NOISE, RESET_NOISE, size=model.nq)
        data.qvel[:] = RESET_NOISE * self.rng.standard_normal(model.nv)
        self.qpos[ant], self.qvel[ant] = data.qpos, data.qvel
        self._steps[ant] = 0
        self._turn(ant)

    def _turn(self, ant: int) -> None:
        angle = self.rng.uniform(-np.pi, np.pi)
        self.directions[ant] = np.cos(angle), np.sin(angle)


def measure(walker: Walker, n_steps: int = 10_000, noise: float = 0.2, seed: int = 0) -> tuple[float, int]:
    """
    How fast a walker walks, and how often it falls.

    :param walker: to be measured, at its most likely action
    :param n_steps: of all ants together
    :param noise: standard deviation of Gaussian noise on its actions
    :param seed: of starts, directions and noise
    :return: mean distance along the direction in a step, and the number of falls
    """
    floor = FlatFloor(10, np.random.default_rng(seed))
    way, falls = 0.0, 0
    for _ in range(n_steps // 10):
        states = zip(floor.qpos, floor.qvel, floor.directions, strict=True)
        actions = np.stack([walker.act(*state) for state in states])
        moves, fallen = floor.step(np.clip(actions + floor.rng.normal(0.0, noise, actions.shape), -1.0, 1.0))
        way += float((moves * floor.directions).sum())
        falls += int(fallen.sum())
        floor.renew(fallen)
    return way / (n_steps // 10 * 10), falls
