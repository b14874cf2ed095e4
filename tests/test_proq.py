"""ProQ as a Stable-Baselines3 algorithm."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch as th
from conftest import TINY
from grid_maze import GridMaze
from gymnasium import spaces
from kernel_count import KernelCount, without_optimisers
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback, LogEveryNTimesteps
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor

from proq_agent import GoalDataset, ProQ
from proq_agent.common.errors import CheckpointError
from zoo.config import load_hyperparams


def parameters(model: ProQ) -> dict[str, th.Tensor]:
    return model.policy.state_dict()


def assert_same(one: ProQ, two: ProQ) -> None:
    for (name, a), b in zip(parameters(one).items(), parameters(two).values(), strict=True):
        assert th.equal(a, b), name


def observation(n: int | None = None, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shape = (2,) if n is None else (n, 2)
    return {k: rng.uniform(1, 5, shape).astype(np.float32) for k in ("observation", "achieved_goal", "desired_goal")}


def test_learns_without_an_env_and_counts_updates(tiny):
    model = tiny()
    before = {k: v.clone() for k, v in parameters(model).items()}
    assert model.learn(6, log_interval=None) is model
    assert model.num_timesteps == 6
    assert model.env is None
    for name in ("encoder", "embedder", "quasimetric", "classifier", "actor", "standard_keypoints", "log_std"):
        changed = [not th.equal(before[k], v) for k, v in parameters(model).items() if k.startswith(name)]
        assert any(changed), name
    model.learn(4, reset_num_timesteps=False, log_interval=None)
    assert model.num_timesteps == 10


def test_keypoints_stay_frozen_until_their_start_and_inside_the_data(tiny):
    model = tiny(keypoints={"start": 5, "learning_rate": 1.0})
    before = model.policy.keypoints.clone()
    model.learn(5, log_interval=None)
    assert th.equal(before, model.policy.keypoints)
    model.learn(30, reset_num_timesteps=False, log_interval=None)
    assert not th.equal(before, model.policy.keypoints)
    low, high = model.dataset.achieved_goals.aminmax(dim=0)
    assert (model.policy.keypoints >= low - 1e-4).all() and (model.policy.keypoints <= high + 1e-4).all()


@pytest.mark.parametrize(("fraction", "n_updates"), [(0.5, 8), (0.55, 100)])
def test_keypoints_settle_on_states_of_the_data_when_the_map_is_finished(tiny, walks, fraction, n_updates):
    model = tiny(map_fraction=fraction, actor_fraction=1.0 - fraction, keypoints={"learning_rate": 1.0})
    before = model.policy.keypoints.clone()
    model.learn(n_updates, log_interval=None)
    to_data = (model.policy.keypoints[:, None] - walks.achieved_goals).abs().amax(dim=2).amin(dim=1)
    assert to_data.max() < 1e-4 and not th.allclose(before, model.policy.keypoints)


def test_without_the_barrier_only_repulsion_moves_the_keypoints(tiny):
    held, free = (
        tiny(keypoints={"barrier": b, "repel_strength": 0.0}).learn(6, log_interval=None) for b in (True, False)
    )
    assert th.equal(free.policy.keypoints, tiny().policy.keypoints)
    assert not th.equal(held.policy.keypoints, free.policy.keypoints)


def test_the_barrier_has_a_multiplier_of_its_own(tiny):
    model = tiny(keypoints={"repel_strength": 0.0, "start": 0, "freq": 1})
    before = model.policy.keypoints.clone()
    model.multipliers.log_values["kps"].data.fill_(-100.0)
    model.learn(1, log_interval=None)
    assert th.equal(model.policy.keypoints, before)
    assert model.multipliers.log_values["kps"] != -100.0 and model.multipliers.metrics()["lambda_ood"] > 0.1
    model.multipliers.log_values["kps"].data.fill_(0.0)
    model.multipliers.log_values["ood"].data.fill_(-100.0)
    model.learn(1, log_interval=None, reset_num_timesteps=False)
    assert not th.equal(model.policy.keypoints, before)


def test_the_same_seed_learns_the_same_and_global_randomness_is_left_alone(tiny):
    state = th.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    one, two, other = (tiny(seed=s).learn(5, log_interval=None) for s in (3, 3, 4))
    assert_same(one, two)
    assert not th.equal(parameters(one)["log_std"], parameters(other)["log_std"])
    assert th.equal(state[0], th.get_rng_state()) and np.array_equal(state[1], np.random.get_state()[1])  # noqa: NPY002


def test_acting_during_training_does_not_change_what_is_learned(tiny):
    class Act(BaseCallback):
        def _on_step(self) -> bool:
            self.model.predict(observation())
            return True

    assert_same(tiny().learn(6, log_interval=None), tiny().learn(6, callback=Act(), log_interval=None))


def test_a_callback_can_stop_training(tiny):
    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return self.num_timesteps < 3

    assert tiny().learn(10, callback=Stop(), log_interval=None).num_timesteps == 3


@pytest.mark.parametrize("callback", [None, lambda locals_, globals_: True, [LogEveryNTimesteps(2)]])
def test_a_progress_bar_needs_no_env(tiny, capsys, callback):
    assert tiny().learn(3, callback=callback, log_interval=None, progress_bar=True).num_timesteps == 3
    assert "3/3" in capsys.readouterr().err


def test_the_learning_rate_follows_its_schedule(tiny):
    model = tiny(learning_rate=lambda progress: 1e-3 * progress)
    model.learn(10, log_interval=None)
    assert model.actor_optimizer.param_groups[0]["lr"] == pytest.approx(1e-4)


def test_map_and_actor_learn_in_their_shares_of_the_updates(tiny):
    class Snapshots(BaseCallback):
        def _on_step(self) -> bool:
            snapshots.append({k: v.clone() for k, v in parameters(self.model).items()})
            rates.append(self.model.actor_optimizer.param_groups[0]["lr"])
            return True

    snapshots: list[dict[str, th.Tensor]] = []
    rates: list[float] = []
    model = tiny(
        map_fraction=0.5, actor_fraction=0.75, learning_rate=lambda progress: progress, keypoints={"learning_rate": 1.0}
    )
    model.learn(8, callback=Snapshots(), log_interval=None)
    for name, first in snapshots[0].items():
        if name.startswith(("actor.", "log_std")):
            assert th.equal(first, snapshots[1][name]) and not th.equal(first, snapshots[3][name]), name
            assert not th.equal(snapshots[3][name], snapshots[7][name]), name
        else:
            assert th.equal(snapshots[3][name], snapshots[7][name]), name
    assert not th.equal(snapshots[0]["standard_keypoints"], snapshots[3]["standard_keypoints"])
    assert rates[2:] == pytest.approx([k / 6 for k in (6, 5, 4, 3, 2, 1)])


def test_the_actor_is_weighed_on_one_and_the_same_map(tiny):
    """Where map and actor learn together, the map moves after both have been measured on it."""
    together, alone = tiny(learning_rate=0.5), tiny(learning_rate=0.5)
    batch = alone.goals.sample(alone.dataset, alone.batch_size, alone.generator)
    _, metrics = alone._actor_objective(batch, None, None)
    together.learn(1, log_interval=None)
    assert together._metric_sums["advantage"].item() == pytest.approx(metrics["advantage"].item(), abs=1e-5)


def test_metrics_are_logged_under_sb3_names(tiny, tmp_path):
    model = tiny()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(8, log_interval=4)
    lines = (tmp_path / "progress.csv").read_text().splitlines()
    columns = lines[0].split(",")
    for name in ("train/loss", "train/lambda_dist", "train/lambda_ood", "train/lambda_kps", "time/total_timesteps"):
        assert name in columns
    assert len(lines) == 3
    assert [float(line.split(",")[columns.index("time/total_timesteps")]) for line in lines[1:]] == [4, 8]


def test_sb3_callbacks_and_evaluation_work_as_they_are(tiny, tmp_path):
    env = Monitor(GridMaze(max_steps=5))
    callbacks = [
        CheckpointCallback(4, str(tmp_path)),
        EvalCallback(make_vec_env(GridMaze, 2, env_kwargs={"max_steps": 5}), eval_freq=4, n_eval_episodes=2, verbose=0),
        LogEveryNTimesteps(4),
    ]
    model = tiny(env=env)
    model.learn(8, callback=callbacks, log_interval=None)
    assert sorted(p.name for p in tmp_path.glob("*.zip")) == ["rl_model_4_steps.zip", "rl_model_8_steps.zip"]
    rewards, lengths = evaluate_policy(model, model.get_env(), n_eval_episodes=3, return_episode_rewards=True)
    assert len(rewards) == 3 and max(lengths) <= 5


def test_a_batch_gives_the_same_actions_as_single_observations(tiny):
    model = tiny().learn(5, log_interval=None)
    batch = observation(16)
    actions, state = model.predict(batch, deterministic=True)
    assert actions.shape == (16, 2) and state is None
    for i in range(16):
        single, _ = model.predict({k: v[i] for k, v in batch.items()}, deterministic=True)
        assert single.shape == (2,)
        np.testing.assert_allclose(single, actions[i], atol=1e-5)


def test_a_changed_goal_is_planned_anew_row_by_row(tiny):
    model = tiny().learn(5, log_interval=None)
    batch = observation(6)
    model.predict(batch)
    batch["desired_goal"][2] = [1.0, 1.0]
    changed, _ = model.predict(batch, deterministic=True)
    fresh, _ = ProQ.predict(tiny().learn(5, log_interval=None), batch, deterministic=True)
    np.testing.assert_allclose(changed, fresh, atol=1e-5)


def test_sampled_actions_vary_and_stay_in_the_space(tiny):
    model = tiny()
    actions = np.stack([model.predict(observation())[0] for _ in range(50)])
    assert actions.std() > 0.1
    assert all(model.action_space.contains(a) for a in actions)


def test_actions_of_another_range_are_scaled(walks):
    space = spaces.Box(np.array([0.0, -4.0], np.float32), np.array([10.0, 4.0], np.float32))
    scaled = GoalDataset(
        walks.observations, (walks.actions + 1) * th.tensor([5.0, 4.0]) - th.tensor([0.0, 4.0]),
        np.isin(np.arange(len(walks)), walks.trajectory_ends), action_space=space,
    )  # fmt: skip
    model = ProQ(**TINY, dataset=scaled, action_space=space).learn(3, log_interval=None)
    reference = ProQ(**TINY, dataset=walks, action_space=spaces.Box(-1.0, 1.0, (2,))).learn(3, log_interval=None)
    action, _ = model.predict(observation(), deterministic=True)
    expected, _ = reference.predict(observation(), deterministic=True)
    np.testing.assert_allclose(action, (expected + 1) * [5.0, 4.0] - [0.0, 4.0], atol=1e-3)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros(2), "needs a dict"),
        ((observation(), {}), "pass obs alone"),
        ({"observation": np.zeros(2), "achieved_goal": np.zeros(2)}, "no desired_goal"),
        (observation() | {"desired_goal": np.zeros(3)}, r"desired_goal has shape \(1, 3\)"),
        (observation() | {"achieved_goal": np.full(2, np.nan)}, "achieved_goal is not finite"),
        (observation(4) | {"desired_goal": np.zeros((3, 2))}, r"desired_goal has shape \(3, 2\)"),
        (observation(0), "observation has no row"),
    ],
)
def test_bad_observations_are_refused(tiny, bad, message):
    with pytest.raises(ValueError, match=message):
        tiny().predict(bad)


def test_float64_observations_are_accepted(tiny):
    action, _ = tiny().predict({k: v.astype(np.float64) for k, v in observation().items()})
    assert action.dtype == np.float32


@pytest.mark.parametrize(
    "bad",
    [
        {"batch_size": 0},
        {"batch_size": 1},
        {"keypoints": {"n": 0}},
        {"planning": {"max_hop": 0.0}},
        {"distance": {"compliance": 1.0}},
        {"map_fraction": 0.0},
        {"actor_fraction": 1.5},
        {"map_fraction": 0.5, "actor_fraction": 0.4},
        {"planning": {"caution": -1.0}},
        {"stochastic": "maybe"},
        {"keypoints": {"freq": 0}},
        {"goals": {"discount": 1.0}},
        {"temperature": -1.0},
        {"temperature": float("inf")},
        {"learning_rate": float("inf")},
        {"distance": {"max_multiplier": 0.5}},
    ],
)
def test_impossible_hyperparameters_are_refused(tiny, bad):
    (name, value) = next(iter(bad.items()))
    with pytest.raises(ValueError, match=next(iter(value)) if isinstance(value, dict) else name):
        tiny(**bad)


def test_names_of_earlier_versions_still_work_with_one_warning(tiny, tmp_path):
    with pytest.warns(FutureWarning, match=r"max_hop is planning\.max_hop now") as warned:
        model = tiny(max_hop=7.0, n_keypoints=4, value_near_share=0.3, near_candidates=256)
    assert len([w for w in warned if w.category is FutureWarning]) == 1
    assert (model.planning.max_hop, model.keypoints.n, model.goals.value.near) == (7.0, 4, 0.3)
    assert model.keypoints.freq == TINY["keypoints"]["freq"]  # the rest of the group stays
    with pytest.raises(ValueError, match="near_candidates is no longer an option"):
        tiny(near_candidates=3)
    with pytest.raises(TypeError, match="max_hops"):
        tiny(max_hops=7.0)
    model.save(tmp_path / "agent")
    with pytest.warns(FutureWarning, match="patience"):
        loaded = ProQ.load(tmp_path / "agent", patience=3)
    assert (loaded.planning.patience, loaded.planning.max_hop) == (3, 7.0)
    assert ProQ.load(tmp_path / "agent", planning={"patience": 4}).planning.max_hop == 7.0


def test_planning_changes_without_training_anew(tiny):
    model = tiny()
    before = model.planner
    model.set_planning(max_hop=3.0, patience=5)
    assert (model.planning.max_hop, model.planning.patience, model.planning.reach) == (3.0, 5, None)
    assert model.planner is not before and model.planner.max_hop == 3.0
    with pytest.raises(ValueError, match="max_hop"):
        model.set_planning(max_hop=0.0)


def test_acting_draws_from_another_stream_than_learning(tiny):
    model = tiny(seed=7)
    assert model.generator.initial_seed() == 7 != model.acting_generator.initial_seed()


def test_the_learning_rate_of_the_map_falls_within_its_own_share(tiny):
    rates: list[float] = []

    class Note(BaseCallback):
        def _on_step(self) -> bool:
            rates.append(self.model.map_optimizer.param_groups[0]["lr"])
            return True

    model = tiny(map_fraction=0.5, actor_fraction=0.5, learning_rate=lambda progress: 1e-3 * progress)
    model.learn(8, callback=Note(), log_interval=None)
    assert rates[:4] == pytest.approx([1e-3, 0.75e-3, 0.5e-3, 0.25e-3])


def test_learning_and_building_from_nothing_are_refused():
    with pytest.raises(ValueError, match="give an env, a dataset"):
        ProQ()
    env = GridMaze()
    with pytest.raises(ValueError, match="set_dataset"):
        ProQ(env=env, **TINY).learn(1)


def test_a_dataset_of_other_shapes_is_refused(tiny):
    other = GoalDataset(np.zeros((4, 3)), np.zeros((4, 2)), np.array([0, 0, 0, 1]))
    with pytest.raises(ValueError, match="observations have shape"):
        tiny().set_dataset(other)


def test_an_env_that_is_no_goal_env_is_refused():
    with pytest.raises(ValueError, match=r"GoalDict"):
        ProQ(env="Pendulum-v1", **TINY)


# ------------------------------------------------------------------------------------------------ saving, loading


def test_a_loaded_agent_acts_as_the_saved_one(tiny, tmp_path):
    model = tiny(learning_rate=1e-3, planning={"max_hop": 7.0}).learn(5, log_interval=None)
    model.save(tmp_path / "agent")
    loaded = ProQ.load(tmp_path / "agent.zip", device="cpu")
    assert_same(model, loaded)
    assert (loaded.planning.max_hop, loaded.num_timesteps, loaded.learning_rate) == (7.0, 5, 1e-3)
    assert loaded.observation_space == model.observation_space
    batch = observation(9)
    for deterministic in (True, False):
        a, b = (m.predict(batch, deterministic=deterministic)[0] for m in (model, loaded))
        np.testing.assert_array_equal(a, b)


def test_training_resumes_exactly_in_a_new_process(tiny, walks, tmp_path):
    kwargs = {"policy_kwargs": TINY["policy_kwargs"] | {"dropout": 0.2}, "goals": {"value": {"near": 0.3}}}
    straight = tiny(**kwargs).learn(12, log_interval=None)
    tiny(**kwargs).learn(6, log_interval=None).save(tmp_path / "half")
    script = f"""
        import torch as th
        th.set_num_threads(1)
        from grid_maze import GridMaze
        from proq_agent import ProQ
        model = ProQ.load(r"{tmp_path / "half"}", device="cpu")
        model.set_dataset(GridMaze().random_walks(20, 30))
        model.learn(6, reset_num_timesteps=False, log_interval=None).save(r"{tmp_path / "whole"}")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, cwd="tests")
    assert_same(straight, ProQ.load(tmp_path / "whole", device="cpu"))


