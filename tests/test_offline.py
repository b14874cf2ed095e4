"""Training that has gone wrong is stopped and said to have, and neither saved nor silently evaluated."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from agent_files import as_stream, members_of, with_metadata
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize
from tiny_goal import TINY, TinyGoalEnv, tiny_arrays, tiny_model

from proq_agent import GCBC, GoalDataset, GoalSpec, ProQ
from proq_agent.common.errors import CheckpointError
from proq_agent.common.evaluation import NO_TASK, evaluate_tasks
from proq_agent.common.goal_limits import GoalLimits
from proq_agent.common.offline import MAX_UNCHECKED, TrainingDiverged


def poison(model: ProQ, name: str, update: int) -> None:
    """Let a metric be NaN from an update on, and spoil the weights, as a division by zero would."""
    accumulate = model._accumulate

    def poisoned(metrics: dict[str, th.Tensor]) -> None:
        if name in metrics and model._n_updates + 1 >= update:
            metrics = metrics | {name: metrics[name] * th.nan}
            with th.no_grad():
                model.policy.log_std.fill_(th.nan)
        accumulate(metrics)

    model._accumulate = poisoned  # type: ignore[method-assign]


@pytest.mark.parametrize("name", ["actor_loss", "loss", "repel_loss"])
def test_training_stops_with_the_name_of_the_loss_and_the_update(name: str) -> None:
    model = tiny_model()
    poison(model, name, 7)
    with pytest.raises(TrainingDiverged, match=rf"^{name} is nan in update 7: .*learning_rate.*dataset"):
        model.learn(20, log_interval=None)


@pytest.mark.parametrize("way", ["log", "save", "many"])
def test_it_is_noticed_long_before_the_end(way: str, tmp_path: Path) -> None:
    model = tiny_model()
    poison(model, "actor_loss", 2)

    def callback(*_: Any) -> bool:
        if way == "save" and model.num_timesteps == 5:
            model.save(tmp_path / "agent")
        return True

    with pytest.raises(TrainingDiverged, match="actor_loss is nan in update 2"):
        model.learn(MAX_UNCHECKED, callback, log_interval=5 if way == "log" else None)
    assert model.num_timesteps <= (MAX_UNCHECKED // 5 if way == "many" else 5)
    assert not list(tmp_path.iterdir())


def test_a_training_that_diverges_by_itself_leaves_no_agent(tmp_path: Path) -> None:
    model = tiny_model(learning_rate=1e20)
    with pytest.raises(TrainingDiverged):
        model.learn(50, log_interval=None)
    with pytest.raises(ValueError, match="not finite"):
        model.save(tmp_path / "agent")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "settings",
    [
        {"learning_rate": float("inf")},
        {"learning_rate": lambda progress: float("nan")},
        {"temperature": float("inf")},
        {"policy_kwargs": {"n_fourier_features": 4, "fourier_scale": float("nan")}},
        {"policy_kwargs": {"n_fourier_features": 4, "fourier_scale": float("inf")}},
        {"policy_kwargs": {"dropout": float("nan")}},
    ],
)
def test_settings_that_are_no_numbers_are_refused_when_given(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"learning_rate|temperature|Fourier|dropout"):
        tiny_model(**settings)


class Flat(TinyGoalEnv):
    """Shows the position alone."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = self.observation_space["observation"]

    def _observation(self) -> Any:
        return self.position.copy()


