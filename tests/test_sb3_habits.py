"""What works with every Stable-Baselines3 agent works with this one."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from conftest import TINY
from grid_maze import GridMaze
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from proq_agent import GoalDataset, ProQ
from proq_agent.proq.policies import ProQPolicy


def observation(n: int | None = None) -> dict[str, np.ndarray]:
    return {key: np.full((2,) if n is None else (n, 2), 3.0, np.float32) for key in GridMaze().observation_space}


class Lazy(ProQPolicy):
    """Stays where it is."""

    def action_distribution(self, *args, **kwargs):
        mean, std = super().action_distribution(*args, **kwargs)
        return 0.0 * mean, 0.0 * std


def test_a_policy_of_ones_own_acts_alone_and_in_a_batch(walks):
    model = ProQ(Lazy, dataset=walks, **TINY)
    middle = (model.action_space.low + model.action_space.high) / 2
    for one_or_many in (None, 3):
        np.testing.assert_allclose(model.predict(observation(one_or_many))[0] - middle, 0.0, atol=1e-6)


def test_parameters_can_be_exchanged(tiny):
    one, other = tiny(seed=1), tiny(seed=2)
    one.predict(observation())
    one.set_parameters(other.get_parameters())
    np.testing.assert_array_equal(one.planner.distances, other.planner.distances)


def test_a_policy_can_be_saved_alone(tiny, tmp_path):
    policy = tiny().policy
    policy.save(tmp_path / "policy.pth")
    loaded = ProQPolicy.load(tmp_path / "policy.pth", device="cpu")
    actions = [p.predict(observation(), deterministic=True)[0] for p in (policy, loaded)]
    np.testing.assert_array_equal(*actions)


def test_the_controller_samples_from_the_agents_generator(tiny):
    model = tiny()
    before = th.get_rng_state()
    samples = []
    for _ in range(2):
        model.set_random_seed(3)
        samples.append(model.controller.predict(observation())[0])
    np.testing.assert_array_equal(*samples)
    assert th.equal(th.get_rng_state(), before)


def test_what_is_never_stored_may_be_excluded_and_nothing_included(tiny, tmp_path):
    model = tiny()
    model.save(tmp_path / "agent", exclude=["tensorboard_log", "env"])
    with pytest.raises(ValueError, match="max_hop"):
        model.save(tmp_path / "agent", exclude=["max_hop"])
    with pytest.raises(ValueError, match="env"):
        model.save(tmp_path / "agent", include=["env"])


def test_loading_takes_a_dataset_and_seeds_the_env(tiny, walks, tmp_path):
    env = GridMaze()
    tiny(seed=4, env=env).learn(3, log_interval=None).save(tmp_path / "agent")
    model = ProQ.load(
        tmp_path / "agent", env, device="cpu", dataset=walks, custom_objects={"clip_range": 0.2, "reach": 3.0}
    )
    assert (model.num_timesteps, model.planning.reach) == (3, 3.0)
    assert model.env is not None and model.env._seeds == [4]
    model.learn(2, log_interval=None, reset_num_timesteps=False)
    with pytest.raises(ValueError, match="max_hops"):
        ProQ.load(tmp_path / "agent", max_hops=3.0)


def test_it_is_known_whether_training_can_go_on_exactly(tiny, tmp_path):
    model = tiny()
    assert not model.training_restored
    for exclude, restored in ((None, True), (["training"], False)):
        model.save(tmp_path / "agent", exclude=exclude)
        assert ProQ.load(tmp_path / "agent", device="cpu").training_restored == restored


def test_a_normalised_env_is_found(tiny):
    model = tiny(env=GridMaze())
    env = VecNormalize(DummyVecEnv([GridMaze] * 3), norm_obs=False)
    model.set_env(env)
    assert model.get_vec_normalize_env() is env and model.n_envs == 3


def test_padding_actions_do_not_count(walks):
    actions = walks.actions.clone()
    actions[walks.trajectory_ends] = 999.0
    padded = GoalDataset(walks.observations, actions, np.isin(np.arange(len(walks)), walks.trajectory_ends))
    space = ProQ(dataset=padded, **TINY).action_space
    assert np.abs([space.low, space.high]).max() < 2.0


def test_an_action_that_cannot_vary_is_refused(walks):
    model = ProQ(dataset=walks, **TINY)
    space = type(model.action_space)(np.array([-1.0, 0.5], np.float32), np.array([1.0, 0.5], np.float32))
    with pytest.raises(ValueError, match="low < high"):
        ProQ(dataset=walks, action_space=space, **TINY)