def test_a_schedule_goes_on_where_an_interrupted_run_stopped(tiny, tmp_path):
    from stable_baselines3.common.utils import LinearSchedule

    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return self.num_timesteps < 4

    schedule = LinearSchedule(1e-2, 1e-4, 1.0)
    straight = tiny(learning_rate=schedule).learn(8, log_interval=None)
    tiny(learning_rate=schedule).learn(8, callback=Stop(), log_interval=None).save(tmp_path / "half")
    resumed = ProQ.load(tmp_path / "half", device="cpu")
    resumed.set_dataset(straight.dataset)
    resumed.learn(4, reset_num_timesteps=False, log_interval=None)
    assert_same(straight, resumed)


def test_an_agent_without_training_state_is_smaller_and_acts_the_same(tiny, tmp_path):
    model = tiny().learn(3, log_interval=None)
    model.save(tmp_path / "full")
    model.save(tmp_path / "small", exclude=["training"])
    assert (tmp_path / "small.zip").stat().st_size < 0.6 * (tmp_path / "full.zip").stat().st_size
    assert_same(model, ProQ.load(tmp_path / "small", device="cpu"))
    with pytest.raises(ValueError, match="only 'training'"):
        model.save(tmp_path / "x", exclude=["policy"])


def test_code_in_an_agent_file_runs_only_if_trusted(tiny, tmp_path):
    tiny(learning_rate=lambda progress: 1e-3).save(tmp_path / "agent")
    with pytest.raises(CheckpointError, match="learning_rate"):
        ProQ.load(tmp_path / "agent", device="cpu")
    assert ProQ.load(tmp_path / "agent", device="cpu", custom_objects={"learning_rate": 0.5}).learning_rate == 0.5
    assert ProQ.load(tmp_path / "agent", device="cpu", trust_pickle=True).learning_rate(1.0) == 1e-3


