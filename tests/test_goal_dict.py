from __future__ import annotations

import sys
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env as check_gymnasium_env
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.env_checker import check_env as check_sb3_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from wrappers import GoalDict, make_goal_env

MAZES = ["pointmaze-medium-v0", "pointmaze-large-v0", "pointmaze-giant-v0", "pointmaze-teleport-v0"]
ROBOTICS = "PointMaze_UMaze-v3"
PORTAL_TASK = 3  # in the teleport maze it starts next to a portal:
INTO_PORTAL = np.tile(np.array([0.0, -1.0], dtype=np.float32), (25, 1))


class NoisyGoalEnv(gym.Env):
    """A goal environment that draws from NumPy's global state, normals included, whenever it can."""

    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    observation_space = spaces.Dict(
        {key: spaces.Box(-1e300, 1e300, (1,), np.float64) for key in ("observation", "achieved_goal", "desired_goal")}
    )

    def __init__(self, success_key: str | None = "is_success") -> None:
        self.success_key = success_key

    def _observe(self) -> dict[str, np.ndarray]:
        return {key: np.random.normal(size=1) for key in self.observation_space}  # noqa: NPY002

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action: np.ndarray) -> Any:
        return self._observe(), 0.0, False, False, {self.success_key: np.float64(1.0)} if self.success_key else {}


