"""The walker behind AntMaze data: how it is measured, trained and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch as th

from zoo.data import expert_training
from zoo.data.ant import DIRECTION, LAYERS, Walker, motor_actions
from zoo.data.expert_training import WalkerTraining, quarter_turns
from zoo.data.flat_floor import FlatFloor, measure
from zoo.expert import main

VELOCITY = slice(4, 7)  # among the features


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expert_training, "RANDOM_STEPS", 400)
    monkeypatch.setattr(expert_training, "REPLAY_STEPS", 1000)
    monkeypatch.setattr("zoo.data.expert_training.SAVE_INTERVAL", 2)
    monkeypatch.setattr("zoo.data.expert_training.MEASURED_STEPS", 20)


class Lazy(Walker):
    """Lets its legs hang."""

    def act(self, qpos: np.ndarray, qvel: np.ndarray, direction: np.ndarray) -> np.ndarray:
        return np.zeros(8)


def test_the_shipped_walker_is_fast_and_hardly_ever_falls() -> None:
    speed, falls = measure(Walker.load(), 3000)
    assert speed > 0.18
    assert falls <= 1


def test_a_walker_that_does_nothing_gets_nowhere() -> None:
    speed, falls = measure(Lazy(Walker.load().weights), 300, noise=0.0)
    assert abs(speed) < 0.01 and falls == 0


def test_ants_move_as_in_the_environment_and_fallen_ones_start_anew() -> None:
    env: Any = gymnasium.make("online-ant-v0").unwrapped
    env.reset(seed=0)
    floor = FlatFloor(3, np.random.default_rng(0))
    env.set_state(floor.qpos[1].copy(), floor.qvel[1].copy())
    rng = np.random.default_rng(1)
    for _ in range(20):
        actions = rng.uniform(-1, 1, size=(3, 8))
        _, fallen = floor.step(actions)
        observation = env.step(actions[1])[0]
        np.testing.assert_allclose(np.concatenate((floor.qpos[1, 2:], floor.qvel[1])), observation, atol=1e-6)
        assert not fallen.any()
    before, directions = floor.qpos.copy(), floor.directions.copy()
    floor.renew(np.array([False, True, False]))
    assert np.abs(floor.qpos[1] - before[1]).max() > 0.1 and (floor.directions[1] != directions[1]).all()
    np.testing.assert_array_equal(floor.qpos[[0, 2]], before[[0, 2]])
    np.testing.assert_array_equal(floor.directions[[0, 2]], directions[[0, 2]])


def test_an_ant_on_its_back_has_fallen_and_directions_change_every_hundred_steps() -> None:
    floor = FlatFloor(2, np.random.default_rng(0))
    floor._datas[0].qpos[3:7] = 0.0, 1.0, 0.0, 0.0
    _, fallen = floor.step(np.zeros((2, 8)))
    assert fallen.tolist() == [True, False]
    first = floor.directions.copy()
    for _ in range(98):
        floor.renew(np.zeros(2, dtype=bool))
        floor.step(np.zeros((2, 8)))
    np.testing.assert_array_equal(floor.directions, first)
    floor.step(np.zeros((2, 8)))
    floor.renew(np.zeros(2, dtype=bool))
    assert (floor.directions != first).all()


def test_batches_show_the_direction_in_front_and_reward_the_way_along_it() -> None:
    training = WalkerTraining(100)
    training.advance()
    features, _, rewards, next_features, _ = training._batch()
    speeds = []
    for rows in (features, next_features):
        x, y, _ = rows[:, DIRECTION].T
        assert (x >= y.abs() - 1e-6).all() and (quarter_turns(rows) == 0).all()
        assert 0.3 < (y > 0).float().mean() < 0.7  # mirrored or not
        np.testing.assert_allclose(rows[:, DIRECTION].norm(dim=-1), 1.0, atol=1e-5)
        speeds.append((rows[:, VELOCITY] * rows[:, DIRECTION]).sum(dim=-1))
    assert np.corrcoef(rewards, sum(speeds))[0, 1] > 0.7  # from start to end of the step: nearly the way


def test_the_walker_of_a_training_is_the_mean_of_its_actor() -> None:
    training = WalkerTraining(100)
    for _ in range(4):
        training.advance()
    floor, walker = training.floor, training.walker()
    with th.no_grad():
        training.actor.log_std.weight.zero_()
        training.actor.log_std.bias.fill_(-100.0)  # leaves noise of e^-5
        expected = np.stack(
            [walker.act(*state) for state in zip(floor.qpos, floor.qvel, floor.directions, strict=True)]
        )
        training._walk()
    added = training.replay.added
    rows = np.arange(added - 8, added) % training.replay.capacity
    actions = motor_actions(training.replay._columns["actions"][rows].numpy())
    np.testing.assert_allclose(actions, expected, atol=0.05)


def test_the_command_trains_saves_resumes_and_measures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "ant.npz"
    assert main(["--env", "ant", "--out", str(out), "--updates", "4"]) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["2 updates", "4 updates"]
    first = Walker.load(out).weights
    assert main(["--env", "ant", "--out", str(out), "--updates", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("ant.pt: resumed after 4 updates") and lines[1].startswith("5 updates: ")
    assert set(first) == {f"{layer}.{part}" for layer in LAYERS for part in ("weight", "bias")}
    assert main(["--env", "ant", "--measure", "--out", str(out)]) == 0
    assert "units a step under action noise 0.2" in capsys.readouterr().out


def test_a_resumed_training_has_what_was_learned() -> None:
    training, resumed = WalkerTraining(100), WalkerTraining(100, seed=1)
    for _ in range(3):
        training.advance()
    resumed.load_state_dict(training.state_dict())
    assert resumed.updates == 3
    for key, weights in training.walker().weights.items():
        np.testing.assert_array_equal(resumed.walker().weights[key], weights)
    ours, theirs = (t.state_dict()["optimizers"][0]["state"][0]["exp_avg"] for t in (training, resumed))
    assert th.equal(ours, theirs)
    resumed.advance()
    assert resumed.updates == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [([], "--out"), (["--out", "ant.zip"], "ends in .npz"), (["--out", "a.npz", "--updates", "0"], "at least 1")],
)
def test_bad_arguments_are_one_line(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["--env", "ant", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
