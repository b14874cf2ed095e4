"""Controllers that know short ways only, the far goals that they are asked for, and the map that may lead them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3 import SAC, HerReplayBuffer
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from proq_agent import GoalDataset, ProQ
from wrappers import make_goal_env
from zoo.config import load_hyperparams
from zoo.data.generation import generate

SCHOOL = "PointMaze_UMaze-v3"  # where SAC learns


class ScriptedController:
    """Accelerates straight towards the goal and brakes in time; observations are positions and velocities."""

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[np.ndarray, Any]:
        """As every SB3 agent does; one observation or a batch."""
        offset = observation["desired_goal"] - observation["achieved_goal"]
        velocity = observation["observation"][..., 2:]
        return np.clip(4.0 * offset - velocity, -1.0, 1.0), state


class OffsetExtractor(BaseFeaturesExtractor):
    """Velocity and the way to the goal, but not the position: what is learned in one maze holds in all."""

    def __init__(self, observation_space: gym.spaces.Dict) -> None:
        super().__init__(observation_space, features_dim=4)

    def forward(self, observations: dict[str, th.Tensor]) -> th.Tensor:
        offset = observations["desired_goal"] - observations["achieved_goal"]
        return th.cat([observations["observation"][:, 2:], offset], dim=1)


class ShortHops(gym.Wrapper):
    """Episodes that begin and end in the same cell or in neighbouring ones of a Gymnasium-Robotics maze."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.env.reset(seed=seed)
        maze: Any = self.get_wrapper_attr("maze")
        free = np.argwhere(np.array(maze.maze_map) == 0)
        start = free[self.np_random.integers(len(free))]
        near = free[np.abs(free - start).sum(axis=1) <= 1]
        return self.env.reset(options={"reset_cell": start, "goal_cell": near[self.np_random.integers(len(near))]})


class FarGoals(gym.Wrapper):
    """
    Draws starts and goals anew until there is a long way between them.

    :param env: a goal environment
    :param model: measures the way
    :param min_cost: of the plan: steps, with ``caution`` somewhat more
    """

    def __init__(self, env: gym.Env, model: ProQ, min_cost: float) -> None:
        super().__init__(env)
        self.model, self.min_cost = model, min_cost

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        for _ in range(1000):
            observation, info = self.env.reset(seed=seed, options=options)
            seed = None
            plan = self.model.plan(observation["achieved_goal"], observation["desired_goal"])
            if plan.cost >= self.min_cost and not plan.fallback:
                return observation, info
        raise ValueError(f"{self.env} has no goals at a cost of {self.min_cost:g} or more: choose a smaller --min-cost")


def train_map(env_id: str, episodes: int, n_updates: int, seed: int) -> ProQ:
    """
    Learn a maze from trajectories.

    :param env_id: one of Gymnasium-Robotics' PointMazes
    :param episodes: size of the dataset
    :param n_updates: of ProQ
    :param seed: of both
    """
    data = generate(env_id, seed, episodes, val_episodes=1)["train"]
    env = make_goal_env(env_id)
    overrides = [
        "planning.max_hop:50.0",  # less than two cells: the controllers see no walls
        f"keypoints.start:{n_updates // 5}",
        *("map_fraction:0.99", "actor_fraction:0.01"),  # nobody will ask ProQ's own
    ]
    settings, _ = load_hyperparams(env_id, overrides=overrides)
    model = ProQ(
        **settings,
        seed=seed,
        device="cpu",
        dataset=GoalDataset(
            data["observations"], data["actions"], data["terminals"], achieved_goals=data["achieved_goals"]
        ),
        observation_space=env.observation_space,
        action_space=env.action_space,
    )
    env.close()
    return model.learn(n_updates, log_interval=None)


def train_sac(n_timesteps: int, seed: int) -> SAC:
    """
    Stable-Baselines3's SAC with hindsight, on short hops.

    :param n_timesteps: steps in the small maze
    :param seed: of everything
    """
    env = ShortHops(make_goal_env(SCHOOL, max_episode_steps=60, continuing_task=False))
    model = SAC(
        "MultiInputPolicy",
        env,
        learning_rate=1e-3,
        buffer_size=n_timesteps,
        learning_starts=1000,
        gamma=0.98,
        ent_coef=0.002,  # a reward of 0 until the goal: with more, the bonus for entropy makes it stay away
        replay_buffer_class=HerReplayBuffer,
        policy_kwargs={"features_extractor_class": OffsetExtractor, "net_arch": [64, 64]},
        seed=seed,
        device="cpu",
    )
    return model.learn(n_timesteps)
