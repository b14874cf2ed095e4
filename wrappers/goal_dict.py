"""One observation dict, one success flag and one meaning of a seed for every goal-conditioned environment."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.random import mtrand

GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")


class GoalDict(gym.Wrapper, gym.utils.RecordConstructorArgs):
    """
    Make an OGBench or a ``GoalEnv``-style environment return the three-key dict of float32 arrays that
    goal-conditioned algorithms of Stable-Baselines3 expect.

    ``info["is_success"]`` is a ``bool`` after every step; where the environment has numbered tasks,
    ``info["task_id"]`` names the one in use. ``reset(seed=...)`` determines everything that follows,
    the draws that OGBench makes from NumPy's global state included, and that global state is left to its
    other users exactly as they left it. The n-th episode after a seeded reset has the same task, start and
    goal whatever was done in the episodes before it, if the environment draws nothing while stepping.

    Oracle goals (``use_oracle_rep=True``, or ``-oraclerep-`` in a dataset's id) leave out what a task of OGBench does
    not ask for: an ant's joints, or the arm that moves a cube.

    Example::

        env = GoalDict(gym.make("pointmaze-giant-v0"), task_id="cycle")
        obs, info = env.reset(seed=0)  # info["task_id"] == 1
        obs, info = env.reset(options={"task_id": 4})  # this episode only; the next one is task 3

    :param env: An OGBench environment, or one whose observations are a dict of Boxes ``observation``,
        ``achieved_goal``, ``desired_goal``
    :param task_id: The task of every episode: a number in ``task_ids``, ``"cycle"`` to take them in turn
        (beginning anew at a seeded reset), or ``None`` to draw one per episode
    :raises ValueError: If the environment is of neither kind, or has no such task
    """

    def __init__(self, env: gym.Env, task_id: int | str | None = None) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, task_id=task_id)
        gym.Wrapper.__init__(self, env)
        base: Any = env.unwrapped
        source = env.observation_space
        self._is_dict = isinstance(source, spaces.Dict)
        # In OGBench's plain mazes success is a distance in the plane, the first two entries of the state.
        self._is_maze = (
            hasattr(base, "_goal_tol") and not hasattr(base, "get_agent_ball_xy") and base._ob_type == "states"
        )
        self._has_oracle_goals = bool(getattr(base, "_use_oracle_rep", False))
        if isinstance(source, spaces.Dict):
            missing = [key for key in GOAL_KEYS if key not in source.spaces]
            if missing:
                raise ValueError(f"{env} is not a goal environment: its observation dict lacks {missing}")
            parts = {key: source[key] for key in GOAL_KEYS}
        elif hasattr(base, "task_infos") and isinstance(source, spaces.Box):
            goal_space = source
            if self._has_oracle_goals:
                if not (self._is_maze or hasattr(base, "compute_oracle_observation")):
                    raise ValueError(f"{env} has oracle goals that it does not tell: use_oracle_rep=False")
                goal_dim = len(self._oracle_goal(source.low))
                goal_space = spaces.Box(-np.inf, np.inf, (goal_dim,), source.dtype.type)
            parts = {"observation": source, "achieved_goal": goal_space, "desired_goal": goal_space}
        else:
            raise ValueError(
                f"{env} is not a goal environment: GoalDict needs an OGBench environment in task mode or a dict "
                f"observation with keys {list(GOAL_KEYS)}, not {source}"
            )
        self.observation_space = spaces.Dict({key: _float32_box(key, part) for key, part in parts.items()})
        # OGBench's reset samples its action space, so reset() seeds that; the user's samples come from a copy.
        self.action_space = copy.deepcopy(env.action_space)

        single_task = getattr(base, "_reward_task_id", None)
        n_tasks = env.get_wrapper_attr("num_tasks") if env.has_wrapper_attr("num_tasks") else 0
        self.task_ids: tuple[int, ...] = (single_task,) if single_task else tuple(range(1, n_tasks + 1))
        self.num_tasks = len(self.task_ids)
        drawn_or_cycled = task_id is None or (task_id == "cycle" and self.num_tasks > 0)
        self.task_id = task_id if drawn_or_cycled else self._check_task(task_id)
        self._generator = np.random.default_rng()
        self._n_episodes = 0
        self._current_task: int | None = None
        self._global_random = PrivateGlobalRandom()
        self._goal = np.zeros(0, dtype=np.float32)

    def _check_task(self, task_id: Any) -> int:
        if task_id not in self.task_ids:
            known = f"one of {list(self.task_ids)}, 'cycle' or None" if self.task_ids else "None: it has no tasks"
            raise ValueError(f"task_id={task_id!r} does not exist in {self.env}; it must be {known}")
        return int(task_id)

    def _next_task(self) -> int:
        if self.task_id is None:
            return self.task_ids[self._generator.integers(self.num_tasks)]
        if self.task_id == "cycle":
            return self.task_ids[self._n_episodes % self.num_tasks]
        return self._check_task(self.task_id)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """
        Start an episode.

        :param seed: Makes this and all later episodes reproducible
        :param options: Passed on; ``{"task_id": k}`` replaces the task of this one episode (those of later
            episodes stay what they would have been), OGBench's ``{"task_info": ...}`` gives one of your own
        :return: Observation and info
        """
        options = dict(options or {})
        if seed is not None:
            # Another stream than env.np_random, which is default_rng(seed).
            self._generator = np.random.default_rng((seed, 1))
            self._n_episodes = 0
        episode_seed = int(self._generator.integers(2**32))
        task = self._next_task() if self.task_ids else None
        self._n_episodes += 1
        if "task_id" in options:
            task = self._check_task(options["task_id"])
        elif "task_info" in options:
            task = None
        if task is not None:
            options["task_id"] = task
        self._current_task = task

        self._global_random.seed(episode_seed)
        with self._global_random, self._seeded_samples(episode_seed):
            raw, info = self.env.reset(seed=seed, options=options or None)
        if not self._is_dict:
            self._goal = np.array(info["goal"], dtype=np.float32)
        if self.task_ids:
            info["task_id"] = task
        return self._observation(raw), info

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """
        Act for one step.

        :param action: Action
        :return: Observation, reward, terminated, truncated, info
        """
        with self._global_random:
            raw, reward, terminated, truncated, info = self.env.step(action)
        success = info.get("is_success", info.get("success"))
        if success is None:
            raise ValueError(f"{self.env} reports no success: its step must set info['is_success']")
        info["is_success"] = bool(success)
        if self.task_ids:
            info["task_id"] = self._current_task
        return self._observation(raw), float(reward), bool(terminated), bool(truncated), info

    def _observation(self, raw: Any) -> dict[str, np.ndarray]:
        if self._is_dict:
            return {key: np.array(raw[key], dtype=np.float32) for key in GOAL_KEYS}
        observation = np.array(raw, dtype=np.float32)
        achieved = self._oracle_goal(observation) if self._has_oracle_goals else observation
        return {
            "observation": observation,
            "achieved_goal": np.array(achieved, dtype=np.float32),
            "desired_goal": self._goal.copy(),
        }

    def _oracle_goal(self, observation: np.ndarray) -> np.ndarray:
        """What of the present state counts for a task."""
        base: Any = self.unwrapped
        return observation[:2] if self._is_maze else base.compute_oracle_observation()

    @contextmanager
    def _seeded_samples(self, seed: int) -> Iterator[None]:
        """Let the actions that OGBench samples while it resets follow from a seed."""
        base = self.unwrapped
        owner = next((c for c in type(base).__mro__ if isinstance(vars(c).get("action_space"), property)), None)
        if owner is None:
            base.action_space.seed(seed)
            yield
            return
        # The manipulation environments make a new space at every use: put one in its place.
        made_anew, space = vars(owner)["action_space"], base.action_space
        space.seed(seed)
        owner.action_space = space  # type: ignore[attr-defined]
        try:
            yield
        finally:
            owner.action_space = made_anew  # type: ignore[attr-defined]

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> Any:
        """
        Reward of reaching ``achieved_goal`` when ``desired_goal`` was asked for, as relabelling needs it.
        At the very edge of success it may differ from that of the step, which knows the goals in float64.

        :param achieved_goal: One goal, or a batch along the first axis
        :param desired_goal: The same
        :param info: The step's info, or an array of them
        :return: One reward, or one per row
        :raises NotImplementedError: If the reward depends on more than the two goals
        """
        if self._is_dict:
            return self.env.get_wrapper_attr("compute_reward")(achieved_goal, desired_goal, info)
        base: Any = self.unwrapped
        if not self._is_maze or base._success_timing != "post" or base._reward_task_id is not None:
            raise NotImplementedError(f"The reward of {self.env} does not depend on the two goals alone")
        offset = np.asarray(achieved_goal)[..., :2] - np.asarray(desired_goal)[..., :2]
        return (np.linalg.norm(offset, axis=-1) <= base._goal_tol).astype(np.float64)


class PrivateGlobalRandom:
    """
    Context in which NumPy's global functions (``np.random.uniform`` ...) draw from a stream of our own.

    Saving and restoring the global state costs 130 µs, as much as a MuJoCo step; exchanging the bit generator
    costs 1 µs but forgets the second half of a pair of normals that the global state may hold back. So that
    half is looked for first, and put back afterwards in the rare case that there is one.
    """

    _MT19937_BYTES = 625 * 4  # 624 words and the position in them

    def __init__(self) -> None:
        self._ours: np.random.BitGenerator = np.random.MT19937()

    def seed(self, seed: int) -> None:
        self._ours = np.random.MT19937(seed)

    def __enter__(self) -> None:
        self._theirs: Any = mtrand.get_bit_generator()
        self._held_back: float | None = None
        if isinstance(self._theirs, np.random.MT19937):
            address = self._theirs.ctypes.state_address
            self._state = ctypes.string_at(address, self._MT19937_BYTES)
            normal = np.random.standard_normal()  # noqa: NPY002
            if ctypes.string_at(address, self._MT19937_BYTES) == self._state:
                self._held_back = normal  # it cost no random bits
            else:
                ctypes.memmove(address, self._state, self._MT19937_BYTES)
        mtrand.set_bit_generator(self._ours)

    def __exit__(self, *_: object) -> None:
        mtrand.set_bit_generator(self._theirs)
        if self._held_back is not None:
            key = np.frombuffer(self._state, dtype=np.uint32)
            np.random.set_state(("MT19937", key[:-1], int(key[-1]), 1, self._held_back))  # noqa: NPY002


def _float32_box(key: str, space: spaces.Space) -> spaces.Box:
    if not isinstance(space, spaces.Box):
        raise ValueError(f"observation['{key}'] must be a Box, not {space}: flatten it with a wrapper first")
    with np.errstate(over="ignore"):  # a float64 bound beyond float32 becomes infinite
        low, high = space.low.astype(np.float32), space.high.astype(np.float32)
    return spaces.Box(low, high, dtype=np.float32)