def test_an_env_of_other_spaces_is_refused_on_loading(tiny, tmp_path):
    tiny().save(tmp_path / "agent")
    with pytest.raises(ValueError, match="spaces do not match"):
        ProQ.load(tmp_path / "agent", env=GridMaze("##########\n#........#\n##########"), device="cpu")


# ------------------------------------------------------------------------------------------------------------ CUDA


def test_a_whole_update_needs_nothing_from_the_host(tiny, walks):
    """On the meta device, whatever would make a CUDA run wait for the device or mix devices raises."""
    model = ProQ(
        **(
            TINY
            | {
                "device": "meta",
                "keypoints": {"n": 8, "start": 0, "freq": 1},
                "goals": {"value": {"near": 0.5, "near_in_time": 0.2, "on_map": 0.2}, "actor": {"on_map": 0.5}},
                "stochastic": "ignore",
            }
        ),
        observation_space=GridMaze().observation_space,
        action_space=GridMaze().action_space,
    )
    terminals = np.isin(np.arange(len(walks)), walks.trajectory_ends)
    dataset = GoalDataset(walks.observations, walks.actions, terminals).to("meta")
    model.set_dataset(dataset)
    model._total_timesteps = 10
    for _ in range(2):
        model.train()
        model.num_timesteps += 1
    for optimizer in (model.map_optimizer, model.actor_optimizer):
        assert all(p.grad is not None and p.grad.is_meta for p in optimizer.param_groups[0]["params"])