def assert_same(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    for key in first:
        np.testing.assert_array_equal(first[key], second[key])


def rollout(env: gym.Env, seed: int, actions: np.ndarray, n_episodes: int = 2) -> list[dict[str, np.ndarray]]:
    observations = []
    for episode in range(n_episodes):
        observations.append(env.reset(seed=seed if episode == 0 else None)[0])
        observations += [env.step(action)[0] for action in actions]
    return observations


def global_state() -> tuple[Any, ...]:
    name, key, *rest = np.random.get_state()  # noqa: NPY002
    return name, tuple(key), *rest


@pytest.mark.parametrize(
    ("env_id", "task_id"), [*((maze, task_id) for maze in MAZES for task_id in (None, "cycle")), (ROBOTICS, None)]
)
def test_checkers_accept_every_maze(env_id: str, task_id: str | None) -> None:
    env = make_goal_env(env_id, task_id=task_id)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*(determin|reuse|share|dtype|precision).*")
        check_gymnasium_env(env, skip_render_check=True)
        check_sb3_env(env)


@pytest.mark.parametrize("env_id", [MAZES[0], ROBOTICS])
def test_observation_is_fresh_float32(env_id: str) -> None:
    env = make_goal_env(env_id)
    reset_obs, _ = env.reset(seed=0)
    kept = {key: value.copy() for key, value in reset_obs.items()}
    obs, reward, _, _, info = env.step(env.action_space.sample())
    assert list(env.observation_space) == ["achieved_goal", "desired_goal", "observation"]
    assert all(space.dtype == np.float32 for space in env.observation_space.values())
    assert all(value.dtype == np.float32 for value in obs.values())
    assert type(info["is_success"]) is bool and type(reward) is float
    for value in obs.values():
        value[:] = 1e6
    assert_same(reset_obs, kept)
    next_obs = env.step(env.action_space.sample())[0]
    assert all(np.abs(value).max() < 1e3 for value in next_obs.values())


def test_desired_goal_is_where_ogbench_ends_the_episode() -> None:
    env = make_goal_env("pointmaze-medium-v0", task_id=3)
    obs, _ = env.reset(seed=0)
    np.testing.assert_allclose(obs["desired_goal"], env.unwrapped.cur_goal_xy, rtol=1e-6)
    env.unwrapped.set_xy(obs["desired_goal"] + np.array([1.05, 0.0]))
    outside = env.step(np.zeros(2, dtype=np.float32))
    env.unwrapped.set_xy(obs["desired_goal"] + np.array([0.95, 0.0]))
    inside = env.step(np.zeros(2, dtype=np.float32))
    assert (outside[1], outside[2], outside[4]["is_success"]) == (0.0, False, False)
    assert (inside[1], inside[2], inside[4]["is_success"]) == (1.0, True, True)


# The ant's goal posture comes from actions that OGBench samples during the reset.
@pytest.mark.parametrize("env_id", [*MAZES, ROBOTICS, "antmaze-medium-v0"])
def test_same_seed_same_episodes_whatever_others_draw(env_id: str) -> None:
    first, second = make_goal_env(env_id), make_goal_env(env_id)
    actions = np.random.default_rng(0).uniform(-1, 1, (30, *first.action_space.shape)).astype(np.float32)
    expected = rollout(first, 7, actions)
    np.random.seed(5)  # noqa: NPY002
    second.reset()
    second.step(second.action_space.sample())
    second.action_space.sample()
    for one, other in zip(expected, rollout(second, 7, actions), strict=True):
        assert_same(one, other)
    assert not np.array_equal(first.reset(seed=8)[0]["observation"], expected[0]["observation"])


def test_reset_leaves_the_stream_of_sampled_actions_alone() -> None:
    env = make_goal_env("pointmaze-medium-v0")
    env.action_space.seed(0)
    expected = [env.action_space.sample() for _ in range(2)]
    env.action_space.seed(0)
    first = env.action_space.sample()
    env.reset(seed=1)
    np.testing.assert_array_equal([first, env.action_space.sample()], expected)


def jumps(observations: list[dict[str, np.ndarray]]) -> list[np.ndarray]:
    positions = np.array([obs["observation"] for obs in observations])
    return list(positions[1:][np.linalg.norm(np.diff(positions, axis=0), axis=1) > 2.0])


def test_portals_are_seeded() -> None:
    env = make_goal_env("pointmaze-teleport-v0", task_id=PORTAL_TASK)
    runs = [rollout(env, seed, INTO_PORTAL, n_episodes=1) for seed in range(8)]
    exits = {tuple(np.round(jumps(run)[0], -1)) for run in runs}
    assert len(exits) > 1
    for seed, run in enumerate(runs):
        for one, other in zip(run, rollout(env, seed, INTO_PORTAL, n_episodes=1), strict=True):
            assert_same(one, other)


def test_later_episodes_do_not_depend_on_what_was_done_before() -> None:
    env = make_goal_env("pointmaze-teleport-v0", task_id=PORTAL_TASK)
    rested, jumped = rollout(env, 0, 0 * INTO_PORTAL), rollout(env, 0, INTO_PORTAL)
    second_reset = len(INTO_PORTAL) + 1
    assert jumps(jumped[:second_reset]) and not jumps(rested[:second_reset])
    assert_same(rested[second_reset], jumped[second_reset])


@pytest.mark.parametrize("n_normals", [0, 1])
def test_global_numpy_state_is_left_alone(n_normals: int) -> None:
    env = make_goal_env("pointmaze-teleport-v0", task_id=PORTAL_TASK)
    np.random.seed(0)  # noqa: NPY002
    np.random.normal(size=n_normals)  # noqa: NPY002  (an odd number leaves half a pair behind)
    before = global_state()
    observations = [env.reset(seed=3)[0]]
    assert global_state() == before
    for action in INTO_PORTAL:
        observations.append(env.step(action)[0])
        assert global_state() == before
    assert jumps(observations)


def test_global_numpy_state_survives_an_error_inside() -> None:
    env = make_goal_env("pointmaze-medium-v0")
    env.reset(seed=0)
    before = global_state()
    with pytest.raises(ValueError):
        env.step(np.zeros(7))
    assert global_state() == before


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_normals=st.integers(0, 700), n_steps=st.integers(0, 3))
def test_global_stream_continues_as_without_the_env(seed: int, n_normals: int, n_steps: int) -> None:
    np.random.seed(seed)  # noqa: NPY002
    expected = np.random.normal(size=n_normals + 5)[n_normals:]  # noqa: NPY002
    env = GoalDict(NoisyGoalEnv())
    np.random.seed(seed)  # noqa: NPY002
    np.random.normal(size=n_normals)  # noqa: NPY002
    env.reset()
    for _ in range(n_steps):
        env.step(np.zeros(1))
    np.testing.assert_array_equal(np.random.normal(size=5), expected)  # noqa: NPY002


