"""Our callbacks, and SB3's, around ProQ."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EveryNTimesteps,
    LogEveryNTimesteps,
    ProgressBarCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnNoModelImprovement,
    StopTrainingOnRewardThreshold,
)
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv
from tiny_goal import TinyGoalEnv, tiny_model

from proq_agent import ProQ
from proq_agent.common.callbacks import ProgressBar, StopOnSignal, TaskEvalCallback


class CountCalls(BaseCallback):
    def _on_step(self) -> bool:
        return True


def test_evaluations_are_logged_and_written(tmp_path: Path) -> None:
    model = tiny_model()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    after = CountCalls()
    evaluation = TaskEvalCallback(
        TinyGoalEnv, (1, 2), 4, n_eval_episodes=3, log_path=tmp_path, best_model_save_path=tmp_path,
        callback_after_eval=after,
    )  # fmt: skip
    model.learn(10, callback=evaluation)
    with np.load(tmp_path / "evaluations.npz") as file:
        arrays = dict(file)
    assert arrays["timesteps"].tolist() == [4, 8]
    assert arrays["tasks"].tolist() == [1, 2]
    for suffix in ("", "_deterministic"):
        for name in ("results", "ep_lengths", "successes"):
            assert arrays[name + suffix].shape == (2, 6)
    rates = (arrays["successes"].mean(axis=1) + arrays["successes_deterministic"].mean(axis=1)) / 2
    assert evaluation.best_mean_reward == rates.max()
    assert after.n_calls == 2
    # The best agent is the one that was evaluated then.
    best = np.flatnonzero(rates == rates.max())[-1]
    assert ProQ.load(tmp_path / "best_model.zip").num_timesteps == arrays["timesteps"][best]
    header = (tmp_path / "progress.csv").read_text().splitlines()[0]
    for name in ("success_rate", "success_rate_deterministic", "task_1", "task_2_deterministic"):
        assert f"eval/{name}" in header.split(",")
    assert {path.name for path in tmp_path.iterdir()} == {"evaluations.npz", "best_model.zip", "progress.csv"}


def test_of_equally_good_agents_the_latest_is_kept(tmp_path: Path) -> None:
    always = lambda task: TinyGoalEnv(task, reach=10.0)  # noqa: E731
    tiny_model().learn(7, callback=TaskEvalCallback(always, (1,), 3, 1, best_model_save_path=tmp_path))
    assert ProQ.load(tmp_path / "best_model.zip").num_timesteps == 6


def test_evaluating_does_not_change_what_is_learned() -> None:
    plain, evaluated = tiny_model(), tiny_model()
    plain.learn(8)
    evaluated.learn(8, callback=TaskEvalCallback(TinyGoalEnv, (1,), 2, n_eval_episodes=2))
    for a, b in zip(plain.policy.parameters(), evaluated.policy.parameters(), strict=True):
        assert th.equal(a, b)


def test_evaluations_wait_for_their_start(tmp_path):
    callback = TaskEvalCallback(TinyGoalEnv, (1,), 2, n_eval_episodes=1, eval_start=4, log_path=tmp_path)
    tiny_model().learn(8, callback=callback)
    with np.load(tmp_path / "evaluations.npz") as file:
        assert file["timesteps"].tolist() == [6, 8]


def test_training_stops_at_a_success_threshold() -> None:
    stop = StopTrainingOnRewardThreshold(reward_threshold=0.9)
    always = lambda task: TinyGoalEnv(task, reach=10.0)  # noqa: E731
    model = tiny_model().learn(50, callback=TaskEvalCallback(always, (1,), 3, callback_on_new_best=stop))
    assert model.num_timesteps == 3


def test_training_stops_without_improvement() -> None:
    stop = StopTrainingOnNoModelImprovement(max_no_improvement_evals=1)
    never = lambda task: TinyGoalEnv(task, reach=0.0)  # noqa: E731
    model = tiny_model().learn(50, callback=TaskEvalCallback(never, (1,), 2, callback_after_eval=stop))
    assert model.num_timesteps == 6


def test_eval_freq_must_be_positive() -> None:
    with pytest.raises(ValueError, match="eval_freq"):
        TaskEvalCallback(TinyGoalEnv, (1,), 0)


def test_progress_bar_shows_updates_loss_and_success(capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny_model()
    always = lambda task: TinyGoalEnv(task, reach=10.0)  # noqa: E731
    bar = ProgressBar()
    model.learn(6, callback=[TaskEvalCallback(always, (1,), 2), bar], log_interval=2)
    assert (bar.bar.n, bar.bar.total) == (6, 6)
    shown = capsys.readouterr().err
    assert "6/6" in shown and "success=100%" in shown and "det.=100%" in shown and "loss=" in shown
    assert len(model.logger.output_formats) == 0

    model.learn(4, callback=bar, reset_num_timesteps=False)
    assert (bar.bar.initial, bar.bar.n, bar.bar.total) == (6, 10, 10)


def test_progress_bar_shows_the_losses_of_what_is_learned_now(capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny_model(map_fraction=0.5, actor_fraction=0.5)
    bar = ProgressBar()
    model.learn(8, callback=[TaskEvalCallback(TinyGoalEnv, (1,), 8, 1), bar], log_interval=2)
    shown = bar.bar.postfix
    assert "actor_loss=" in shown and "success=" in shown
    assert " loss=" not in f" {shown}"


class Signal(BaseCallback):
    """Send ourselves a signal after the third update."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def _on_step(self) -> bool:
        if self.num_timesteps == 3:
            os.kill(os.getpid(), self.number)
        return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_training_between_two_updates(number: int) -> None:
    before = signal.getsignal(number)
    stop = StopOnSignal()
    model = tiny_model()
    with stop.listening():
        model.learn(20, callback=[Signal(number), stop])
    assert stop.requested and stop.number == number
    assert model.num_timesteps == model._n_updates == 3
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_interrupts_at_once(number: int) -> None:
    stop = StopOnSignal()
    with stop.listening(), pytest.raises(KeyboardInterrupt) as caught:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), number)
    assert caught.value.number == number  # type: ignore[attr-defined]


