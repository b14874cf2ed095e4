"""Maps of places: the coordinates of goals that take long to cross, and agents to whom the others are a pose."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from numpy.testing import assert_allclose, assert_array_equal

from proq_agent import GoalDataset, ProQ
from proq_agent.proq.places import crossing_times, place_coordinates
from wrappers import KeypointGoal
from zoo.figures.learned_map import LearnedMap
from zoo.figures.maps import draw_map

LEG, X, YAW, STILL, Y = range(5)


def walker(portal: bool = False) -> GoalDataset:
    """
    A body that walks about a square in which a crossing takes 100 steps, turns slowly though it could do so in 8, and
    moves a leg with every step. The coordinates are in an order of no meaning and of units all their own.
    """
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(40):
        place, yaw, heading = rng.uniform(0, 20, 2), rng.uniform(-1, 1), rng.normal(size=2)
        for t in range(100):
            rows.append((100 * np.sin(2.1 * t), *place[:1], yaw, 3.0, 1000 * place[1], *heading, t == 99))
            heading = rng.normal(size=2) if t % 10 == 0 else heading
            step = 0.2 * heading / np.abs(heading).max()
            place = np.clip(place + step, 0, 20)
            yaw = np.clip(yaw + 0.25 * rng.uniform(-1, 1) ** 5, -1, 1)
            if portal and rng.random() < 0.01:
                place = np.array([18.0, 18.0]) if place.sum() < 20 else np.array([2.0, 2.0])
    array = np.array(rows, dtype=np.float32)
    return GoalDataset(array[:, :5], np.clip(array[:, 5:7], -1, 1), array[:, 7])


@pytest.fixture(scope="module")
def body() -> GoalDataset:
    return walker()


@pytest.fixture(scope="module")
def agent(body) -> ProQ:
    kwargs = {"batch_size": 32, "keypoints": {"n": 8}, "policy_kwargs": {"hidden_sizes": [16]}, "seed": 0}
    return ProQ(dataset=body, device="cpu", map_of="places", **kwargs).learn(20, log_interval=None)


@pytest.mark.parametrize("portal", [False, True])
def test_a_place_is_what_takes_long_to_cross(portal):
    """A portal is no way to walk, and a body that seldom turns could do so any time."""
    times = crossing_times(walker(portal))
    assert_allclose(times[[X, Y]], 100.0, rtol=0.05)
    assert_allclose(times[YAW], 8.0, rtol=0.05)
    assert times[LEG] < 3.0 and times[STILL] == 0.0
    assert place_coordinates(walker(portal)) == (X, Y)


def test_who_needs_all_coordinates_has_a_map_of_goals(body):
    only_places = body.on_coordinates((X, Y))
    places = GoalDataset(body.observations, body.actions, ends(body), only_places.achieved_goals)
    assert ProQ(dataset=places, device="cpu", map_of="places", keypoints={"n": 4}).map_of == "goals"


def ends(dataset: GoalDataset) -> np.ndarray:
    return np.isin(np.arange(len(dataset)), dataset.trajectory_ends)


def test_the_same_trajectories_with_fewer_coordinates(body):
    split = body.split(0.2, seed=0)
    reduced = split.on_coordinates((Y, X))
    assert_array_equal(reduced.achieved_goals, split.achieved_goals[:, [Y, X]])
    assert_allclose(reduced.goal_scale, split.goal_scale[[Y, X]])
    assert_array_equal(reduced.held_out.achieved_goals, split.held_out.achieved_goals[:, [Y, X]])
    assert reduced.on_coordinates((Y, X)) is reduced
    assert split.coordinates is None and split.achieved_goals is split.observations


def observation(
    place: tuple[float, float], goal: tuple[float, float], pose: float, n: int = 3
) -> dict[str, np.ndarray]:
    here, there = (np.array([pose_, x, pose_ / 100, 3.0, y]) for pose_, (x, y) in ((0.0, place), (pose, goal)))
    rows = {"observation": here, "achieved_goal": here, "desired_goal": there}
    return {key: np.tile(row.astype(np.float32), (n, 1)) for key, row in rows.items()}


def test_an_agent_on_a_map_of_places_does_not_care_for_poses(agent):
    assert agent.map_of == (X, Y)
    assert agent.planner.points.shape[1] == 2
    for goal in ((3.0, 9000.0), (19.0, 18000.0)):
        actions = agent.predict(observation((2.0, 2000.0), goal, pose=0.0), deterministic=True)[0]
        others = agent.predict(observation((2.0, 2000.0), goal, pose=90.0), deterministic=True)[0]
        assert_array_equal(actions, others)
        direct = [
            agent.policy.predict(observation((2.0, 2000.0), goal, pose), deterministic=True)[0] for pose in (0, 9)
        ]
        assert_array_equal(*direct)
    away = agent.policy.predict(observation((2.0, 2000.0), (3.0, 9000.0), 0.0), deterministic=True)[0]
    assert not np.array_equal(away, direct[0])


def test_one_agent_acts_as_a_batch_does(agent):
    batch = observation((2.0, 2000.0), (19.0, 18000.0), pose=1.0)
    alone = {key: rows[0] for key, rows in batch.items()}
    actions, single = (agent.predict(seen, deterministic=True)[0] for seen in (batch, alone))
    assert_allclose(single, actions[0], atol=1e-5)


def test_an_agent_on_a_map_of_places_is_saved_as_it_was_chosen(agent, tmp_path):
    agent.save(tmp_path / "agent.zip")
    loaded = ProQ.load(tmp_path / "agent.zip", device="cpu")
    seen = observation((2.0, 2000.0), (3.0, 9000.0), pose=1.0)
    assert tuple(loaded.map_of) == (X, Y)
    assert_array_equal(loaded.predict(seen, deterministic=True)[0], agent.predict(seen, deterministic=True)[0])


def test_plans_are_of_goals_or_of_places(agent):
    seen = observation((2.0, 2000.0), (19.0, 18000.0), pose=1.0)
    start, goal = seen["achieved_goal"][0], seen["desired_goal"][0]
    plans = agent.plan(start, goal), agent.plan(start[[X, Y]], goal[[X, Y]])
    assert_array_equal(plans[0].points, plans[1].points)


def test_a_diagnosis_takes_trajectories_as_they_are(agent, body):
    assert {check.name for check in agent.diagnose(body, body).checks} >= {"calibration", "routes", "guidance"}


def test_the_actor_may_be_larger_than_the_map(body):
    sizes = {"hidden_sizes": [16], "actor_hidden_sizes": [24, 24]}
    policy = ProQ(dataset=body, device="cpu", map_of="places", keypoints={"n": 4}, policy_kwargs=sizes).policy
    assert [layer.out_features for layer in policy.actor.hidden] == [24, 24]
    assert [layer.out_features for layer in policy.encoder.hidden] == [16]


@pytest.mark.parametrize("coordinates", [[], [1, 1], [0, 5], [-1]])
def test_coordinates_that_goals_do_not_have(body, coordinates):
    with pytest.raises(ValueError, match="numbers from 0 to 4"):
        ProQ(dataset=body, device="cpu", map_of=coordinates)


def test_places_are_found_in_data(body):
    spaces = {"observation_space": ProQ(dataset=body, device="cpu", keypoints={"n": 4}).observation_space}
    with pytest.raises(ValueError, match="give the dataset"):
        ProQ(map_of="places", device="cpu", **spaces)


class Room(gym.Env):
    """The body, standing in a room of its data; whatever it does, it stays."""

    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    observation_space = spaces.Dict(
        {key: spaces.Box(-1e6, 1e6, (5,), np.float32) for key in ("observation", "achieved_goal", "desired_goal")}
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {key: rows[0] for key, rows in observation((2.0, 2000.0), (19.0, 18000.0), pose=90.0).items()}, {}

    def step(self, action):
        return self.reset()[0], 0.0, False, False, {"is_success": False}


class Echo:
    """Its action is where the goal that it is shown asks it to be, and how."""

    observation_space, action_space = Room.observation_space, Room.action_space

    def predict(self, observation, state=None, deterministic=False):
        return observation["desired_goal"], state


def test_others_are_shown_places_in_the_pose_of_the_goal(agent):
    agent = copy.deepcopy(agent)
    distances = agent.planner.distances
    hop = float(np.quantile(distances[distances > 0], 0.4))
    agent.set_planning(direct=False, max_hop=hop, reach=0.0, bar_strays=False)
    env = KeypointGoal(Room(), agent)
    shown, info = env.reset(seed=0)
    plan, goal = info["plan"], info["final_goal"]
    assert shown["desired_goal"].shape == (5,) and len(plan) > 1
    expected = agent.plan(shown["achieved_goal"], goal)
    for point, place in zip(plan, expected.points, strict=True):
        assert_allclose(point[[X, Y]], place, rtol=1e-6)
        assert_array_equal(point[[LEG, YAW, STILL]], goal[[LEG, YAW, STILL]])
    batch = observation((2.0, 2000.0), (19.0, 18000.0), pose=90.0)
    echoed, _ = agent.guide(Echo()).predict(batch)
    assert_allclose(echoed, np.tile(plan[0], (len(echoed), 1)), rtol=1e-6)


def test_a_map_of_three_of_five_coordinates_is_drawn(body, tmp_path):
    model = ProQ(dataset=body, device="cpu", map_of=[X, YAW, Y], keypoints={"n": 4}, seed=0)
    learned = LearnedMap(model)
    points = np.array([[2.0, 2000.0], [19.0, 18000.0]])
    assert learned.to_goals(points).shape == learned.to_goals(np.zeros((2, 3))).shape == (2, 3)
    assert_array_equal(learned.to_goals(np.arange(5.0)[None]), [[X, YAW, Y]])
    draw_map(model, tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 1000
