"""Somebody else's controller on ProQ's plan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch as th
from conftest import TINY
from drone_logs import drone_logs
from grid_maze import GridMaze

from proq_agent import CRL, GCBC, GCIQL, GCIVL, HIQL, QRL, ProQ
from proq_agent.common.evaluation import NO_TASK, evaluate_tasks
from wrappers import KeypointGoal
from zoo.worlds.drone import DroneReach

SMALL: dict[str, Any] = {"batch_size": 16, "seed": 0, "device": "cpu", "policy_kwargs": {"hidden_sizes": [16]}}


class Echo:
    """Its action is the goal that it is shown."""

    action_space = GridMaze().action_space
    observation_space = GridMaze().observation_space

    def predict(self, observation: dict[str, np.ndarray], state: Any = None, *_: Any, deterministic: bool) -> Any:
        return observation["desired_goal"], state


@pytest.fixture(scope="module")
def model(walks):
    model = ProQ(**TINY, dataset=walks)
    list(model.policy.classifier.parameters())[-1].data.fill_(10.0)  # untrained, it may call any keypoint stray
    distances = model.planner.distances
    max_hop = float(np.quantile(distances[distances > 0], 0.35))
    model.set_planning(max_hop=max_hop, reach=0.1 * max_hop)
    return model


def batch(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    here, goal = rng.uniform(1, 5, (2, n, 2)).astype(np.float32)
    return {"observation": here, "achieved_goal": here, "desired_goal": goal}


def test_the_controller_is_shown_the_next_target_of_the_plan(model):
    observations = batch(20)
    shown, _ = model.guide(Echo()).predict(observations)
    plans = [
        model.plan(*pair) for pair in zip(observations["achieved_goal"], observations["desired_goal"], strict=True)
    ]
    np.testing.assert_allclose(shown, [plan.points[0] for plan in plans], atol=1e-6)
    assert not np.allclose(shown, observations["desired_goal"])
    one = {key: rows[3] for key, rows in observations.items()}
    np.testing.assert_allclose(model.guide(Echo()).predict(one)[0], shown[3])


def test_it_acts_as_the_same_controller_behind_the_wrapper(model, walks):
    agent = GCIVL(**SMALL, dataset=walks, acting_std=0.1)
    guided, env = model.guide(agent), KeypointGoal(GridMaze(max_steps=5), model)
    observation, info = env.reset(seed=1)
    true = observation | {"desired_goal": info["final_goal"]}
    np.testing.assert_allclose(
        guided.predict(true, deterministic=True)[0], agent.predict(observation, deterministic=True)[0], atol=1e-5
    )


@pytest.mark.parametrize("algorithm", [GCBC, GCIVL, GCIQL, QRL, CRL, HIQL, ProQ])
def test_every_algorithm_can_be_guided_and_evaluated(model, walks, algorithm):
    agent = model if algorithm is ProQ else algorithm(**SMALL, dataset=walks)
    results = [
        evaluate_tasks(model.guide(agent), lambda _: GridMaze(max_steps=4), [NO_TASK], 3, deterministic=False, seed=0)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(results[0].lengths, results[1].lengths)
    np.testing.assert_array_equal(results[0].returns, results[1].returns)


def test_hiql_heads_for_keypoints_with_its_low_level(model, walks):
    agent = HIQL(**SMALL, dataset=walks).learn(3, log_interval=None)
    observations = batch(5)
    shown, _ = model.guide(Echo()).predict(observations)
    expected, _ = agent.controller.predict(observations | {"desired_goal": shown}, deterministic=True)
    np.testing.assert_allclose(model.guide(agent).predict(observations, deterministic=True)[0], expected, atol=1e-6)


def test_a_map_that_has_changed_is_planned_on(model):
    guided, observations = model.guide(Echo()), batch(20)
    before, _ = guided.predict(observations)
    max_hop = model.planning.max_hop
    model.set_planning(max_hop=1e9)  # from anywhere to anywhere
    after, _ = guided.predict(observations)
    model.set_planning(max_hop=max_hop)
    direct_before, direct_after = (
        (shown == observations["desired_goal"]).all(axis=1).sum() for shown in (before, after)
    )
    assert direct_after > direct_before
    np.testing.assert_allclose(guided.predict(observations)[0], before)


def test_what_is_asked_of_others_is_not_forgotten(model):
    """The routes to the goals of the map's own agents stay known."""
    model.predict(batch(4))
    known = model.navigator._goals[False]
    model.guide(Echo()).predict(batch(4, seed=1))
    assert model.navigator._goals[False] is known


def test_sampled_actions_repeat_with_the_agents_generator(model, walks):
    agent = GCBC(**SMALL, dataset=walks)
    assert model.guide(agent).acting_generator is agent.acting_generator
    state = th.get_rng_state()
    model.guide(agent).predict(batch(3))
    assert th.equal(state, th.get_rng_state())


def test_goals_of_another_space_are_refused(model):
    drone = GCBC(**SMALL, env=DroneReach(), dataset=drone_logs(1))
    with pytest.raises(ValueError, match=r"goals have shape \(3,\), those of the map \(2,\)"):
        model.guide(drone)