class Goals(gym.ObservationWrapper):
    """Makes a goal environment of it."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.observation_space = TinyGoalEnv().observation_space

    def observation(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        return dict.fromkeys(self.observation_space, observation.astype(np.float32))  # type: ignore[call-overload]


def normalised(norm_obs: bool = True) -> VecMonitor:
    return VecMonitor(VecNormalize(DummyVecEnv([TinyGoalEnv]), norm_obs=norm_obs))


def test_an_environment_that_normalises_is_noticed_wherever_it_is_given(tmp_path: Path) -> None:
    model = tiny_model(env=TinyGoalEnv())
    model.save(tmp_path / "agent")
    for give in (
        model.set_env,
        lambda env: tiny_model(env=env),
        lambda env: ProQ.load(tmp_path / "agent", env, device="cpu"),
    ):
        with pytest.warns(UserWarning, match="VecNormalize changes the observations"):
            give(normalised())
    with pytest.warns(UserWarning, match="NormalizeObservation changes the observations"):
        model.set_env(Goals(gym.wrappers.NormalizeObservation(Flat())))
    with pytest.warns(UserWarning, match="NormalizeObservation changes the observations"):
        evaluate_tasks(
            model,
            lambda _: Goals(gym.wrappers.NormalizeObservation(Flat())),
            [NO_TASK],
            1,
            deterministic=True,
            seed=0,
        )


@pytest.mark.filterwarnings("error")
def test_other_environments_are_no_reason_to_warn() -> None:
    model = tiny_model(env=TinyGoalEnv())
    model.set_env(normalised(norm_obs=False))
    evaluate_tasks(model, lambda _: TinyGoalEnv(), [NO_TASK], 1, deterministic=True, seed=0)
    evaluate_policy(model, VecMonitor(DummyVecEnv([TinyGoalEnv])), 1)


def far_off(model: ProQ | GCBC, far: float = 100.0) -> dict[str, np.ndarray]:
    observation = {key: np.zeros(space.shape) for key, space in model.observation_space.spaces.items()}  # type: ignore
    return observation | {"achieved_goal": np.array([0.0, far])}


@pytest.mark.parametrize("kind", [ProQ, GCBC])
def test_an_observation_from_another_world_is_noticed_without_an_environment(kind: type[ProQ | GCBC]) -> None:
    model = kind("MultiInputPolicy", dataset=GoalDataset(**tiny_arrays()), seed=0, device="cpu")
    model.save(file := io.BytesIO())
    file.seek(0)
    loaded = kind.load(file, device="cpu")
    with pytest.warns(UserWarning, match=r"achieved_goal\[1\] is 100, but .*VecNormalize"):
        loaded.predict(far_off(loaded))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded.predict(far_off(loaded))  # once is enough
        model.predict(far_off(model, 0.0))


def test_agents_of_older_files_know_their_world_by_their_map() -> None:
    model = tiny_model()
    model.save(file := io.BytesIO())
    members = members_of(file)
    learned = {"chance_edges": []}  # as it was before there were limits
    loaded = ProQ.load(as_stream(with_metadata(members, learned=learned)), device="cpu")
    for known, limits in zip(loaded.goal_limits, model.goal_limits, strict=True):
        np.testing.assert_allclose(known, limits, atol=0.01)  # but for what was set aside
    with pytest.warns(UserWarning, match=r"achieved_goal\[1\] is 100, but .*VecNormalize"):
        loaded.predict(far_off(loaded))
    spaces = {"observation_space": model.observation_space, "action_space": model.action_space}
    unlearned = ProQ(**spaces, device="cpu", **TINY)
    unlearned.save(file := io.BytesIO())
    assert ProQ.load(file, device="cpu").goal_limits is None, "it has seen no data"


def test_a_normalising_environment_is_noticed_by_what_it_shows() -> None:
    model = tiny_model()
    with pytest.warns(UserWarning, match="but the agent's dataset goes from"):
        evaluate_policy(model, normalised(), 3)


def test_goals_that_do_not_matter_or_repeat_are_no_strangers() -> None:
    arrays = tiny_arrays()
    for goal in (GoalSpec(tolerance=(0.1, None)), GoalSpec(tolerance=0.1, period=(None, 1.0))):
        limits = GoalLimits.of(GoalDataset(**arrays, goal=goal))
        assert limits.stranger("goal", np.array([[0.0, 1e6]])) is None
        assert limits.stranger("goal", np.array([[0.0, 0.0], [-1e6, 0.0]])).startswith("goal[0] is -1e+06")
        assert GoalLimits.from_lists(limits.to_lists(), 2).to_lists() == limits.to_lists()


def test_a_pose_beyond_all_that_was_seen_is_no_stranger_on_a_map_of_places() -> None:
    model = tiny_model(map_of=[0])
    model.save(file := io.BytesIO())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for agent in (model, ProQ.load(file, device="cpu")):
            agent.predict(far_off(agent))
            assert np.isinf(agent.goal_limits.low).tolist() == [False, True]


def test_limits_widen_with_the_data_that_are_learned_from() -> None:
    model = tiny_model()
    before = model.goal_limits
    arrays = tiny_arrays()
    other = GoalDataset(**arrays | {"observations": arrays["observations"] + np.float32(50.0)})
    model.set_dataset(other)
    assert model.goal_limits.low[0] > 10.0, "nothing was learned from the first one"
    model.learn(1)
    model.set_dataset(GoalDataset(**arrays))
    np.testing.assert_allclose(model.goal_limits.low, before.low)
    np.testing.assert_allclose(model.goal_limits.high, GoalLimits.of(other).high)


@pytest.mark.parametrize("limits", [[[0.0, 0.0]], [[0.0], [1.0]], [[1.0, 1.0], [0.0, 2.0]], [["a", 0], [1, 1]], 3])
def test_limits_of_a_file_that_make_no_sense_are_refused(limits: Any, tmp_path: Path) -> None:
    model = tiny_model()
    values = model._learned_values() | {"goal_limits": limits}
    model._learned_values = lambda: values  # type: ignore[method-assign]
    model.save(tmp_path / "agent")
    with pytest.raises(CheckpointError, match=r"goal_limits|metadata"):
        ProQ.load(tmp_path / "agent", device="cpu")


def test_numbers_that_float32_cannot_hold_are_refused() -> None:
    for name in ("observations", "actions", "achieved_goals"):
        arrays = {"achieved_goals": tiny_arrays()["observations"]} | tiny_arrays()
        arrays = {key: value.astype(np.float64) if key == name else value for key, value in arrays.items()}
        arrays[name][17, 1] = 1e300
        with pytest.raises(ValueError, match=rf"{name} row 17 is not finite as float32 \(1 such rows\)"):
            GoalDataset(**arrays)
