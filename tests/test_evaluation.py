"""Batched evaluation: same episodes as one by one, repeatable, independent of how many run at once."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import SAC

from proq_agent.common.evaluation import EnvPool, TaskResults, evaluate_both, evaluate_tasks


class Line(gym.Env):
    """Walk on a line to +1; the task scales the steps, the seed sets the start. Nothing ends at the goal by itself."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    made = closed = 0

    def __init__(self, task: int, limit: int = 30) -> None:
        self.task, self.limit = task, limit
        type(self).made += 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.x, self.t = float(self.np_random.uniform(-1.0, 0.0)), 0
        return self._observation(), {}

    def step(self, action: np.ndarray) -> Any:
        self.x += 0.1 * self.task * float(action[0])
        self.t += 1
        return self._observation(), self.x, False, self.t >= self.limit, {"is_success": self.x >= 1.0}

    def _observation(self) -> np.ndarray:
        return np.array([self.x], dtype=np.float32)

    def close(self) -> None:
        type(self).closed += 1


class Walker:
    """A model whose sampled actions come from a generator of its own, as ProQ's do."""

    def __init__(self) -> None:
        self.acting_generator = th.Generator().manual_seed(3)
        self.batch_sizes: list[int] = []

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[np.ndarray, Any]:
        self.batch_sizes.append(len(observation))
        actions = np.full((len(observation), 1), 0.8, dtype=np.float32)
        if not deterministic:
            actions += th.randn(actions.shape, generator=self.acting_generator).numpy()
        return actions, None


def same(a: TaskResults, b: TaskResults) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("success", "lengths", "returns"))


@pytest.mark.parametrize("n_envs", [1, 2, 5, 100])
def test_deterministic_results_do_not_depend_on_how_many_episodes_run_at_once(n_envs: int) -> None:
    reference = evaluate_tasks(Walker(), Line, (1, 2, 3), 4, deterministic=True, seed=5)
    model = Walker()
    results = evaluate_tasks(model, Line, (1, 2, 3), 4, deterministic=True, seed=5, n_envs=n_envs)
    assert same(reference, results)
    assert max(model.batch_sizes) == min(n_envs, 12)
    assert sum(model.batch_sizes) == results.lengths.sum()


def test_an_episode_is_the_same_whatever_is_evaluated_beside_it() -> None:
    alone = evaluate_tasks(Walker(), Line, (2,), 1, deterministic=True, seed=5)
    among = evaluate_tasks(Walker(), Line, (1, 2, 3), 4, deterministic=True, seed=5)
    assert alone.lengths[0, 0] == among.lengths[1, 0]
    assert alone.returns[0, 0] == among.returns[1, 0]


def test_episode_by_episode_gives_what_a_plain_loop_gives() -> None:
    results = evaluate_tasks(Walker(), lambda task: Line(task, limit=12), (1, 2), 3, deterministic=True, seed=0)
    for row, task in enumerate((1, 2)):
        starts = set()
        for column in range(3):
            length, success = results.lengths[row, column], results.success[row, column]
            step = 0.1 * task * np.float32(0.8)
            # The return is the sum of start + i * step over the episode: it reveals the start.
            start = results.returns[row, column] / length - step * (length + 1) / 2
            steps_needed = int(np.ceil((1.0 - start) / step - 1e-5))
            assert length == min(steps_needed, 12)
            assert success == (steps_needed <= 12)
            starts.add(round(start, 6))
        assert len(starts) == 3
    assert results.success_rate == pytest.approx(np.mean(list(results.task_success_rates.values())))


def test_sampled_evaluations_repeat_and_leave_the_agent_as_it_was() -> None:
    model = Walker()
    before = model.acting_generator.get_state()
    first = evaluate_tasks(model, Line, (1, 2), 5, deterministic=False, seed=1)
    assert th.equal(model.acting_generator.get_state(), before)
    model.predict(np.zeros((3, 1)))
    assert same(first, evaluate_tasks(model, Line, (1, 2), 5, deterministic=False, seed=1))
    assert not same(first, evaluate_tasks(model, Line, (1, 2), 5, deterministic=False, seed=2))


def test_a_state_follows_its_episode() -> None:
    class Remembers(Walker):
        def predict(self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False):
            position = observation[:, 0]
            if state is not None:
                (last, steps), goes_on = state, ~episode_start
                np.testing.assert_array_less(last[goes_on], position[goes_on])  # walked on
                np.testing.assert_allclose(position[goes_on], last[goes_on] + steps[goes_on], rtol=1e-5)
                begun.append(int(episode_start.sum()))
            actions, _ = super().predict(observation, deterministic=True)
            actions[:, 0] *= 1.0 + 0.2 * np.sin(7.0 * position)  # no two rows move alike
            return actions, (position.copy(), 0.1 * actions[:, 0])

    begun: list[int] = []
    evaluate_tasks(Remembers(), lambda task: Line(1), (1, 2), 5, deterministic=True, seed=0, n_envs=3)
    assert sum(begun) == 7  # all but the first three


def test_environments_are_reused_and_closed() -> None:
    Line.made = Line.closed = 0
    evaluate_tasks(Walker(), Line, (1, 2, 3), 10, deterministic=True, seed=0, n_envs=6)
    assert 6 <= Line.made <= 12
    assert Line.closed == Line.made


def test_a_pool_keeps_environments_between_evaluations() -> None:
    Line.made = Line.closed = 0
    pool = EnvPool(Line)
    for _ in range(3):
        evaluate_tasks(Walker(), pool, (1, 2), 3, deterministic=True, seed=0)
    assert (Line.made, Line.closed) == (6, 0)
    pool.close()
    assert Line.closed == 6


def test_environments_are_closed_when_the_agent_fails() -> None:
    class Broken(Walker):
        def predict(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("broken")

    Line.made = Line.closed = 0
    with pytest.raises(RuntimeError, match="broken"):
        evaluate_tasks(Broken(), Line, (1,), 2, deterministic=True, seed=0)
    assert Line.made == Line.closed == 2


def test_any_sb3_model_can_be_evaluated() -> None:
    model = SAC("MlpPolicy", Line(1), policy_kwargs={"net_arch": [8]}, buffer_size=10, device="cpu")
    first = evaluate_tasks(model, Line, (1, 2), 2, deterministic=True, seed=0)
    assert first.success.shape == (2, 2)
    assert same(first, evaluate_tasks(model, Line, (1, 2), 2, deterministic=True, seed=0))


@pytest.mark.parametrize("bad", [{"tasks": ()}, {"episodes": 0}, {"n_envs": 0}])
def test_nothing_to_evaluate_is_an_error(bad: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"tasks": (1,), "episodes": 1, "deterministic": True, "seed": 0} | bad
    with pytest.raises(ValueError, match="at least"):
        evaluate_tasks(Walker(), Line, **arguments)


def test_a_second_process_changes_nothing(two_threads):
    pool = EnvPool(Line)
    expected = [evaluate_tasks(Walker(), Line, [1, 2], 4, deterministic=choice, seed=5) for choice in (False, True)]
    made, model = Line.made, Walker()
    for found, alone in zip(evaluate_both(model, pool, [1, 2], 4, seed=5), expected, strict=True):
        for name in ("success", "lengths", "returns"):
            assert np.array_equal(getattr(found, name), getattr(alone, name)), name
    assert Line.made - made == 8  # those of sampled actions; the others are in the other process
    assert th.equal(model.acting_generator.get_state(), Walker().acting_generator.get_state())


def test_one_thread_is_one_process():
    made = Line.made
    evaluate_both(Walker(), Line, [1, 2], 4, seed=5)
    assert Line.made - made == 16