def test_sb3_callbacks_work_without_an_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = CountCalls()
    callbacks: list[Any] = [
        CheckpointCallback(4, str(tmp_path)),
        EveryNTimesteps(3, every),
        LogEveryNTimesteps(5),
        lambda locals_, _: locals_["self"].num_timesteps < 10,
    ]
    converted = [CallbackList(callbacks[:3])]
    model = tiny_model(verbose=1)
    model.learn(10, callback=converted, log_interval=None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rl_model_4_steps.zip", "rl_model_8_steps.zip"]
    assert ProQ.load(tmp_path / "rl_model_8_steps").num_timesteps == 8
    assert every.n_calls == 3
    assert capsys.readouterr().out.count("total_timesteps") == 2
    assert tiny_model().learn(20, callback=callbacks[3]).num_timesteps == 10


def test_sb3_eval_callback_works_with_an_environment(tmp_path: Path) -> None:
    env = Monitor(TinyGoalEnv(reach=10.0))
    stop = StopTrainingOnRewardThreshold(reward_threshold=0.5)
    callback = EvalCallback(
        env, stop, n_eval_episodes=2, eval_freq=4, log_path=str(tmp_path), best_model_save_path=str(tmp_path), verbose=0
    )
    model = tiny_model(env=Monitor(TinyGoalEnv()))
    model.learn(20, callback=callback)
    assert model.num_timesteps == 4
    assert {path.name for path in tmp_path.iterdir()} == {"evaluations.npz", "best_model.zip"}


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("has_env", [False, True])
def test_sb3_progress_bar_counts_updates(nested: bool, has_env: bool, capsys: pytest.CaptureFixture[str]) -> None:
    env = DummyVecEnv([TinyGoalEnv] * 3) if has_env else None
    bar = CallbackList([ProgressBarCallback()]) if nested else ProgressBarCallback()
    tiny_model(env=env).learn(5, callback=bar)
    assert "5/5" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("callback", "remedy"),
    [
        (lambda: EvalCallback(TinyGoalEnv()), r"pass env=\.\.\."),
        (lambda: StopTrainingOnMaxEpisodes(3), r"give learn\(\) the number of updates"),
    ],
)
def test_callbacks_that_need_an_environment_say_so(callback: Any, remedy: str) -> None:
    for given in (callback(), [callback()], CallbackList([EveryNTimesteps(2, callback())])):
        model = tiny_model()
        with pytest.raises(ValueError, match=remedy):
            model.learn(5, callback=given)
        assert model.num_timesteps == 0


def test_a_lost_process_is_told_of_before_torchrun_ends_this_one() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(ChildProcessError), StopOnSignal().listening():
            raise ChildProcessError
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
