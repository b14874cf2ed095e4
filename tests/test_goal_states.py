"""A goal that leaves something open is all states that satisfy it."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from numpy.testing import assert_allclose

from proq_agent import GoalDataset, GoalSpec, ProQ
from proq_agent.proq.goal_states import N_MEMBERS, GoalStates


def remembered(dataset: GoalDataset, on_observation: bool = False) -> GoalStates:
    points = dataset.observations if on_observation else dataset.achieved_goals
    states = GoalStates(dataset.achieved_goals.shape[1], points.shape[1], on_observation)
    states.remember(dataset, th.Generator().manual_seed(0))
    return states


def logs(goal: GoalSpec | None = None, columns: int = 3, rows: int = 5000) -> GoalDataset:
    rng = np.random.default_rng(0)
    observations = rng.uniform(-1.0, 1.0, (rows, columns)).astype(np.float32)
    return GoalDataset(observations, rng.uniform(-1, 1, (rows, 1)), np.arange(rows) % 50 == 49, goal=goal)


def test_what_matters_is_the_goal_s_own_and_what_does_not_comes_from_states_of_the_data():
    members = remembered(logs(GoalSpec(tolerance=(0.1, None, 0.1))))(th.tensor([[0.5, 0.0, -0.5]]))[0]
    assert members.shape == (N_MEMBERS, 3)
    assert (members[:, [0, 2]] == th.tensor([0.5, -0.5])).all()
    assert members[:, 1].std() > 0.1


def test_where_no_state_comes_close_enough_the_goal_is_its_own_state():
    members = remembered(logs(GoalSpec(tolerance=(1e-5, None, 1e-5))))(th.tensor([[0.5, 0.25, -0.5]]))
    assert_allclose(members[0], np.tile([0.5, 0.25, -0.5], (N_MEMBERS, 1)))


def test_a_map_of_some_coordinates_has_states_of_these():
    data, chosen = logs(GoalSpec(tolerance=(0.1, None, None, 0.1)), columns=4), [3, 1, 0]
    states = GoalStates(4, len(chosen), on_observation=False, coordinates=chosen)
    states.remember(data, th.Generator().manual_seed(0))
    met, missed = states(th.tensor([[0.5, 9.0, 9.0, -0.5], [5.0, 0.25, 9.0, -0.5]]))
    assert (met[:, 0] == -0.5).all() and (met[:, 2] == 0.5).all()
    assert met[:, 1].std() > 0.1 and met[:, 1].abs().max() <= 1.0  # left open: that of states of the data
    assert_allclose(missed, np.tile([-0.5, 0.25, 5.0], (N_MEMBERS, 1)))


def test_an_agent_plans_on_some_coordinates_of_open_goals(tmp_path):
    data = logs(GoalSpec(tolerance=(0.1, None, None, 0.1)), columns=4, rows=500)
    kwargs = {"keypoints": {"n": 8}, "batch_size": 32, "seed": 0, "device": "cpu"}
    sizes = {"hidden_sizes": [16], "coordinates": [0, 1, 3]}
    model = ProQ(dataset=data, map_of="open goals", policy_kwargs=sizes, **kwargs).learn(10, log_interval=None)
    assert model.planner.points.shape[1] == 3
    goal = np.array([0.5, 9.0, 9.0, -0.5], dtype=np.float32)
    elsewhere = goal + np.array([0.0, 0.5, 0.5, 0.0], dtype=np.float32)
    now = {"observation": np.zeros(4, np.float32), "achieved_goal": np.zeros(4, np.float32), "desired_goal": goal}
    action, _ = model.predict(now, deterministic=True)
    assert_allclose(model.predict(now | {"desired_goal": elsewhere}, deterministic=True)[0], action)
    assert_allclose(model.plan(now["achieved_goal"], goal).points[-1][[0, 2]], [0.5, -0.5])
    at = model.plan(now["achieved_goal"], goal[[0, 1, 3]])  # a point of the map asks for what it has
    assert_allclose(at.points[-1][[0, 2]], [0.5, -0.5])
    model.save(tmp_path / "agent")
    loaded = ProQ.load(tmp_path / "agent", device="cpu")
    assert_allclose(loaded.predict(now, deterministic=True)[0], action, rtol=1e-5)
    assert model.diagnose().checks


def test_a_part_of_the_observation_is_completed_by_observations():
    data = logs(GoalSpec([1], tolerance=0.05))
    members = remembered(data, on_observation=True)(th.tensor([[0.5], [5.0]]))
    assert (members[0, :, 1] == 0.5).all() and (members[1, :, 1] == 5.0).all()
    assert members[0, :, 0].std() > 0.1
    among = th.cdist(members[0, :, [0, 2]], data.observations[:, [0, 2]]).min(dim=1).values
    assert (among == 0).all()


def test_a_function_of_the_observation_is_met_by_the_closest_observations():
    data = logs(GoalSpec(function=lambda x: x[:, :1] * 2.0, tolerance=0.05))
    members = remembered(data, on_observation=True)(th.tensor([[0.8]]))[0]
    assert (members[:, 0] * 2 - 0.8).abs().max() <= 0.05


def test_angles_are_compared_the_short_way_round():
    spec = GoalSpec(tolerance=(0.1, None), period=(2.0, None))
    members = remembered(logs(spec, columns=2))(th.tensor([[0.99, 0.0]]))[0]
    assert members[:, 1].std() > 0.1  # those near -1 are near 0.99, too
    states = remembered(logs(spec, columns=2, rows=500))
    found = states(th.tensor([[3.0, 0.0]]))[0]  # the same as 1 and -1
    assert (found[:, 1] != 0.0).any()


@pytest.fixture(scope="module")
def rolling() -> GoalDataset:
    """A ball with momentum on a line: where it gets to depends on its velocity."""
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(60):
        x, v = rng.uniform(-100, 100), rng.uniform(-1, 1)
        for t in range(60):
            push = rng.uniform(-0.1, 0.1)
            rows.append((x, v, push, t == 59))
            x, v = x + v, 0.995 * v + push
    array = np.array(rows, dtype=np.float32)
    return GoalDataset(array[:, :2], array[:, 2:3], array[:, 3], goal=GoalSpec([0], tolerance=0.5))


def test_an_agent_on_a_map_of_observations_learns_acts_and_is_saved(rolling, tmp_path):
    kwargs = {"batch_size": 32, "keypoints": {"n": 8}, "policy_kwargs": {"hidden_sizes": [16]}, "seed": 0}
    model = ProQ(dataset=rolling, device="cpu", **kwargs)
    assert model.map_of == "observations"
    model.learn(20, log_interval=None)
    observation = {"observation": [[0.0, 0.3]] * 5, "achieved_goal": [[0.0]] * 5, "desired_goal": [[2.0]] * 5}
    observation = {key: np.array(value, dtype=np.float32) for key, value in observation.items()}
    actions, _ = model.predict(observation, deterministic=True)
    model.save(tmp_path / "agent.zip")
    loaded = ProQ.load(tmp_path / "agent.zip", device="cpu")
    assert loaded.map_of == "observations"
    assert_allclose(loaded.predict(observation, deterministic=True)[0], actions)
    alone = {key: value[0] for key, value in observation.items()}
    assert_allclose(loaded.predict(alone, deterministic=True)[0], actions[0], atol=1e-6)
    assert model.policy.predict(observation)[0].shape == (5, 1)
    plan = model.plan(np.array([0.0, 0.3]), np.array([2.0]))
    assert plan.points.shape[1] == 2
    if plan.nodes[-1] == model.planner.n_nodes:
        assert plan.points[-1, 0] == 2.0
    for goal in ([2.0, 0.0], [np.nan], 2.0):
        with pytest.raises(ValueError, match="goal must be a finite point with 1 coordinates"):
            model.plan(np.array([0.0, 0.3]), np.array(goal))


def test_the_state_that_is_nearest_by_the_map_is_headed_for(rolling):
    kwargs = {"batch_size": 32, "keypoints": {"n": 8}, "policy_kwargs": {"hidden_sizes": [16]}, "seed": 0}
    model = ProQ(dataset=rolling, device="cpu", planning={"direct": True, "max_hop": 1e6}, **kwargs)
    start, goal = np.array([[0.0, 0.3]], dtype=np.float32), np.array([[2.0]], dtype=np.float32)
    decision, _ = model.navigator.decide(start, goal)
    with th.no_grad():
        states = model.policy.goal_states(th.as_tensor(goal))[0]
        embed = lambda x: model.policy.embed(model.policy.locate(x))  # noqa: E731
        nearest = model.policy.distances(embed(th.as_tensor(start)), embed(states)).argmin()
    assert_allclose(model.navigator.points(decision)[0], states[nearest], atol=1e-6)
