"""The worlds that nothing was tuned for: what they ask, that it can be done, and data that show how."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium_env
from stable_baselines3.common.env_checker import check_env as check_sb3_env

import zoo.data.generation
import zoo.data.manipulation
from proq_agent.common.goals import GoalSpec
from wrappers import make_goal_env
from zoo.data.catalogue import UNSEEN_IDS, WORLDS, Arrays, train_path
from zoo.data.generation import generate
from zoo.data.load import load
from zoo.data.tasks import make_task_env, task_envs
from zoo.generate import main

pytest.importorskip("highway_env")
SLOW_BEHAVIOUR = "manipulation"
ROWS = 60


@pytest.fixture(scope="module")
def logs() -> dict[str, Arrays]:
    """A few episodes of each world; they are short where the simulation is slow."""
    with pytest.MonkeyPatch.context() as patch:
        for name, world in WORLDS.items():
            if world.behaviour == SLOW_BEHAVIOUR:
                patch.setitem(WORLDS, name, replace(world, rows=ROWS))
        return {name: generate(name, episodes=3, val_episodes=1)["train"] for name in UNSEEN_IDS}


@pytest.mark.parametrize("name", UNSEEN_IDS)
@pytest.mark.filterwarnings("ignore")
def test_checkers_accept_every_world(name: str) -> None:
    env = make_task_env(name)
    check_gymnasium_env(env, skip_render_check=True)
    if name.startswith("proq/"):  # it wants rewards in float32 that follow from the goals alone
        check_sb3_env(env)


@pytest.mark.parametrize("name", UNSEEN_IDS)
def test_observations_of_the_data_are_those_of_the_environment(name: str, logs: dict[str, Arrays]) -> None:
    env, world, arrays = make_task_env(name), WORLDS[name], logs[name]
    assert (arrays["observations"].shape[1], arrays["actions"].shape[1]) == world.dims
    assert world.dims == (env.observation_space["observation"].shape[0], env.action_space.shape[0])
    assert {arrays[key].dtype for key in ("observations", "actions")} == {np.dtype(np.float32)}
    assert np.abs(arrays["actions"]).max() <= env.action_space.high.max()
    assert arrays["terminals"].sum() == 3 and arrays["terminals"][-1]
    assert world.goal is not None
    observation, _ = env.reset(seed=0)
    for _ in range(5):
        observation, *_ = env.step(env.action_space.sample())
    achieved = world.goal.of(observation["observation"][None])[0]
    np.testing.assert_allclose(achieved, observation["achieved_goal"], atol=1e-6)


@pytest.mark.parametrize("name", UNSEEN_IDS)
def test_what_the_catalogue_takes_for_reached_is_success(name: str) -> None:
    """At a corner of the tolerances; coordinates that do not matter are far off."""
    env, spec = make_task_env(name), WORLDS[name].goal
    assert spec is not None
    desired = env.reset(seed=1)[0]["desired_goal"].astype(np.float64)
    rng, base = np.random.default_rng(0), env.unwrapped
    tolerances = spec.tolerances(len(desired))
    for _ in range(20):
        signs = rng.choice([-1.0, 1.0], len(desired))
        corner = desired + signs * np.where(np.isfinite(tolerances), 0.999 * tolerances, 1.0)
        assert spec.is_reached(corner, desired)
        if WORLDS[name].behaviour == "manipulation":  # its success is in metres; buttons are 0 or 1
            assert np.linalg.norm((corner - desired)[19:22]) <= 0.04 * 10
        else:
            reward: Any = getattr(base, "_is_success", lambda a, d: env.compute_reward(a, d, {}))(corner, desired)
            assert reward


@pytest.mark.parametrize("name", [name for name in UNSEEN_IDS if WORLDS[name].behaviour != SLOW_BEHAVIOUR])
def test_replaying_the_actions_gives_the_same_observations(name: str, logs: dict[str, Arrays]) -> None:
    """From the same seed, or the same start, through the environment that agents act in."""
    env, arrays = make_task_env(name), logs[name]
    end = int(np.flatnonzero(arrays["terminals"])[0])
    key = (0, 0)  # the first training episode
    rng = np.random.default_rng(np.random.SeedSequence(0, spawn_key=key))
    base: Any = env.unwrapped
    env.reset(seed=int(rng.integers(2**31)))
    if hasattr(base, "layout"):
        base._position = tuple(arrays["observations"][0].tolist())
    elif name == "proq/Drone-v0":
        base.state = arrays["observations"][:1].astype(np.float64)
    for t in range(end):
        np.testing.assert_allclose(observe(base), arrays["observations"][t], atol=1e-6, err_msg=f"row {t}")
        base.step(arrays["actions"][t])
    np.testing.assert_allclose(observe(base), arrays["observations"][end], atol=1e-6)


def observe(base: Any) -> np.ndarray:
    if hasattr(base, "_get_obs"):
        return base._get_obs()
    if hasattr(base, "_observation"):
        return base._observation()["observation"]
    if hasattr(base, "observation_type"):
        return base.observation_type.observe()["observation"]
    return np.asarray(base.state)


@pytest.mark.parametrize("name", UNSEEN_IDS)
def test_an_episode_does_not_depend_on_those_before_it(name: str) -> None:
    behaviour = import_module(f"zoo.data.{WORLDS[name].behaviour}")
    first, _, again = (behaviour.play(name, 40, 0.1, np.random.default_rng(seed)) for seed in (1, 2, 1))
    for key in first:
        np.testing.assert_array_equal(first[key], again[key])


def test_the_data_do_not_depend_on_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo.data.generation, "EPISODES_PER_JOB", 1)
    one, two = (generate("proq/ReacherFingertip-v0", seed=1, episodes=3, workers=w) for w in (1, 2))
    for split in ("train", "val"):
        for key in one[split]:
            np.testing.assert_array_equal(one[split][key], two[split][key])


def test_an_unhealthy_episode_is_played_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = np.zeros((2, 25))
    far_right, far_left, drawer = healthy.copy(), healthy.copy(), healthy.copy()
    far_right[1, 15], far_left[1, 15:17], drawer[1, 15:17] = 0.3, (-0.31, 0.02), (-0.31, 0.07)
    judge = zoo.data.manipulation._is_healthy
    assert [judge(qpos) for qpos in (healthy, far_right, far_left, drawer)] == [True, False, False, True]
    verdicts = iter([False, True])
    monkeypatch.setattr(zoo.data.manipulation, "_is_healthy", lambda _: next(verdicts))
    monkeypatch.setitem(WORLDS, "scene-play-v0", replace(WORLDS["scene-play-v0"], rows=5))
    zoo.data.manipulation.play("scene-play-v0", 5, 0.1, np.random.default_rng(0))
    assert next(verdicts, None) is None


def test_oracles_move_the_cube_and_leave_numpys_random_state_alone() -> None:
    before = np.random.get_state()[1].copy()  # type: ignore[index] # noqa: NPY002
    episode = zoo.data.manipulation.play("cube-single-play-v0", 150, 0.1, np.random.default_rng(0))
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # type: ignore[index] # noqa: NPY002
    cube = episode["observations"][:, 19:22]
    assert np.linalg.norm(cube[-1, :2] - cube[0, :2]) > 0.4 and cube[:, 2].max() > 0.5  # ten units a metre
    assert set(episode) == {"observations", "actions", "terminals", "qpos", "qvel"}  # the official keys
    np.testing.assert_allclose((episode["qpos"][:, 14:17] - [0.425, 0.0, 0.0]) * 10, cube, atol=1e-5)


def test_oracle_goals_are_read_from_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = "cube-single-play-v0", "cube-single-play-oraclerep-v0"
    for name in ids:
        monkeypatch.setitem(WORLDS, name, replace(WORLDS[name], episodes=1, rows=10))
    oracle, full = (load(name, dataset_dir=tmp_path, source="generate", progress=False)[0] for name in ids[::-1])
    assert sorted(path.name for path in tmp_path.glob("*.npz")) == [f"{ids[0]}-val.npz", f"{ids[0]}.npz"]
    assert full.achieved_goals is full.observations
    np.testing.assert_array_equal(oracle.achieved_goals, full.observations[:, 19:22])
    env = make_task_env(ids[1])
    assert env.observation_space["desired_goal"].shape == (3,)
    assert oracle.goal_spec.tolerances(3).max() < 0.4 / np.sqrt(3)


def test_the_mountain_car_must_gather_speed() -> None:
    env = make_task_env("proq/MountainCarPosition-v0", 5)
    reached = []
    for push in (lambda velocity: 1.0, lambda velocity: np.sign(velocity) or 1.0):
        observation, _ = env.reset(seed=0)
        done = False
        while not done:
            action = np.array([push(observation["observation"][1])], dtype=np.float32)
            observation, _, terminated, truncated, info = env.step(action)
            done = terminated or truncated
        reached.append(info["is_success"])
    assert reached == [False, True]


@pytest.mark.parametrize("name", [n for n in UNSEEN_IDS if n.startswith("proq/") and make_task_env(n).task_ids])
def test_the_data_hold_states_that_solve_each_task(name: str) -> None:
    arrays, env = generate(name, episodes=150, val_episodes=1)["train"], make_task_env(name)
    spec = WORLDS[name].goal
    assert spec is not None and len(env.task_ids) == 5
    for task in env.task_ids:
        desired = env.reset(seed=0, options={"task_id": task})[0]["desired_goal"]
        assert env.compute_reward(spec.of(arrays["observations"]), desired, {}).sum() > 10, f"task {task}"


def test_the_goals_of_reacher_are_within_reach_and_are_not_the_target_it_shows() -> None:
    env = make_task_env("proq/ReacherFingertip-v0")
    env.reset(seed=0)
    seen = [env.reset()[0] for _ in range(200)]
    radii = np.linalg.norm([o["desired_goal"] for o in seen], axis=1)
    assert radii.min() >= 0.03 - 1e-6 and radii.max() <= 0.2 + 1e-6 and np.mean(radii < 0.14) > 0.3
    assert min(np.abs(o["desired_goal"] - o["observation"][4:6]).max() for o in seen) > 1e-4


def test_a_world_is_made_and_read_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "proq/PendulumAngle-v0"
    path = train_path(tmp_path, name)
    assert path == tmp_path / "proq-PendulumAngle-v0.npz"
    assert main(["--env", name, "--episodes", "2", "--workers", "1", "--out", str(path)]) == 0
    dataset, info = load(name, dataset_dir=tmp_path)
    assert (info.source, info.transitions) == ("generated", 400) and "official" not in info.describe()
    np.testing.assert_array_equal(dataset.achieved_goals, dataset.observations[:, :2])
    assert dataset.goal_spec == GoalSpec([0, 1], tolerance=0.1)
    pool, tasks = task_envs(name)
    pool.close()
    assert tasks == (1, 2, 3, 4, 5)


def test_worlds_are_known_outside_of_the_zoo_by_their_module() -> None:
    assert make_goal_env("zoo.worlds:proq/Drone-v0").observation_space["desired_goal"].shape == (3,)
    assert gym.make("zoo.worlds:proq/SpiralMaze-v0").spec.max_episode_steps == 1000