# A CUDA device waits for small kernels to be launched: these are limits, to be lowered when there are fewer.
@pytest.mark.parametrize(
    ("preset", "update", "most"), [("tuned", 1, 302), ("tuned", 0, 476), ("tuned", 7000, 175), ("paper", 0, 586)]
)
def test_an_update_launches_no_more_kernels_than_it_did(walks, monkeypatch, preset, update, most):
    hyperparams, _ = load_hyperparams("pointmaze-giant-stitch-v0", preset)
    hyperparams["keypoints"] |= {"start": 0}
    model = ProQ(**hyperparams | {"stochastic": "ignore"}, seed=0, device="meta", dataset=walks)
    model.num_timesteps, model._total_timesteps = update, 10_000
    without_optimisers(monkeypatch)
    with KernelCount() as kernels:
        model.train()
    assert kernels.total <= most, kernels.names.most_common(10)


@pytest.mark.slow
def test_compiling_covers_map_keypoints_and_actor(tiny, monkeypatch):
    compile, compiled = th.compile, []

    def recorded(function):
        compiled.append(function.__name__)
        return compile(function, backend="eager")

    monkeypatch.setattr(th, "compile", recorded)
    models = [tiny(compile=compile, keypoints={"start": 0, "freq": 1}) for compile in (False, True)]
    for model in models:
        model.learn(1, log_interval=None)
    assert sorted(compiled) == ["_actor_objective", "_keypoint_objective", "_map_objective"]
    for name, value in parameters(models[0]).items():
        th.testing.assert_close(parameters(models[1])[name], value, rtol=1e-3, atol=1e-4, msg=name)
