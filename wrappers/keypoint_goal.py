"""A goal environment that shows its agent the way: the goal it is given is the next target on a plan."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from proq_agent import ProQ
from proq_agent.planning.navigator import Navigator, Plan
from wrappers.goal_dict import GOAL_KEYS


class KeypointGoal(gym.Wrapper, gym.utils.RecordConstructorArgs):
    """
    Replace ``desired_goal`` by the point to head for next on ProQ's plan, so that a controller that only knows
    short ways reaches far goals.

    The reward, ``is_success`` and the end of the episode stay those of the true goal. ``info`` holds after every reset
    and step

    * ``final_goal``: the true goal,
    * ``plan``: the points to visit, from the one shown to the true goal, or to where chance decides; on a map of places
      they ask for the true goal's pose,
    * ``keypoint``: index of the one shown, ``planner.n_nodes`` if it is the true goal,
    * ``cost_to_go``: estimated cost to the true goal: steps, with ``caution`` somewhat more,
    * ``fallback``: whether the plan needs a hop that is longer than the planner trusts.

    Blocking a part of ``model.planner`` reroutes the agents of all wrappers made from that model in this process. With
    the model's ``patience`` set, agents that make no progress are rerouted too.

    Example::

        env = KeypointGoal(make_goal_env("pointmaze-giant-v0"), ProQ.load("agent.zip"))
        obs, info = env.reset(seed=0)
        action, _ = any_short_range_policy.predict(obs)

    :param env: a goal environment, see :class:`~wrappers.goal_dict.GoalDict`
    :param model: a trained agent, of which only the map and the planner are used
    :raises ValueError: if the goals of the environment are not those of the model
    """

    def __init__(self, env: gym.Env, model: ProQ) -> None:
        # Not copied: the planner is shared with whoever blocks a part of it.
        gym.utils.RecordConstructorArgs.__init__(self, _disable_deepcopy=True, model=model)
        gym.Wrapper.__init__(self, env)
        if not isinstance(model, ProQ):
            raise ValueError(f"KeypointGoal needs a ProQ agent, ProQ.load('agent.zip') for example, got {model!r}")
        space = env.observation_space
        if not isinstance(space, spaces.Dict) or not set(GOAL_KEYS) <= set(space.spaces):
            raise ValueError(f"{env} is not a goal environment: wrap it in GoalDict first")
        achieved, desired = space["achieved_goal"], space["desired_goal"]
        if not isinstance(achieved, spaces.Box) or not isinstance(desired, spaces.Box):
            raise ValueError(f"{env} has goals that are no points: they must be Boxes, not {achieved} and {desired}")
        known = model.observation_space
        assert isinstance(known, spaces.Dict)
        goal_shape = known["desired_goal"].shape
        if achieved.shape != goal_shape or desired.shape != goal_shape:
            raise ValueError(
                f"{env} has goals of shape {desired.shape} and achieves {achieved.shape}, the model knows {goal_shape}"
            )
        if model.map_of == "observations":
            raise ValueError("the model's map is of observations, not of goals to show: train one with map_of='goals'")
        # Keypoints lie where the data have been, which need not be where goals are drawn.
        low, high = np.minimum(achieved.low, desired.low), np.maximum(achieved.high, desired.high)
        self._dtype = np.result_type(desired.dtype, np.float32)  # they lie between whole numbers too
        shown = spaces.Box(low.astype(self._dtype), high.astype(self._dtype), dtype=self._dtype.type)
        self.observation_space = spaces.Dict(space.spaces | {"desired_goal": shown})
        self.model = model
        self._source: Navigator | None = None
        self._progress: tuple[np.ndarray, ...] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start an episode, and plan."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._progress = None
        return self._redirect(observation, info)

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Act for one step, and plan anew."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        observation, info = self._redirect(observation, info)
        return observation, float(reward), terminated, truncated, info

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> Any:
        """
        Reward of reaching ``achieved_goal``; the point shown in a step stands for the true goal of that step.

        :param achieved_goal: one goal, or a batch along the first axis
        :param desired_goal: the same
        :param info: the step's info, or a sequence of them; without it goals mean what they are
        """
        desired_goal = np.array(desired_goal)
        rows = np.atleast_2d(desired_goal)  # views
        infos = [info or {}] * len(rows) if info is None or isinstance(info, dict) else info
        for row, its_info in zip(rows, infos, strict=True):
            if "plan" in its_info and np.array_equal(row, its_info["plan"][0]):
                row[:] = its_info["final_goal"]
        return self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, info)

    def _redirect(
        self, observation: dict[str, np.ndarray], info: dict[str, Any]
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        goal = observation["desired_goal"]
        plan = self._plan(observation["achieved_goal"], goal)
        points = self.model.policy.shown(plan.points, goal).astype(self._dtype)
        if plan.nodes[-1] == self.model.planner.n_nodes:
            points[-1] = goal  # to the last digit
        planned = {
            "final_goal": goal.copy(),
            "plan": tuple(points),  # vector environments cannot put arrays of several lengths together
            "keypoint": plan.nodes[0],
            "cost_to_go": plan.cost,
            "fallback": plan.fallback,
        }
        return {**observation, "desired_goal": points[0].copy()}, info | planned

    def _plan(self, start: np.ndarray, goal: np.ndarray) -> Plan:
        if self._source is not self.model.navigator:  # at first, and when the model has learned more
            self._source = self.model.navigator
            self._navigator = self._source.fork()
        policy = self.model.policy
        plan, self._progress = self._navigator.follow(policy.on_map(start), policy.asked(goal), self._progress)
        return plan
