"""Actions at the limits of their range, where noise was clipped, and samples that are less noisy than the data."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch as th
from conftest import TINY
from grid_maze import GridMaze
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from test_departures import networks

from proq_agent import GoalDataset, ProQ

MEANT = 0.8
HERE = th.zeros(1, TINY["policy_kwargs"]["latent_dim"] + 2)
SEEN = th.zeros(1, 2)


def learned_from_noise(policy) -> None:
    """Likeliest actor for one who always means the same, but with noise of deviation 1 that is clipped."""
    noise = th.randn(4000, 2, generator=th.Generator().manual_seed(0))
    actions = policy.action_low.lerp(policy.action_high, ((MEANT + noise).clamp(-1.0, 1.0) + 1.0) / 2.0)
    optimizer = th.optim.Adam([*policy.actor.parameters(), policy.log_std], lr=1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        (-policy.log_prob(actions, SEEN, HERE, HERE).mean()).backward()
        optimizer.step()


def test_what_was_meant_is_learned_from_clipped_actions(tiny):
    clipped, plain = (tiny(**networks(clipped_actions=on, dropout=0.0)).policy for on in (True, False))
    for policy in (clipped, plain):
        learned_from_noise(policy)
    means = [p.scale_actions(p.act(SEEN, HERE, HERE, deterministic=True)).detach().numpy() for p in (clipped, plain)]
    assert_allclose(means[0], MEANT, atol=0.06)
    assert_allclose(clipped.log_std.exp().detach().numpy(), 1.0, atol=0.06)
    assert (means[1] < 0.6).all()  # the mean of what was left of the noise


@cache
def clipped_policy():
    maze = GridMaze()
    spaces = {"observation_space": maze.observation_space, "action_space": maze.action_space}
    return ProQ(**TINY | networks(clipped_actions=True), **spaces).policy


@given(mean=st.floats(-3.0, 3.0), log_std=st.floats(-1.5, 1.5))
@th.no_grad()
def test_the_odds_of_all_actions_add_up_to_one(mean, log_std):
    policy = clipped_policy()
    for parameter in policy.actor.parameters():
        parameter.zero_()
    policy.actor.output.bias.fill_(mean)
    policy.log_std.fill_(log_std)
    inside = th.linspace(-1.0, 1.0, 4001)[1:-1]
    scaled = th.cat([th.tensor([-1.0, 1.0]), inside])[:, None].expand(-1, 2)
    actions = policy.action_low.lerp(policy.action_high, (scaled + 1.0) / 2.0)
    # One action dimension after the other varies, the other stays where it is, at a limit.
    corner = policy.log_prob(actions[:1], SEEN, HERE, HERE).item() / 2
    mixed = th.stack([actions[:, 0], actions[0, 1].expand(len(actions))], dim=1)
    odds = (policy.log_prob(mixed, SEEN, HERE, HERE).double() - corner).exp()
    assert odds[:2].sum() + odds[2:].sum() * (inside[1] - inside[0]) == pytest.approx(1.0, abs=5e-3)


def test_a_mean_beyond_the_limits_is_an_action_at_the_limit(tiny):
    model = tiny(**networks(clipped_actions=True))
    with th.no_grad():
        model.policy.actor.output.bias.fill_(7.0)
    now = {key: np.ones(2, dtype=np.float32) for key in model.observation_space.spaces}
    many = {key: np.ones((3, 2), dtype=np.float32) for key in model.observation_space.spaces}
    for deterministic in (True, False):
        for observations in (now, many):
            actions, _ = model.predict(observations, deterministic=deterministic)
            assert_allclose(actions, np.broadcast_to(model.action_space.high, actions.shape))


def test_samples_may_be_less_noisy_than_the_data(tiny, tmp_path):
    model = tiny(acting_std=0.1)
    assert (model.policy.log_std == 0.0).all()  # a deviation of 1 is what the actor begins with
    many = {key: np.ones((2000, 2), dtype=np.float32) for key in model.observation_space.spaces}
    means, samples = (model.predict(many, deterministic=d)[0] for d in (True, False))
    scaled = 2.0 * (samples - means) / (model.action_space.high - model.action_space.low)
    assert scaled.std() == pytest.approx(0.1, rel=0.1)
    model.save(tmp_path / "agent")
    assert ProQ.load(tmp_path / "agent", device="cpu").acting_std == 0.1
    silent = ProQ.load(tmp_path / "agent", device="cpu", acting_std=0.0)
    now = {key: value[0] for key, value in many.items()}
    assert_allclose(silent.predict(now)[0], silent.predict(now, deterministic=True)[0])


@pytest.mark.parametrize("acting_std", [-0.1, float("nan"), float("inf")])
def test_impossible_deviations_are_refused(tiny, acting_std):
    with pytest.raises(ValueError, match="acting_std must be a number, 0 or more, or None"):
        tiny(acting_std=acting_std)


def logs(actions: np.ndarray) -> GoalDataset:
    n = len(actions)
    return GoalDataset(np.random.default_rng(0).normal(size=(n, 2)), actions, np.arange(n) % 50 == 49)


@pytest.mark.parametrize(
    ("name", "clipped"), [("noise", True), ("noise in one", True), ("little noise", False), ("a switch", False)]
)
def test_whether_actions_were_clipped_follows_from_the_data(name, clipped, capsys):
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1.0, 1.0, (5000, 2))
    actions[:, 1] += rng.normal(0.0, {"noise": 1.5, "noise in one": 1.5, "little noise": 0.3}.get(name, 0.0), 5000)
    if name == "noise":
        actions[:, 0] *= 2.0
    if name == "a switch":
        actions[:, 1] = np.sign(actions[:, 1])
    data = logs(np.clip(actions, -1.0, 1.0) * [1.0, 30.0] + [0.0, 5.0])
    settings = TINY | {"verbose": 1}
    assert ProQ(dataset=data, **settings).policy.clipped_actions == clipped
    assert ("stand for all beyond" in capsys.readouterr().out) == clipped
    told = settings | {"policy_kwargs": TINY["policy_kwargs"] | {"clipped_actions": not clipped}}
    assert ProQ(dataset=data, **told).policy.clipped_actions != clipped  # who says it knows it
