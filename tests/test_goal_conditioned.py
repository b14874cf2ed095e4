"""What every goal-conditioned algorithm does, whichever it is."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
import torch as th
from drone_logs import drone_logs
from grid_maze import GridMaze
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure

from proq_agent import CRL, GCBC, GCIQL, GCIVL, HIQL, QRL, GoalDataset
from proq_agent.common.archive import CheckpointError
from proq_agent.common.goal_conditioned import GoalConditioned
from zoo.worlds.drone import DroneReach

SMALL: dict[str, Any] = {"batch_size": 32, "seed": 0, "device": "cpu", "policy_kwargs": {"hidden_sizes": [16, 16]}}
LATENT: dict[str, Any] = {"policy_kwargs": {"hidden_sizes": [16, 16], "latent_dim": 16}}
VARIANTS: dict[str, tuple[type[GoalConditioned], dict[str, Any]]] = {
    "gcbc": (GCBC, {}),
    "gcivl": (GCIVL, {}),
    "gciql": (GCIQL, {}),
    "gciql-awr": (GCIQL, {"actor_loss": "awr"}),
    "qrl": (QRL, LATENT),
    "qrl-awr": (QRL, LATENT | {"actor_loss": "awr"}),
    "qrl-mrn": (QRL, {"policy_kwargs": LATENT["policy_kwargs"] | {"quasimetric": "mrn"}}),
    "crl": (CRL, LATENT),
    "crl-awr": (CRL, LATENT | {"actor_loss": "awr"}),
    "hiql": (HIQL, {"subgoal_steps": 5}),
}


@pytest.fixture(params=VARIANTS)
def variant(request):
    return request.param


@pytest.fixture
def build(variant, walks):
    """Builds a very small agent on the random walks; keyword arguments override."""
    algorithm, settings = VARIANTS[variant]

    def make(**kwargs: Any) -> GoalConditioned:
        return algorithm(**(SMALL | settings | {"dataset": walks} | kwargs))

    return make


def observation(n: int | None = None, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shape = (2,) if n is None else (n, 2)
    return {k: rng.uniform(1, 5, shape).astype(np.float32) for k in ("observation", "achieved_goal", "desired_goal")}


def assert_same(one: GoalConditioned, two: GoalConditioned) -> None:
    for (name, a), b in zip(one.policy.state_dict().items(), two.policy.state_dict().values(), strict=True):
        assert th.equal(a, b), name


# ---------------------------------------------------------------------------------------------------------- learning


def test_every_network_learns_without_an_env(build):
    model = build()
    before = {name: p.clone() for name, p in model.policy.named_parameters()}
    assert model.learn(3, log_interval=None) is model
    assert model.num_timesteps == model._n_updates == 3 and model.env is None
    for name, parameter in model.policy.named_parameters():
        assert parameter.isfinite().all()
        # The output's bias shifts distances, of which none is left in a difference of latents.
        if not name.endswith("encoder.biases.2"):
            assert not th.equal(before[name], parameter), name
    model.learn(2, reset_num_timesteps=False, log_interval=None)
    assert model.num_timesteps == 5


@pytest.mark.parametrize(
    ("algorithm", "name"), [(GCIVL, "value"), (GCIQL, "critic"), (HIQL, "value")], ids=lambda value: str(value)
)
def test_slow_copies_follow_one_update_later(walks, algorithm, name):
    model = algorithm(**SMALL, dataset=walks, tau=0.25, learning_rate=0.1)
    online, target = (list(getattr(model.policy, prefix + name).parameters()) for prefix in ("", "target_"))
    history = []
    for _ in range(3):
        history.append([p.detach().clone() for p in online])
        model.learn(1, log_interval=None, reset_num_timesteps=False)
    for first, second, third, slow in zip(*history, target, strict=True):
        assert th.allclose(slow, 0.25 * third + 0.75 * (0.25 * second + 0.75 * first), atol=1e-6)


def test_the_same_seed_learns_the_same_and_global_randomness_is_left_alone(build):
    state = th.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    one, two, other = (build(seed=seed).learn(4, log_interval=None) for seed in (3, 3, 4))
    assert_same(one, two)
    assert not th.equal(one.policy.actor.net.weights[0], other.policy.actor.net.weights[0])
    one.predict(observation())
    assert th.equal(state[0], th.get_rng_state()) and np.array_equal(state[1], np.random.get_state()[1])  # noqa: NPY002


def test_acting_during_training_does_not_change_what_is_learned(build):
    class Act(BaseCallback):
        def _on_step(self) -> bool:
            self.model.predict(observation())
            return True

    assert_same(build().learn(3, log_interval=None), build().learn(3, callback=Act(), log_interval=None))


def test_the_learning_rate_follows_its_schedule(build):
    model = build(learning_rate=lambda progress: 1e-3 * progress).learn(10, log_interval=None)
    assert model.optimizer.param_groups[0]["lr"] == pytest.approx(1e-4)


@pytest.mark.parametrize("name", ["gciql", "qrl", "qrl-mrn", "crl"])
def test_values_do_not_push_actions_beyond_their_bounds(walks, name):
    algorithm, settings = VARIANTS[name]
    model = algorithm(**SMALL | settings, alpha=0.0, dataset=walks)
    gradients = {}
    for bias in (0.0, 5.0):
        model.policy.zero_grad()
        th.nn.init.constant_(model.policy.actor.net.biases[-1], bias)
        model.loss(model.sample())[0].backward()
        gradients[bias] = model.policy.actor.net.biases[-1].grad.abs().sum().item()
    assert gradients[0.0] > 0.0 and gradients[5.0] == 0.0


def test_every_metric_is_logged(build, tmp_path):
    model = build()
    model.set_logger(configure(str(tmp_path), ["csv", "log"]))  # the table of the log cuts long names
    model.learn(4, log_interval=2)
    lines = (tmp_path / "progress.csv").read_text().splitlines()
    _, metrics = model.loss(model.sample())
    assert {f"train/{name}" for name in metrics} <= set(lines[0].split(","))
    assert len(lines) == 3


def test_an_update_needs_nothing_from_the_host(variant, walks):
    """On the meta device, whatever would make a CUDA run wait for the device or mix devices raises."""
    algorithm, settings = VARIANTS[variant]
    space = GridMaze()
    model = algorithm(
        **SMALL | settings | {"device": "meta"},
        observation_space=space.observation_space,
        action_space=space.action_space,
    )
    model.set_dataset(walks.to("meta"))
    for _ in range(2):
        model.train()
    assert all(p.grad is not None and p.grad.is_meta for p in model.optimizer.param_groups[0]["params"])


def test_a_standardised_policy_sees_no_units(build, walks):
    """In other units of the observations the same is learned."""
    ends = np.isin(np.arange(len(walks)), walks.trajectory_ends)
    far = GoalDataset(1000.0 * walks.observations + 7000.0, walks.actions, ends)
    kwargs = build().policy_kwargs | {"standardise": True}
    plain, scaled = (build(dataset=data, policy_kwargs=kwargs).learn(3, log_interval=None) for data in (walks, far))
    here = observation(5)
    there = {name: 1000.0 * array + 7000.0 for name, array in here.items()}
    actions = [m.predict(o, deterministic=True)[0] for m, o in ((plain, here), (scaled, there))]
    np.testing.assert_allclose(*actions, atol=1e-3)


@pytest.mark.parametrize("name", ["gcbc", "qrl", "hiql"])
def test_fourier_features_widen_what_the_networks_see(walks, name):
    algorithm, settings = VARIANTS[name]
    kwargs = SMALL["policy_kwargs"] | settings.get("policy_kwargs", {}) | {"n_fourier_features": 6}
    model = algorithm(**SMALL | settings | {"policy_kwargs": kwargs}, dataset=walks).learn(2, log_interval=None)
    batch = model.sample()
    assert batch.observations.shape == batch.actor_goals.shape == (32, 8)
    assert model.predict(observation(3))[0].shape == (3, 2)


# ------------------------------------------------------------------------------------------------------------ acting


def test_a_batch_gives_the_same_actions_as_single_observations(build):
    model = build().learn(2, log_interval=None)
    batch = observation(16)
    actions, state = model.predict(batch, deterministic=True)
    assert actions.shape == (16, 2) and state is None
    for i in range(16):
        single, _ = model.predict({k: v[i] for k, v in batch.items()}, deterministic=True)
        assert single.shape == (2,)
        np.testing.assert_allclose(single, actions[i], atol=1e-5)


def test_actions_depend_on_the_goal(build):
    model = build()
    one, two = observation(), observation() | {"desired_goal": np.array([1.0, 9.0], np.float32)}
    assert not np.array_equal(model.predict(one, deterministic=True)[0], model.predict(two, deterministic=True)[0])


def test_the_controller_of_hiql_heads_straight_for_its_goal(walks):
    model = HIQL(**SMALL, dataset=walks).learn(3, log_interval=None)
    here = observation(4)
    with th.no_grad():
        states, goals = (th.as_tensor(here[key]) for key in ("observation", "desired_goal"))
        expected = model.policy.actor(states, model.policy.represent(states, goals)).clamp(-1.0, 1.0).numpy()
    low, high = model.action_space.low, model.action_space.high
    actions, _ = model.controller.predict(here, deterministic=True)
    np.testing.assert_allclose(actions, low + (high - low) * (expected + 1.0) / 2.0, atol=1e-5)
    assert not np.allclose(actions, model.predict(here, deterministic=True)[0])
    assert model.policy.chooses_subgoals


def test_sampled_actions_vary_as_asked_for_and_stay_in_the_space(build):
    spread = {}
    for std in (0.0, 0.1, 10.0):
        model = build(acting_std=std)
        actions = np.stack([model.predict(observation())[0] for _ in range(30)])
        assert all(model.action_space.contains(action) for action in actions)
        spread[std] = actions.std(axis=0).mean()
    assert spread[0.0] == pytest.approx(0.0, abs=1e-7) and spread[0.0] < spread[0.1] < spread[10.0]


def test_actions_of_another_range_are_scaled(build, walks):
    space = spaces.Box(np.array([0.0, -4.0], np.float32), np.array([10.0, 4.0], np.float32))
    ends = np.isin(np.arange(len(walks)), walks.trajectory_ends)
    scaled = GoalDataset(walks.observations, (walks.actions + 1) * th.tensor([5.0, 4.0]) - th.tensor([0.0, 4.0]), ends)
    other = build(dataset=scaled, action_space=space).learn(3, log_interval=None)
    model = build(action_space=spaces.Box(-1.0, 1.0, (2,))).learn(3, log_interval=None)
    actions, expected = (m.predict(observation(5), deterministic=True)[0] for m in (other, model))
    np.testing.assert_allclose(actions, (expected + 1) * [5.0, 4.0] - [0.0, 4.0], atol=1e-3)


def test_goals_may_be_of_another_space_than_observations(variant):
    algorithm, settings = VARIANTS[variant]
    env = TimeLimit(DroneReach(), 3)
    model = algorithm(**SMALL | settings, env=env, dataset=drone_logs(1)).learn(2, log_interval=None)
    assert model.policy.observation_dim == 9 and model.policy.goal_dim == 3
    rewards, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=2, return_episode_rewards=True)
    assert len(rewards) == 2


def test_sb3_callbacks_work_as_they_are(build, tmp_path):
    callbacks = [
        CheckpointCallback(2, str(tmp_path)),
        EvalCallback(make_vec_env(GridMaze, 2, env_kwargs={"max_steps": 3}), eval_freq=2, n_eval_episodes=2, verbose=0),
    ]
    build(env=GridMaze(max_steps=3)).learn(4, callback=callbacks, log_interval=None, progress_bar=True)
    assert sorted(p.name for p in tmp_path.glob("*.zip")) == ["rl_model_2_steps.zip", "rl_model_4_steps.zip"]


# ----------------------------------------------------------------------------------------------------- saving, loading


def test_a_loaded_agent_acts_as_the_saved_one(build, tmp_path):
    model = build(learning_rate=1e-3, goals={"discount": 0.9}, acting_std=0.5).learn(3, log_interval=None)
    model.save(tmp_path / "agent")
    loaded = type(model).load(tmp_path / "agent.zip", device="cpu")
    assert_same(model, loaded)
    assert (loaded.num_timesteps, loaded.learning_rate, loaded.acting_std) == (3, 1e-3, 0.5)
    assert loaded.goals == model.goals and loaded.goals.discount == 0.9
    for deterministic in (True, False):
        a, b = (m.predict(observation(9), deterministic=deterministic)[0] for m in (model, loaded))
        np.testing.assert_array_equal(a, b)
    assert type(model).load(tmp_path / "agent", device="cpu", acting_std=0.0).policy.acting_std == 0.0


def test_training_resumes_exactly(build, walks, tmp_path):
    straight = build().learn(6, log_interval=None)
    build().learn(3, log_interval=None).save(tmp_path / "half")
    resumed = type(straight).load(tmp_path / "half", device="cpu", dataset=walks)
    assert resumed.training_restored
    assert_same(straight, resumed.learn(3, reset_num_timesteps=False, log_interval=None))


def test_training_resumes_exactly_in_a_new_process(walks, tmp_path):
    straight = {}
    for name, (algorithm, settings) in VARIANTS.items():
        straight[name] = algorithm(**SMALL | settings, dataset=walks).learn(4, log_interval=None)
        algorithm(**SMALL | settings, dataset=walks).learn(2, log_interval=None).save(tmp_path / name)
    script = f"""
        from pathlib import Path
        import torch as th
        th.set_num_threads(1)
        import proq_agent
        from grid_maze import GridMaze
        walks = GridMaze().random_walks(20, 30)
        for name in {list(VARIANTS)}:
            path = Path(r"{tmp_path}") / name
            model = getattr(proq_agent, name.split("-")[0].upper()).load(path, device="cpu", dataset=walks)
            model.learn(2, reset_num_timesteps=False, log_interval=None).save(path)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, cwd="tests")
    for name, model in straight.items():
        assert_same(model, type(model).load(tmp_path / name, device="cpu"))


