"""KeypointGoal: the goal that is shown is the next target on the plan, everything else is the environment's."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
from conftest import TINY
from grid_maze import GridMaze
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from gymnasium.wrappers import RecordVideo, RenderCollection, TimeLimit
from stable_baselines3.common.env_checker import check_env as sb3_check_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from proq_agent import ProQ
from wrappers import GoalDict, KeypointGoal

gym.register("KeypointGoalTestMaze-v0", entry_point=GridMaze)


class DrawnMaze(GridMaze):
    """A maze that can be filmed."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 10}
    render_mode = "rgb_array"

    def render(self) -> np.ndarray:
        return np.zeros((32, 32, 3), dtype=np.uint8)


@pytest.fixture
def build(walks):
    """An agent with a raw map, on which a third of the hops between keypoints are allowed."""

    def build(**planning: Any) -> ProQ:
        model = ProQ(**TINY, dataset=walks, planning=planning)
        list(model.policy.classifier.parameters())[-1].data.fill_(10.0)  # untrained, it may call any keypoint stray
        distances = model.planner.distances
        max_hop = float(np.quantile(distances[distances > 0], 0.35))
        model.set_planning(max_hop=max_hop, reach=0.1 * max_hop)
        return model

    return build


@pytest.fixture
def model(build) -> ProQ:
    return build()


def steps(env: gym.Env, n: int = 30, seed: int = 0):
    """Random actions; observation, reward and info of each step, the reset's first."""
    env.action_space.seed(seed)
    observation, info = env.reset(seed=seed)
    yield observation, 0.0, info
    for _ in range(n):
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        yield observation, reward, info
        if terminated or truncated:
            return


def test_the_goal_shown_is_the_next_target_of_the_plan(model):
    seen = set()
    for seed in range(5):
        for observation, _, info in steps(KeypointGoal(GridMaze(), model), seed=seed):
            plan = model.plan(observation["achieved_goal"], info["final_goal"])
            np.testing.assert_array_equal(info["plan"], plan.points)
            np.testing.assert_array_equal(observation["desired_goal"], info["plan"][0])
            assert info["keypoint"] == plan.nodes[0]
            assert info["cost_to_go"] == pytest.approx(plan.cost, rel=1e-4)
            assert info["fallback"] == plan.fallback
            if info["keypoint"] == model.keypoints.n:
                np.testing.assert_array_equal(observation["desired_goal"], info["final_goal"])
            seen.add(info["keypoint"])
    assert len(seen) > 2


def test_everything_but_the_goal_is_the_environments_own(model):
    redirected = 0
    for (a, reward, info), (b, other_reward, other_info) in zip(
        steps(GridMaze()), steps(KeypointGoal(GridMaze(), model)), strict=True
    ):
        assert (reward, info["is_success"]) == (other_reward, other_info["is_success"])
        np.testing.assert_array_equal(a["observation"], b["observation"])
        np.testing.assert_array_equal(a["achieved_goal"], b["achieved_goal"])
        np.testing.assert_array_equal(a["desired_goal"], other_info["final_goal"])
        redirected += not np.array_equal(a["desired_goal"], b["desired_goal"])
    assert redirected


@pytest.mark.parametrize("deterministic", [True, False])
def test_planning_outside_and_inside_predict_choose_the_same_actions(model, deterministic):
    controller = model.controller
    for seed in range(3):
        inside, outside = GridMaze(), KeypointGoal(GridMaze(), model)
        (a, _), (b, _) = inside.reset(seed=seed), outside.reset(seed=seed)
        for _ in range(30):
            drawn = model.acting_generator.get_state()
            action, _ = model.predict(a, deterministic=deterministic)
            model.acting_generator.set_state(drawn)
            other_action, _ = controller.predict(b, deterministic=deterministic)
            np.testing.assert_allclose(action, other_action, atol=1e-5)
            (a, _, done, *_), (b, _, other_done, *_) = inside.step(action), outside.step(action)
            assert done == other_done
            if done:
                break


def test_arrays_are_fresh_and_the_inner_ones_untouched(model):
    env = KeypointGoal(GridMaze(), model)
    observation, info = env.reset(seed=1)
    observation["desired_goal"] += 100.0
    assert np.abs(info["plan"]).max() < 50  # which is compared with the point shown when a reward is computed
    for array in (*info["plan"], info["final_goal"]):
        array += 100.0
    after, after_info = env.reset(seed=1)
    assert np.abs(after["desired_goal"]).max() < 50 and np.abs(after_info["plan"]).max() < 50
    assert np.abs(env.unwrapped.goal).max() < 50


