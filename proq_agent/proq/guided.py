"""An agent that follows ProQ's plan with somebody else's controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch as th
from gymnasium import spaces

from proq_agent.common.spaces import check_observation

if TYPE_CHECKING:
    from proq_agent.planning.navigator import Navigator
    from proq_agent.proq.proq import ProQ


class GuidedController:
    """
    Shows a controller the next target on the plan instead of the goal; see also :class:`~wrappers.KeypointGoal`, which
    does the same on the side of the environment.

    Example::

        agent = ProQ.load("map.zip").guide(GCIVL.load("agent.zip"))
        action, state = agent.predict(obs)

    :param guide: has the map
    :param agent: anything with SB3's ``predict`` that keeps no state; if it plans or chooses subgoals itself, its
        ``controller`` acts
    :raises ValueError: if its goals are not those of the map
    """

    def __init__(self, guide: ProQ, agent: Any) -> None:
        self.observation_space, self.action_space = agent.observation_space, agent.action_space
        self.acting_generator: th.Generator | None = getattr(agent, "acting_generator", None)
        self._controller = getattr(agent, "controller", agent)
        self._guide = guide
        self._source: Navigator | None = None
        known = guide.observation_space
        assert isinstance(known, spaces.Dict)
        shapes = [space["desired_goal"].shape for space in (self.observation_space, known)]
        if guide.map_of == "observations" or shapes[0] != shapes[1]:
            raise ValueError(
                f"the agent's goals have shape {shapes[0]}, those of the map {shapes[1]}; a map of observations "
                "has no goals to show: train one with map_of='goals'"
            )

    def predict(
        self,
        observation: dict[str, np.ndarray],
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """
        Plan, and let the controller act towards the next target.

        :param observation: one dict of ``observation``, ``achieved_goal`` and ``desired_goal``, or a batch of them
        :param state: with ``planning.patience``, what the last call returned
        :param episode_start: rows whose ``state`` is of another episode
        :param deterministic: of the controller
        :return: the action (or a batch of them), and the ``state`` for the next call
        """
        arrays, single = check_observation(observation, self.observation_space)
        source, policy = self._guide.navigator, self._guide.policy
        if self._source is not source:  # at first, and when the map has learned more
            self._source, self._navigator = source, source.fork()
        desired = arrays["desired_goal"]
        here, goals = policy.on_map(arrays["achieved_goal"]), policy.asked(desired)
        decision, state = self._navigator.decide(here, goals, state, episode_start)
        targets = policy.shown(self._navigator.points(decision), desired)
        actions, _ = self._controller.predict({**arrays, "desired_goal": targets}, deterministic=deterministic)
        return (actions[0] if single else actions), state