def test_an_agent_of_another_algorithm_is_refused(build, tmp_path):
    model = build()
    model.save(tmp_path / "agent")
    other = GCBC if not isinstance(model, GCBC) else GCIVL
    with pytest.raises(CheckpointError, match=f"holds a '{type(model).__name__}' agent, not {other.__name__}"):
        other.load(tmp_path / "agent")


def test_a_policy_can_be_saved_alone(build, tmp_path):
    policy = build(acting_std=0.25).policy
    policy.save(tmp_path / "policy.pth")
    loaded = type(policy).load(tmp_path / "policy.pth", device="cpu")
    actions = [p.predict(observation(), deterministic=True)[0] for p in (policy, loaded)]
    np.testing.assert_array_equal(*actions)
    assert loaded.acting_std == 0.25


# --------------------------------------------------------------------------------------------------------- bad input


BAD: list[tuple[dict[str, Any], str]] = [
    ({"alpha": -1.0}, "alpha must not be negative"),
    ({"low_alpha": -1.0}, "low_alpha must not be negative"),
    ({"high_alpha": -1.0}, "high_alpha must not be negative"),
    ({"subgoal_steps": 0}, "subgoal_steps must be a whole number"),
    ({"subgoal_steps": 2.5}, "subgoal_steps must be a whole number"),
    ({"expectile": 1.0}, "expectile must lie strictly between"),
    ({"tau": 0.0}, "tau must lie in"),
    ({"actor_loss": "sac"}, "actor_loss must be ddpgbc or awr, got 'sac'"),
    ({"margin": -0.1}, "margin must not be negative"),
    ({"acting_std": -0.1}, "acting_std must not be negative"),
    ({"acting_std": 10**30}, "acting_std must be a finite number"),  # which no tensor can be multiplied with
    ({"acting_std": math.inf}, "acting_std must be a finite number"),
    ({"alpha": math.inf}, "alpha must be a finite number"),
    ({"alpha": None}, "alpha must be a finite number, got None"),
    ({"high_alpha": "x"}, "high_alpha must be a finite number"),
    ({"margin": True}, "margin must be a finite number"),  # which cannot be subtracted from
    ({"expectile": [0.7]}, "expectile must be a finite number"),
    ({"tau": "0.1"}, "tau must be a finite number"),
    ({"subgoal_steps": True}, "subgoal_steps must be a finite number"),
    ({"learning_rate": 10**400}, "learning_rate must be positive and finite"),
    ({"batch_size": 0}, "batch_size"),
    ({"goals": {"discount": 1.0}}, "discount must lie"),
    ({"goals": {"value": {"current": 0.7, "future": 0.7}}}, "add up to 1"),
    ({"goals": {"actr": {}}}, "did you mean actor"),
]


@pytest.mark.parametrize(
    ("algorithm", "bad", "message"),
    [
        pytest.param(algorithm, bad, message, id=f"{algorithm.__name__}-{bad}")
        for algorithm in (GCBC, GCIVL, GCIQL, QRL, CRL, HIQL)
        for bad, message in BAD
        if bad.keys() <= set(algorithm._hyperparameter_names())
    ],
)
def test_impossible_arguments_are_refused(walks, algorithm, bad, message):
    with pytest.raises(ValueError, match=message):
        algorithm(**SMALL | bad, dataset=walks)


@pytest.mark.parametrize(
    ("bad", "message"),
    [({"quasimetric": "pqe"}, "iqe or mrn"), ({"latent_dim": 12, "component_size": 8}, "multiple of component_size")],
)
def test_impossible_quasimetrics_are_refused(walks, bad, message):
    with pytest.raises(ValueError, match=message):
        QRL(dataset=walks, policy_kwargs=bad)