def test_task_policies() -> None:
    fixed = make_goal_env("pointmaze-medium-v0", task_id=4)
    assert fixed.num_tasks == 5
    assert [fixed.reset()[1]["task_id"] for _ in range(3)] == [4, 4, 4]
    cycled = make_goal_env("pointmaze-medium-v0", task_id="cycle")
    assert [cycled.reset()[1]["task_id"] for _ in range(6)] == [1, 2, 3, 4, 5, 1]
    drawn = make_goal_env("pointmaze-medium-v0")
    drawn.reset(seed=0)
    tasks = [drawn.reset()[1]["task_id"] for _ in range(40)]
    assert set(tasks) == {1, 2, 3, 4, 5} and tasks[:5] != [1, 2, 3, 4, 5]


def test_task_override_lasts_one_episode_and_shifts_no_other() -> None:
    for task_id, expected in (("cycle", [1, 5, 3]), (2, [2, 5, 2])):
        env = make_goal_env("pointmaze-medium-v0", task_id=task_id)
        options = (None, {"task_id": 5}, None)
        assert [env.reset(options=option)[1]["task_id"] for option in options] == expected
    env = make_goal_env("pointmaze-medium-v0")
    plain = [env.reset(seed=0)[0], env.reset()[0], env.reset()[0]]
    overridden = [env.reset(seed=0)[0], env.reset(options={"task_id": 1})[0], env.reset()[0]]
    assert_same(plain[0], overridden[0])
    assert_same(plain[2], overridden[2])


def test_task_info_gives_a_task_of_ones_own() -> None:
    env = make_goal_env("pointmaze-medium-v0")
    obs, info = env.reset(options={"task_info": {"init_ij": (1, 1), "goal_ij": (1, 2)}})
    assert info["task_id"] is None
    assert np.abs(obs["desired_goal"] - [4.0, 0.0]).max() <= 1.0


def test_bad_tasks_are_named() -> None:
    for task_id in (0, 6, "cycles"):
        with pytest.raises(ValueError, match=r"task_id=.*one of \[1, 2, 3, 4, 5\]"):
            make_goal_env("pointmaze-medium-v0", task_id=task_id)
    with pytest.raises(ValueError, match="task_id=9"):
        make_goal_env("pointmaze-medium-v0").reset(options={"task_id": 9})
    for task_id in (1, "cycle"):
        with pytest.raises(ValueError, match="has no tasks"):
            make_goal_env(ROBOTICS, task_id=task_id)
    assert make_goal_env(ROBOTICS).num_tasks == 0


def test_single_task_env_has_its_task_only() -> None:
    env = make_goal_env("pointmaze-medium-navigate-singletask-task2-v0")
    assert env.task_ids == (2,) and env.reset()[1]["task_id"] == 2
    with pytest.raises(ValueError, match="task_id=1"):
        env.reset(options={"task_id": 1})
    with pytest.raises(NotImplementedError):
        env.compute_reward(np.zeros(2), np.zeros(2), {})


@pytest.mark.parametrize("env_id", ["pointmaze-medium-v0", ROBOTICS])
def test_compute_reward_agrees_with_step_and_is_vectorised(env_id: str) -> None:
    env = make_goal_env(env_id)
    obs, _ = env.reset(seed=0)
    goals, rewards = [], []
    for offset in np.linspace(0.03, 1.43, 8):
        qpos = np.array(env.unwrapped.data.qpos)
        qpos[:2] = obs["desired_goal"] + [0.0, offset]
        getattr(env.unwrapped, "point_env", env.unwrapped).set_state(qpos, np.zeros_like(env.unwrapped.data.qvel))
        next_obs, reward, _, _, info = env.step(np.zeros(2, dtype=np.float32))
        assert env.compute_reward(next_obs["achieved_goal"], obs["desired_goal"], info) == reward
        goals.append(next_obs["achieved_goal"])
        rewards.append(reward)
    batch = env.compute_reward(np.array(goals), np.tile(obs["desired_goal"], (8, 1)), np.array([{}] * 8))
    np.testing.assert_array_equal(batch, rewards)
    assert {0.0, 1.0} == set(rewards)


