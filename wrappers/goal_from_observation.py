"""A goal environment made of any environment: a part of what it shows is to become what was asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from proq_agent.common.goals import GoalSpec, PerCoordinate, as_goal_spec

MAX_DRAWS = 100  # of a goal that is not reached already


class GoalFromObservation(gym.Wrapper, gym.utils.RecordConstructorArgs):
    """
    Ask an environment that knows no goals for states: its observations become a dict with ``observation``,
    ``achieved_goal`` and ``desired_goal``, its reward is one where every coordinate of the goal is within its tolerance
    and zero elsewhere, and an episode ends there (and where the environment itself ends it).

    Example::

        >>> import gymnasium as gym
        >>> from wrappers import GoalFromObservation
        >>> env = GoalFromObservation(gym.make("MountainCarContinuous-v0"), [0], tolerance=0.05)
        >>> observation, info = env.reset(seed=0)
        >>> sorted((key, value.shape) for key, value in observation.items())
        [('achieved_goal', (1,)), ('desired_goal', (1,)), ('observation', (2,))]
        >>> observation, info = env.reset(options={"goal": [-0.9]})
        >>> observation["desired_goal"]
        array([-0.9], dtype=float32)
        >>> env.step(env.action_space.sample())[4]["is_success"]
        False

    :param env: its observations are a Box of one axis
    :param goal: indices of the observation, a function of observations, or a :class:`~proq_agent.GoalSpec` that holds
        ``tolerance`` and ``period`` too
    :param tolerance: how far each coordinate may be off, one number or one for each; None: it does not matter
    :param period: after how much a coordinate is the same again, one number or one for each; None: never
    :param goals: where the goals of episodes come from: a function of a NumPy generator, or an array ``[n, goal_dim]``
        of goals to draw from, for instance those of a dataset; uniform within the observation's bounds by default
    :param tasks: goals that are numbered from 1 and asked for by ``reset(options={"task_id": 1})``
    :raises ValueError: if there is no tolerance, or goals cannot be drawn
    """

    def __init__(
        self,
        env: gym.Env,
        goal: GoalSpec | Sequence[int] | Callable[[np.ndarray], np.ndarray],
        tolerance: PerCoordinate = None,
        period: PerCoordinate = None,
        goals: Callable[[np.random.Generator], Any] | np.ndarray | None = None,
        tasks: Sequence[Any] = (),
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(
            self, goal=goal, tolerance=tolerance, period=period, goals=goals, tasks=tasks
        )
        gym.Wrapper.__init__(self, env)
        spec = as_goal_spec(goal)
        if tolerance is not None or period is not None:
            spec = GoalSpec(spec.indices, spec.function, tolerance, period)
        source = env.observation_space
        if not isinstance(source, spaces.Box) or len(source.shape) != 1:
            raise ValueError(f"{env} must show a Box of one axis, not {source}: flatten it with a wrapper first")
        self.goal_spec = spec
        self._space = self._goal_space(source)
        spec.tolerances(self._space.shape[0])  # there is one for every coordinate
        self.observation_space = spaces.Dict(observation=source, achieved_goal=self._space, desired_goal=self._space)
        self._goals = goals if goals is None or callable(goals) else self._as_goals(goals)
        if goals is None and not self._space.is_bounded():
            raise ValueError(f"{env} has goals without bounds; say where they come from: goals=...")
        self.num_tasks = len(tasks)
        self._tasks = self._as_goals(tasks) if self.num_tasks else np.empty((0, *self._space.shape))
        self._generator = np.random.default_rng()
        self._goal = np.zeros(self._space.shape, self._space.dtype)

    def _goal_space(self, source: spaces.Box) -> spaces.Box:
        if self.goal_spec.function is None:
            bounds = self.goal_spec.of(np.stack([source.low, source.high]))
            return spaces.Box(bounds[0], bounds[1], dtype=source.dtype.type)
        example = self.goal_spec.of(np.clip(np.zeros_like(source.low), source.low, source.high)[None])
        return spaces.Box(-np.inf, np.inf, example.shape[1:], source.dtype.type)

    def _as_goals(self, goals: Any) -> np.ndarray:
        goals = np.asarray(goals, dtype=self._space.dtype)
        if goals.ndim != 2 or not len(goals) or goals.shape[1:] != self._space.shape:
            raise ValueError(f"goals have shape {goals.shape}; expected [n, {self._space.shape[0]}]")
        return goals

    def _draw(self) -> np.ndarray:
        if self._goals is None:
            return self._generator.uniform(self._space.low, self._space.high)
        if callable(self._goals):
            return self._goals(self._generator)
        return self._goals[self._generator.integers(len(self._goals))]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """
        Start an episode.

        :param seed: Makes this and all later episodes reproducible, their goals too
        :param options: Passed on; ``{"goal": g}`` or ``{"task_id": k}`` chooses this episode's goal
        :return: Observation and info
        """
        options = dict(options or {})
        task, goal = options.pop("task_id", None), options.pop("goal", None)
        if task is not None and task not in range(1, self.num_tasks + 1):
            raise ValueError(f"task_id={task!r} does not exist; there are {self.num_tasks} tasks, numbered from 1")
        if seed is not None:
            # Another stream than env.np_random, which is default_rng(seed).
            self._generator = np.random.default_rng((seed, 2))
        observation, info = self.env.reset(seed=seed, options=options or None)
        if goal is None and task is not None:
            goal = self._tasks[task - 1]
        if goal is not None:
            self._goal = self._as_goals([goal])[0]
        else:
            achieved = self.goal_spec.of(observation[None])[0]
            for _ in range(MAX_DRAWS):
                self._goal = self._as_goals([self._draw()])[0]
                if not self.goal_spec.is_reached(achieved, self._goal):
                    break
        return self._observation(observation), info

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """
        Act for one step.

        :param action: Action
        :return: Observation, reward, terminated, truncated, info
        """
        raw, _, terminated, truncated, info = self.env.step(action)
        observation = self._observation(raw)
        success = bool(self.goal_spec.is_reached(observation["achieved_goal"], self._goal))
        return observation, float(success), terminated or success, truncated, info | {"is_success": success}

    def _observation(self, raw: np.ndarray) -> dict[str, np.ndarray]:
        achieved = self.goal_spec.of(raw[None])[0].astype(self._space.dtype)
        return {"observation": raw, "achieved_goal": achieved, "desired_goal": self._goal.copy()}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> Any:
        """
        Reward of reaching ``achieved_goal`` when ``desired_goal`` was asked for.

        :param achieved_goal: One goal, or a batch along the first axis
        :param desired_goal: The same
        :param info: Not needed
        :return: One reward, or one per row
        """
        return np.asarray(self.goal_spec.is_reached(achieved_goal, desired_goal), dtype=np.float64)[()]
