"""What works with every Stable-Baselines3 agent works with this one."""

from __future__ import annotations

import copy
import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from conftest import TINY
from grid_maze import GridMaze
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from proq_agent import QRL, GoalDataset, ProQ
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


def same_tensors(one: Any, other: Any) -> bool:
    """Whether two state dicts hold equal numbers."""
    if isinstance(one, th.Tensor):
        return th.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_tensors(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same_tensors, one, other))
    return one == other


@pytest.mark.parametrize("algorithm", [ProQ, QRL])
@pytest.mark.parametrize("from_file", [False, True])
def test_parameters_include_the_optimisers_and_stay_ones_own(algorithm, from_file, walks, tmp_path):
    settings = TINY if algorithm is ProQ else {"batch_size": 16, "device": "cpu", "policy_kwargs": {"net_arch": [8]}}
    one, other = (algorithm(dataset=walks, **settings | {"seed": seed}).learn(6 + seed) for seed in (1, 2))
    one.save(tmp_path / "agent")
    given = one.get_parameters()
    assert any("optimizer" in name for name in given) and not same_tensors(given, other.get_parameters())
    other.set_parameters(tmp_path / "agent" if from_file else given)
    assert same_tensors(given, other.get_parameters())
    kept = copy.deepcopy(other.get_parameters())
    one.learn(1)
    assert same_tensors(kept, other.get_parameters()) and not same_tensors(one.get_parameters(), kept)


def test_weights_alone_can_be_taken_over(tiny, tmp_path):
    one, other = tiny(seed=1).learn(3), tiny(seed=2).learn(3)
    before = copy.deepcopy(other.get_parameters()["map_optimizer"])
    one.save(tmp_path / "agent", exclude=["training"])
    other.set_parameters(tmp_path / "agent")
    assert same_tensors(one.get_parameters()["policy"], other.get_parameters()["policy"])
    assert same_tensors(before, other.get_parameters()["map_optimizer"])
    other.set_parameters({"policy": tiny(seed=3).policy.state_dict()}, exact_match=False)
    with pytest.raises(ValueError, match="Names of parameters do not match"):
        other.set_parameters({"policy": one.policy.state_dict()})


def test_a_compiled_policy_saves_loads_and_takes_parameters(tiny, tmp_path):
    model, plain = tiny(), tiny(seed=5).learn(2)
    model.policy = th.compile(model.policy)
    model.learn(2)
    model.save(tmp_path / "agent")
    loaded = ProQ.load(tmp_path / "agent", device="cpu")
    assert same_tensors(loaded.get_parameters(), model.get_parameters())
    actions = [m.predict(observation(), deterministic=True)[0] for m in (model, loaded)]
    np.testing.assert_allclose(*actions, atol=1e-5)
    for given in (plain.get_parameters(), tmp_path / "agent"):
        model.set_parameters(given)
        expected = given if isinstance(given, dict) else loaded.get_parameters()
        assert same_tensors(model.get_parameters(), expected)
    assert isinstance(model.policy, th._dynamo.OptimizedModule)


def test_an_agent_with_one_compiled_network_saves_and_loads(tiny, tmp_path):
    model = tiny()
    model.policy.actor = th.compile(model.policy.actor)
    model.save(tmp_path / "agent")
    loaded = ProQ.load(tmp_path / "agent", device="cpu")
    assert same_tensors(loaded.policy.actor.state_dict(), model.policy.actor._orig_mod.state_dict())


@pytest.mark.parametrize("algorithm", [ProQ, QRL])
def test_a_policy_for_other_observations_is_answered(algorithm, walks):
    with pytest.raises(ValueError, match=r"'MlpPolicy' is unknown.*'MultiInputPolicy'"):
        algorithm("MlpPolicy", dataset=walks)


@pytest.mark.parametrize("algorithm", [ProQ, QRL])
def test_a_short_run_leaves_a_log_entry_under_the_algorithms_name(algorithm, walks, tmp_path):
    arguments = {"dataset": walks, "policy_kwargs": {"net_arch": [8]}, "batch_size": 16, "device": "cpu"}
    algorithm(tensorboard_log=str(tmp_path), **arguments).learn(20)
    assert [path.name for path in tmp_path.iterdir()] == [f"{algorithm.__name__}_1"]
    log = EventAccumulator(str(tmp_path / f"{algorithm.__name__}_1"))
    log.Reload()
    assert log.Tags()["scalars"] and all(log.Scalars(name)[-1].step == 20 for name in log.Tags()["scalars"])


def test_the_last_entry_is_of_what_no_entry_has_told_yet(tiny, tmp_path):
    model = tiny()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(10, log_interval=4)
    assert load_progress(tmp_path) == [4, 8, 10]
    model.learn(4, log_interval=2, reset_num_timesteps=False)
    model.learn(4, log_interval=None, reset_num_timesteps=False)
    assert load_progress(tmp_path) == [4, 8, 10, 12, 14]


def load_progress(folder: Path) -> list[int]:
    with (folder / "progress.csv").open() as file:
        return [int(row["time/total_timesteps"]) for row in csv.DictReader(file)]


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