def test_oracle_goals_are_positions() -> None:
    env = make_goal_env("antmaze-medium-navigate-oraclerep-v0", task_id=1)
    obs, _ = env.reset(seed=0)
    assert obs in env.observation_space and obs["desired_goal"].shape == (2,)
    np.testing.assert_array_equal(obs["achieved_goal"], obs["observation"][:2])
    np.testing.assert_allclose(obs["desired_goal"], env.unwrapped.cur_goal_xy, rtol=1e-6)


@pytest.mark.parametrize(("name", "goal_dim"), [("cube-single", 3), ("scene", 7)])
def test_oracle_goals_of_manipulation_are_what_the_task_asks_for(name: str, goal_dim: int) -> None:
    env = make_goal_env(f"{name}-play-oraclerep-v0", task_id=2)
    obs, _ = env.reset(seed=0)
    assert obs in env.observation_space and obs["desired_goal"].shape == (goal_dim,)
    base: Any = env.unwrapped
    cube = base._data.joint("object_joint_0")
    obs, _, _, _, info = env.step(np.zeros(5, dtype=np.float32))
    assert not info["is_success"]
    np.testing.assert_allclose(obs["achieved_goal"], base.compute_oracle_observation(), rtol=1e-6)
    cube.qpos[:2] += 0.05
    moved = env.step(np.zeros(5, dtype=np.float32))[0]["achieved_goal"]
    np.testing.assert_allclose(moved[:2] - obs["achieved_goal"][:2], 0.5, atol=0.05)  # ten units a metre
    if name == "cube-single":  # success is what the environment says
        cube.qpos[:3] = obs["desired_goal"] / 10 + [0.425, 0.0, 0.0]
        assert env.step(np.zeros(5, dtype=np.float32))[4]["is_success"]


def test_the_goal_of_a_manipulation_task_follows_from_the_seed() -> None:
    first, second = make_goal_env("cube-single-v0"), make_goal_env("cube-single-v0")
    for seed in (0, 1):
        assert_same(first.reset(seed=seed)[0], second.reset(seed=seed)[0])
    assert first.unwrapped.action_space is not first.unwrapped.action_space  # as OGBench made it


@pytest.mark.parametrize("env_id", ["pointmaze-giant-v0", ROBOTICS])
def test_spec_rebuilds_an_equal_env(env_id: str) -> None:
    env = make_goal_env(env_id, task_id=2 if env_id != ROBOTICS else None, max_episode_steps=17)
    rebuilt = gym.make(env.spec)
    assert isinstance(rebuilt, GoalDict) and rebuilt.spec == env.spec
    assert rebuilt.task_id == env.task_id and rebuilt.observation_space == env.observation_space
    assert_same(rebuilt.reset(seed=1)[0], env.reset(seed=1)[0])


def check_vec_env(vec_env: DummyVecEnv | SubprocVecEnv) -> None:
    try:
        vec_env.seed(0)
        vec_env.set_options({"task_id": 5})
        first = vec_env.reset()
        assert first["observation"].shape == (2, 2) and first["observation"].dtype == np.float32
        seen = [[info["task_id"] for info in vec_env.reset_infos]]
        for _ in range(9):
            _, _, dones, infos = vec_env.step(np.zeros((2, 2), dtype=np.float32))
            assert all(type(info["is_success"]) is bool for info in infos)
            if dones.all():
                seen.append([info["task_id"] for info in vec_env.reset_infos])
        assert seen == [[5, 5], [2, 4], [3, 4], [4, 4]]
        assert vec_env.get_attr("num_tasks") == [5, 5]
        rewards = vec_env.env_method("compute_reward", np.zeros((3, 2)), np.zeros((3, 2)), [{}] * 3, indices=[0])
        np.testing.assert_array_equal(rewards[0], np.ones(3))
    finally:
        vec_env.close()