def test_the_reward_is_that_of_the_goal_which_the_shown_point_stands_for(model):
    env = KeypointGoal(GridMaze(), model)
    for observation, reward, info in list(steps(env))[1:]:
        achieved, shown = observation["achieved_goal"], observation["desired_goal"]
        assert env.compute_reward(achieved, shown, info) == reward
        # A hindsight goal means itself, in a batch and without infos.
        batch = env.compute_reward(np.stack([achieved] * 2), np.stack([shown, achieved]), np.array([info, info]))
        np.testing.assert_array_equal(batch, [reward, 1.0])
        np.testing.assert_array_equal(env.compute_reward(achieved[None], achieved[None], [{}]), [1.0])
        goals = np.stack([achieved, achieved + 3.0, achieved])
        for no_info in ({}, None):
            np.testing.assert_array_equal(env.compute_reward(goals, goals[::-1], no_info), [1.0, 1.0, 1.0])
            np.testing.assert_array_equal(env.compute_reward(goals, goals[[1, 1, 1]], no_info), [0.0, 1.0, 0.0])
            assert env.compute_reward(achieved, achieved, no_info) == 1.0


def test_a_hindsight_goal_beside_the_point_shown_means_itself(model):
    env = KeypointGoal(GridMaze(), model)
    n = 0
    for observation, _, info in steps(env):
        shown, final = observation["desired_goal"], info["final_goal"]
        if np.abs(shown - final).max() > 2 * GridMaze.TOLERANCE:
            beside = np.nextafter(shown, np.float32(np.inf))
            assert env.compute_reward(shown, beside, info) == 1.0  # at the keypoint, which is all it was to reach
            assert env.compute_reward(shown, shown, info) == 0.0  # the keypoint is not where it should go
            n += 1
    assert n


def test_the_environments_own_goal_is_not_handed_out(model):
    class OwnGoal(GridMaze):
        def _observation(self) -> dict[str, np.ndarray]:
            return super()._observation() | {"desired_goal": self.goal}

    env = KeypointGoal(OwnGoal(), model)
    _, info = env.reset(seed=1)
    goal = env.unwrapped.goal.copy()
    for planned in (info, env.step(np.zeros(2, np.float32))[4]):
        planned["final_goal"] += 100.0
        planned["plan"][-1][:] += 100.0
        np.testing.assert_array_equal(env.unwrapped.goal, goal)


def test_who_is_stuck_is_shown_another_way(build):
    """As in predict: in the step in which patience ends, until the episode ends."""
    model = build(patience=3)
    rerouted = 0
    for seed in range(8):
        env, other = KeypointGoal(GridMaze(), model), KeypointGoal(GridMaze(), model)
        _, info = env.reset(seed=seed)
        shown = [info["keypoint"]]
        for _ in range(3):
            *_, info = env.step(np.zeros(2, np.float32))
            shown.append(info["keypoint"])
        assert shown[0] == shown[1] == shown[2]
        assert other.reset(seed=seed)[1]["keypoint"] == shown[0]  # other agents are not shown it
        rerouted += shown[3] != shown[0]
        assert env.reset(seed=seed)[1]["keypoint"] == shown[0]
    assert rerouted


@pytest.mark.parametrize("patience", [None, 3])
def test_it_passes_the_environment_checkers(build, patience):
    model = build(patience=patience)
    env = KeypointGoal(gym.make("KeypointGoalTestMaze-v0"), model)
    gymnasium_check_env(env)
    sb3_check_env(env)
    sb3_check_env(KeypointGoal(GoalDict(GridMaze()), model))


def test_keypoints_outside_the_range_of_goals_belong_to_the_space(model):
    class Corner(GridMaze):
        def __init__(self) -> None:
            super().__init__()
            box = gym.spaces.Box(0.0, 1.5, (2,), np.float32)
            self.observation_space = gym.spaces.Dict(self.observation_space.spaces | {"desired_goal": box})

    env = KeypointGoal(Corner(), model)
    for observation, _, _ in steps(env, seed=2):
        assert env.observation_space.contains(observation)


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_keypoints_are_not_rounded_to_the_type_of_the_goals(model, dtype):
    class Typed(GridMaze):
        def __init__(self) -> None:
            super().__init__()
            box = gym.spaces.Box(-1, 7, (2,), dtype)
            self.observation_space = gym.spaces.Dict(self.observation_space.spaces | {"desired_goal": box})

        def _observation(self) -> dict[str, np.ndarray]:
            return super()._observation() | {"desired_goal": self.goal.astype(dtype)}

    env, between = KeypointGoal(Typed(), model), 0
    sb3_check_env(env)
    for observation, reward, info in steps(env):
        assert env.observation_space.contains(observation)
        if info["keypoint"] < model.keypoints.n:
            np.testing.assert_array_equal(observation["desired_goal"], model.planner.points[info["keypoint"]])
            between += (observation["desired_goal"] % 1 != 0).any()
        assert info["final_goal"].dtype == dtype
        assert reward == env.compute_reward(observation["achieved_goal"], observation["desired_goal"], info)
    assert between


def test_it_works_among_other_wrappers(model):
    env = Monitor(RenderCollection(TimeLimit(KeypointGoal(DrawnMaze(), model), 4)))
    env.reset(seed=0)
    while not any((result := env.step(np.zeros(2, np.float32)))[2:4]):
        pass
    assert result[4]["episode"]["l"] == 4 and "final_goal" in result[4]
    assert len(env.render()) == 5


def test_it_can_be_filmed(model, tmp_path):
    pytest.importorskip("moviepy")
    env = RecordVideo(TimeLimit(KeypointGoal(DrawnMaze(), model), 4), str(tmp_path), disable_logger=True)
    env.reset(seed=0)
    while not any(env.step(np.zeros(2, np.float32))[2:4]):
        pass
    env.close()
    assert list(tmp_path.glob("*.mp4"))


