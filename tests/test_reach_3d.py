"""Nothing assumes a maze, a plane or a goal that is the observation: a drone among boxes in three dimensions."""

from __future__ import annotations

import numpy as np
import pytest
from drone_logs import DRONE, drone_logs
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_sb3_env
from stable_baselines3.common.utils import LinearSchedule

from proq_agent import ProQ
from proq_agent.common.evaluation import NO_TASK, evaluate_tasks
from zoo.data.tasks import make_task_env
from zoo.worlds.drone import DroneReach, advance, at_rest, free_points, is_free


@pytest.mark.filterwarnings("ignore::UserWarning")  # the checker would like a registered id
def test_it_is_an_environment() -> None:
    check_env(DroneReach(), skip_render_check=True)
    check_sb3_env(DroneReach())


def test_no_drone_enters_a_box_and_each_flies_as_if_alone() -> None:
    rng = np.random.default_rng(0)
    states = at_rest(free_points(200, rng))
    for _ in range(100):
        actions = rng.normal(0.0, 2.0, size=(200, 3))
        alone = advance(states[7:8], actions[7:8])
        states = advance(states, actions)
        np.testing.assert_array_equal(states[7:8], alone)
        assert is_free(states[:, :3]).all()


def test_momentum_carries_a_drone_on() -> None:
    state = at_rest(np.array([[-0.9, -0.9, -0.9]]))
    for _ in range(10):
        state = advance(state, np.array([[0.0, 1.0, 0.0]]))
    coasting = advance(state, np.zeros((1, 3)))
    assert coasting[0, 1] > state[0, 1] + 0.05


@pytest.mark.slow
def test_the_agent_reaches_goals_in_three_dimensions() -> None:
    model = ProQ(
        env=make_task_env(DRONE),
        dataset=drone_logs(),
        learning_rate=LinearSchedule(1e-3, 5e-5, 1.0),
        batch_size=256,
        n_keypoints=200,  # a volume takes more of them than a plane
        max_hop=8.0,
        reach=2.0,
        caution=1.0,
        temperature=10.0,
        map_fraction=0.6,
        actor_fraction=0.4,
        discount=0.9,
        value_near_share=0.3,
        far_offset=100.0,
        far_scale=0.05,
        repel_range=20.0,
        keypoint_start=500,
        keypoint_freq=4,
        keypoint_learning_rate=1e-2,
        seed=1,
        device="cpu",
        policy_kwargs={
            "hidden_sizes": [128, 128],
            "n_components": 16,
            "dropout": 0.0,
            "n_fourier_features": 64,
            "fourier_scale": 1.0,
        },
    ).learn(3500, log_interval=None)
    sampled, deterministic = (
        evaluate_tasks(model, lambda _: make_task_env(DRONE), [NO_TASK], 100, deterministic=mode, seed=1).success_rate
        for mode in (False, True)
    )
    assert sampled >= 0.9 and deterministic >= 0.9