def make_env_fns() -> list[Any]:
    def make(task_id: int | str) -> Any:
        return lambda: Monitor(make_goal_env("pointmaze-medium-v0", task_id=task_id, max_episode_steps=3))

    return [make("cycle"), make(4)]


def test_autoreset_of_a_dummy_vec_env_keeps_the_task_policy() -> None:
    check_vec_env(DummyVecEnv(make_env_fns()))


@pytest.mark.slow
def test_autoreset_of_a_subproc_vec_env_keeps_the_task_policy() -> None:
    check_vec_env(SubprocVecEnv(make_env_fns()))


@pytest.mark.parametrize("maze", ["medium", "large", "giant", "teleport"])
@pytest.mark.parametrize("kind", ["navigate", "stitch"])
def test_dataset_ids_resolve_to_their_env(maze: str, kind: str) -> None:
    assert make_goal_env(f"pointmaze-{maze}-{kind}-v0").unwrapped.spec.id == f"pointmaze-{maze}-v0"


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("pointmaze-giant-stich-v0", "pointmaze-giant-stitch-v0"),
        ("pointmaze-gaint-v0", "pointmaze-giant-v0"),
        ("pointmaze-giant-v7", "pointmaze-giant-v0"),
        ("PointMaze_UMaz-v3", "PointMaze_UMaze-v3"),
    ],
)
def test_unknown_id_suggests_the_closest(typo: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"Unknown environment '{typo}'.*{meant}"):
        make_goal_env(typo)


def test_a_module_that_registers_an_environment_is_imported() -> None:
    env = make_goal_env("tiny_goal:TinyGoal-v0", limit=2)
    assert env.unwrapped.limit == 2 and env.reset(seed=0)[0] in env.observation_space
    with pytest.raises(ValueError, match=r"Unknown environment 'tiny_goal:TinyGaol-v0'.*TinyGoal-v0"):
        make_goal_env("tiny_goal:TinyGaol-v0")
    with pytest.raises(ValueError, match="module that cannot be imported: No module named 'tiny_gaol'"):
        make_goal_env("tiny_gaol:TinyGoal-v0")


def test_an_unknown_id_tells_of_modules_and_of_packages_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highway_env", None)
    with pytest.raises(ValueError, match=r"module:EnvId.*`pip install highway-env`"):
        make_goal_env("NoSuchEnvironment-v0")


def test_env_without_goals_is_refused() -> None:
    with pytest.raises(ValueError, match="not a goal environment"):
        make_goal_env("Pendulum-v1")
    lacking = NoisyGoalEnv()
    lacking.observation_space = spaces.Dict({"observation": spaces.Box(-1, 1, (1,))})
    with pytest.raises(ValueError, match=r"lacks \['achieved_goal', 'desired_goal'\]"):
        GoalDict(lacking)
    nested = NoisyGoalEnv()
    nested.observation_space = spaces.Dict({**NoisyGoalEnv.observation_space, "desired_goal": spaces.Discrete(2)})
    with pytest.raises(ValueError, match=r"observation\['desired_goal'\] must be a Box"):
        GoalDict(nested)


@pytest.mark.parametrize("success_key", ["success", "is_success"])
def test_success_is_read_under_either_name(success_key: str) -> None:
    env = GoalDict(NoisyGoalEnv(success_key))
    env.reset()
    assert env.step(np.zeros(1))[4]["is_success"] is True


def test_missing_success_is_an_error() -> None:
    env = GoalDict(NoisyGoalEnv(success_key=None))
    env.reset()
    with pytest.raises(ValueError, match="reports no success"):
        env.step(np.zeros(1))