def test_it_can_be_made_again_from_its_spec(model):
    env = KeypointGoal(gym.make("KeypointGoalTestMaze-v0"), model)
    again = gym.make(env.spec)
    np.testing.assert_array_equal(env.reset(seed=3)[1]["plan"], again.reset(seed=3)[1]["plan"])


@pytest.mark.parametrize("vec_env", [DummyVecEnv, pytest.param(SubprocVecEnv, marks=pytest.mark.slow)])
def test_vectorised_environments_give_what_single_ones_give(model, vec_env):
    single = [KeypointGoal(GridMaze(), model).reset(seed=seed)[0]["desired_goal"] for seed in (7, 8)]
    envs = vec_env([lambda: Monitor(KeypointGoal(GridMaze(max_steps=5), model))] * 2)
    envs.seed(7)
    np.testing.assert_allclose(envs.reset()["desired_goal"], single, atol=1e-5)
    rewards, lengths = evaluate_policy(model.controller, envs, n_eval_episodes=4, return_episode_rewards=True)
    assert len(rewards) == 4 and max(lengths) <= 5
    envs.close()


def test_gymnasium_vector_environments_hold_plans_of_several_lengths(model):
    envs = gym.vector.SyncVectorEnv([lambda: KeypointGoal(GridMaze(max_steps=4), model)] * 3)
    lengths = set()
    observations, infos = envs.reset(seed=0)
    for _ in range(12):  # several episodes
        for row in range(3):
            lengths.add(len(infos["plan"][row]))
            np.testing.assert_array_equal(infos["plan"][row][0], observations["desired_goal"][row])
        observations, _, _, _, infos = envs.step(envs.action_space.sample())
    assert len(lengths) > 1
    envs.close()


@pytest.mark.parametrize("key", ["achieved_goal", "desired_goal"])
def test_what_is_no_point_of_goal_space_is_refused(model, key):
    class Broken(gym.ObservationWrapper):
        def observation(self, observation):
            return observation | {key: np.full(2, np.nan, np.float32)}

    with pytest.raises(ValueError, match="finite point"):
        KeypointGoal(Broken(GridMaze()), model).reset(seed=0)


def test_wrappers_follow_further_training_and_shared_blocks(model):
    one, two = KeypointGoal(GridMaze(), model), KeypointGoal(GridMaze(), model)
    keypoint = one.reset(seed=0)[1]["keypoint"]
    assert keypoint < model.keypoints.n  # not the goal
    handle = model.planner.block(nodes=keypoint)
    assert one.reset(seed=0)[1]["keypoint"] != keypoint
    assert two.reset(seed=0)[1]["keypoint"] != keypoint
    model.planner.unblock(handle)
    assert two.reset(seed=0)[1]["keypoint"] == keypoint
    model.learn(3, log_interval=None)
    observation, info = one.reset(seed=0)
    np.testing.assert_array_equal(info["plan"], model.plan(observation["achieved_goal"], info["final_goal"]).points)


def test_environments_without_such_goals_are_refused(model):
    with pytest.raises(ValueError, match="GoalDict"):
        KeypointGoal(gym.make("Pendulum-v1"), model)
    space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
        KeypointGoal(
            GridMaze(),
            ProQ(
                **TINY,
                observation_space=gym.spaces.Dict(observation=space, achieved_goal=space, desired_goal=space),
                action_space=space,
            ),
        )


def test_goals_that_are_no_points_are_refused(model):
    class Rooms(GridMaze):
        def __init__(self) -> None:
            super().__init__()
            room = gym.spaces.Discrete(3)
            goals = {"achieved_goal": room, "desired_goal": room}
            self.observation_space = gym.spaces.Dict(self.observation_space.spaces | goals)

    with pytest.raises(ValueError, match=r"Boxes, not Discrete\(3\)"):
        KeypointGoal(Rooms(), model)


@pytest.mark.parametrize("other", ["agent.zip", None])
def test_only_an_agent_makes_plans(other):
    with pytest.raises(ValueError, match=r"ProQ\.load"):
        KeypointGoal(GridMaze(), other)


def test_half_of_the_map_can_be_blocked(model):
    points = model.planner.points
    middle = float(np.median(points[:, 0]))
    handle = model.planner.block(box=([middle, -np.inf], [np.inf, np.inf]))
    assert model.planner.blocked[points[:, 0] >= middle].all()
    model.planner.unblock(handle)
    assert (points[~model.planner.blocked, 0] >= middle).any()


def test_a_predicate_that_fails_blocks_nothing(model):
    calls = []

    def fails_later(points):
        calls.append(len(points))
        if len(calls) > 2:
            raise RuntimeError("broken")
        return np.zeros(len(points), dtype=bool)

    before = model.planner.blocked.copy()
    with pytest.raises(RuntimeError, match="broken"):
        model.planner.block(region=fails_later)
    np.testing.assert_array_equal(model.planner.blocked, before)
    model.planner.unblock()
