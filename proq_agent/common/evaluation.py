"""Success on numbered tasks: every episode of every task steps together and shares one ``predict``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.type_aliases import PolicyPredictor

from proq_agent.common.forked import beside, can_fork
from proq_agent.common.normalised import warn_if_normalised

DEFAULT_N_ENVS = 50  # enough rows to share the cost of a predict; more only cost memory and time to build
NO_TASK = 0  # the one pseudo-task of an environment without tasks


@dataclass(frozen=True)
class TaskResults:
    """
    What an evaluation found; every array is ``[tasks, episodes]``.

    :param tasks: the tasks' numbers
    :param success: whether the goal was reached
    :param lengths: steps until the episode's end
    :param returns: sum of rewards
    """

    tasks: tuple[int, ...]
    success: np.ndarray
    lengths: np.ndarray
    returns: np.ndarray

    @property
    def success_rate(self) -> float:
        """Share of successful episodes, over all tasks."""
        return float(self.success.mean())

    @property
    def task_success_rates(self) -> dict[int, float]:
        """Share of successful episodes of each task."""
        return dict(zip(self.tasks, self.success.mean(axis=1).tolist(), strict=True))


class EnvPool:
    """
    Environments by task, kept for the next evaluation: building one takes longer than a hundred steps.

    :param make_env: makes an environment for a task
    """

    def __init__(self, make_env: Callable[[int], gym.Env]) -> None:
        self.make_env = make_env
        self._idle: dict[int, list[gym.Env]] = {}

    def take(self, task: int) -> gym.Env:
        """An environment for the task: an idle one if there is any."""
        idle = self._idle.get(task)
        if idle:
            return idle.pop()
        env = self.make_env(task)
        warn_if_normalised(env)
        return env

    def give_back(self, task: int, env: gym.Env) -> None:
        """Return what :meth:`take` gave."""
        self._idle.setdefault(task, []).append(env)

    def close(self) -> None:
        """Close every idle environment."""
        for envs in self._idle.values():
            for env in envs:
                env.close()
        self._idle = {}


@dataclass
class _Episode:
    task: int  # index into `tasks`
    number: int
    env: gym.Env
    observation: Any
    length: int = 0
    total: float = 0.0


def evaluate_tasks(
    model: PolicyPredictor,
    make_env: Callable[[int], gym.Env] | EnvPool,
    tasks: Sequence[int],
    episodes: int,
    *,
    deterministic: bool,
    seed: int,
    n_envs: int | None = None,
) -> TaskResults:
    """
    Play ``episodes`` episodes of each task; an episode ends at success.

    Episode ``e`` of task ``k`` begins with ``env.reset(seed=f(seed, k, e))``, whatever else is evaluated and however
    many environments there are. An agent with an ``acting_generator`` is lent one seeded with ``seed``, so that
    its sampled actions repeat too (for the same ``n_envs``: rows of a batch share the stream), and goes on
    afterwards as if nothing had happened.

    :param model: anything with SB3's ``predict`` on batches of observations; if it keeps a state from step to step, in
        arrays with one row an episode
    :param make_env: makes an environment for a task, whose ``info["is_success"]`` tells success; a pool is left
        open for the next evaluation
    :param tasks: numbers of the tasks; ``[NO_TASK]`` where there are none
    :param episodes: episodes of each task
    :param deterministic: the mean action, or a sample
    :param seed: of the environments and of the acting
    :param n_envs: at most so many episodes at once, ``DEFAULT_N_ENVS`` by default
    :raises ValueError: if there is nothing to evaluate
    """
    n_envs = DEFAULT_N_ENVS if n_envs is None else n_envs
    if not tasks or episodes < 1 or n_envs < 1:
        raise ValueError(f"need a task, an episode and an env at least, got {tasks=}, {episodes=}, {n_envs=}")
    shape = (len(tasks), episodes)
    results = TaskResults(tuple(tasks), np.zeros(shape, bool), np.zeros(shape, np.int64), np.zeros(shape))
    pool = make_env if isinstance(make_env, EnvPool) else EnvPool(make_env)
    waiting = [list(range(episodes))[::-1] for _ in tasks]
    running: list[_Episode] = []

    def start(preferred: int) -> None:
        """Begin an episode, of the preferred task if any is left: its environment is there already."""
        task = preferred if waiting[preferred] else max(range(len(tasks)), key=lambda k: len(waiting[k]))
        if waiting[task]:
            number, env = waiting[task].pop(), pool.take(tasks[task])
            observation, _ = env.reset(seed=_episode_seed(seed, tasks[task], number))
            running.append(_Episode(task, number, env, observation))

    try:
        with _repeatable_acting(model, seed):
            for slot in range(n_envs):
                start(slot % len(tasks))
            state = None
            while running:
                observations = _stack([e.observation for e in running])
                begins = np.array([e.length == 0 for e in running])
                actions, state = model.predict(observations, state, begins, deterministic)
                stepped, running = running, []
                kept: list[int] = []
                for row, (episode, action) in enumerate(zip(stepped, actions, strict=True)):
                    if _step(episode, action, results):
                        pool.give_back(tasks[episode.task], episode.env)
                        start(episode.task)
                    else:
                        running.append(episode)
                    kept += [row] * (len(running) - len(kept))
                if state is not None and len(kept) < len(stepped):
                    state = tuple(part[kept] for part in state)
    finally:
        for episode in running:
            pool.give_back(tasks[episode.task], episode.env)
        if pool is not make_env:
            pool.close()
    return results


def evaluate_both(
    model: PolicyPredictor,
    make_env: Callable[[int], gym.Env] | EnvPool,
    tasks: Sequence[int],
    episodes: int,
    *,
    seed: int,
    n_envs: int | None = None,
) -> tuple[TaskResults, TaskResults]:
    """
    :func:`evaluate_tasks` with sampled and with deterministic actions; the latter in a process of their own, with
    environments of its own, if this one has a thread to spare.

    :return: sampled, deterministic
    """

    def evaluate(make_env: Callable[[int], gym.Env] | EnvPool, deterministic: bool) -> TaskResults:
        return evaluate_tasks(model, make_env, tasks, episodes, deterministic=deterministic, seed=seed, n_envs=n_envs)

    if not can_fork():
        return evaluate(make_env, False), evaluate(make_env, True)
    fresh = make_env.make_env if isinstance(make_env, EnvPool) else make_env
    with beside(lambda: evaluate(fresh, True)) as deterministic:
        return evaluate(make_env, False), deterministic()


def _step(episode: _Episode, action: np.ndarray, results: TaskResults) -> bool:
    """Act once; at success or at the episode's end, note the result and return ``True``."""
    episode.observation, reward, terminated, truncated, info = episode.env.step(action)
    episode.length += 1
    episode.total += float(reward)
    success = bool(info.get("is_success", False))
    if not (success or terminated or truncated):
        return False
    where = episode.task, episode.number
    results.success[where], results.lengths[where], results.returns[where] = success, episode.length, episode.total
    return True


def _stack(observations: list[Any]) -> Any:
    if isinstance(observations[0], dict):
        return {key: np.stack([o[key] for o in observations]) for key in observations[0]}
    return np.stack(observations)


def _episode_seed(seed: int, task: int, number: int) -> int:
    return int(np.random.SeedSequence((seed, task, number)).generate_state(1)[0] >> 1)


@contextmanager
def _repeatable_acting(model: Any, seed: int) -> Iterator[None]:
    generator = getattr(model, "acting_generator", None)
    if generator is None:
        yield
        return
    before = generator.get_state()
    generator.manual_seed(seed)
    try:
        yield
    finally:
        generator.set_state(before)
