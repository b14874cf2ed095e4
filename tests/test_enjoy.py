from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_goal import ENV, TinyGoalEnv, tiny_model

import zoo
from proq_agent.common.files import env_name
from zoo.cli import agent_options
from zoo.enjoy import build_parser, main
from zoo.runs.agents import AgentChoice, check_environment


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs; the second holds every kind of agent file, each trained for another number of updates."""
    root = tmp_path_factory.mktemp("logs")
    model = tiny_model(action_space=TinyGoalEnv.action_space)
    for number, names in ((1, [env_name(ENV)]), (2, ["rl_model_90_steps", "rl_model_100_steps", env_name(ENV)])):
        for name in names:
            model.learn(3, reset_num_timesteps=False, log_interval=None)
            model.save(root / "proq" / f"{env_name(ENV)}_{number}" / f"{name}.zip")
    return root


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_prints_every_episode_and_the_success_rate(logs, capsys):
    assert main(["--env", ENV, "-f", str(logs), "--n-episodes", "4"]) == 0
    *episodes, summary = lines(capsys)
    assert len(episodes) == 4
    reached = sum("reached after" in line for line in episodes)
    assert summary.startswith(f"success {reached}/4")


def test_a_seed_repeats_sampled_episodes(logs, capsys):
    command = ["--env", ENV, "-f", str(logs), "--n-episodes", "6"]
    outputs = []
    for extra in ([], [], ["--seed", "5"]):
        assert main(command + extra) == 0
        outputs.append(lines(capsys))
    assert outputs[0] == outputs[1] != outputs[2]


def test_steps_are_compared_with_the_shortest_possible(tmp_path, capsys):
    from wrappers import make_goal_env

    env = make_goal_env("pointmaze-medium-v0")
    model = tiny_model(observation_space=env.observation_space, action_space=env.action_space)
    model.save(tmp_path / "agent.zip")
    capsys.readouterr()  # what chance decided in its data
    command = [
        "--env",
        "pointmaze-medium-v0",
        "--agent",
        str(tmp_path / "agent.zip"),
        "--task",
        "3",
        "--n-episodes",
        "1",
    ]
    assert main([*command, "--plot", str(tmp_path / "plot.png")]) == 0
    first, *_ = lines(capsys)
    match = re.fullmatch(r"episode 1: task 3, failed after 1000 steps, shortest possible (\d+)", first)
    assert match and 50 <= int(match[1]) <= 100
    assert (tmp_path / "plot.png").is_file()


@pytest.mark.parametrize("suffix", ["mp4", "gif"])
def test_video_has_a_frame_for_every_other_step_and_holds_the_end(logs, tmp_path, suffix, capsys):
    imageio = pytest.importorskip("imageio.v3")
    out = tmp_path / f"video.{suffix}"
    command = ["--env", ENV, "-f", str(logs), "--n-episodes", "2", "--video", str(out), "--fps", "10"]
    assert main(command) == 0
    steps = [int(re.search(r"after (\d+) steps", line)[1]) for line in lines(capsys)[:2]]
    frames = list(imageio.imiter(out))
    if suffix == "mp4":  # where frames are equal, a GIF stores one with a longer duration
        assert len(frames) == sum((n + 1) // 2 + 6 for n in steps)
    assert frames[0].shape[0] % 16 == frames[0].shape[1] % 16 == 0
    assert (frames[0] != frames[-1]).any()
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize("options", [["--load-checkpoint", "90"], ["--load-last-checkpoint"], ["--exp-id", "1"], []])
def test_chooses_the_agent_that_was_asked_for(logs, options):
    args = build_parser().parse_args(["--env", ENV, "--folder", str(logs), *options])
    expected = {"90": 6, "--load-last-checkpoint": 9, "1": 3}.get(options[-1] if options else "", 12)
    assert AgentChoice(**agent_options(args)).load().num_timesteps == expected


SHIPPED = Path(zoo.__file__).parent / "agents" / "proq" / "pointmaze-giant-navigate-v0.zip"


def test_an_agent_of_another_environment_is_refused_where_it_is_known(tmp_path, capsys):
    copy = tmp_path / SHIPPED.name
    copy.write_bytes(SHIPPED.read_bytes())
    for agent in (SHIPPED, copy):
        assert main(["--env", "pointmaze-medium-navigate-v0", "--agent", str(agent)]) == 1
        error = capsys.readouterr().err
        assert "trained on pointmaze-giant-navigate-v0, not on pointmaze-medium-navigate-v0" in error
        assert error.count("\n") == 1
    stray = tmp_path / "stray.zip"
    stray.write_bytes(SHIPPED.read_bytes())
    check_environment(stray, "pointmaze-medium-navigate-v0")  # nobody knows


@pytest.mark.parametrize(
    "env_id",
    [
        "pointmaze-giant-v0",
        "pointmaze-giant-stitch-v0",
        "pointmaze-giant-oraclerep-v0",
        "pointmaze-giant-navigate-singletask-task2-v0",
    ],
)
def test_an_agent_may_act_wherever_the_maze_is_its_own(env_id):
    check_environment(SHIPPED, env_id)


def test_variants_of_robotics_mazes_are_the_same_maze(tmp_path):
    agent = tmp_path / "PointMaze_Large-v3.zip"
    check_environment(agent, "PointMaze_LargeDense-v3")
    check_environment(agent, "PointMaze_Large_Diverse_GRDense-v3")
    with pytest.raises(ValueError, match="PointMaze_Large-v3, not on PointMaze_Medium-v3"):
        check_environment(agent, "PointMaze_Medium-v3")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--env", ENV, "--load-best"], "no best_model.zip"),
        (["--env", ENV, "--load-checkpoint", "7"], "rl_model_90_steps.zip"),
        (["--env", ENV, "--load-checkpoint", "0"], "no rl_model_0_steps.zip"),
        (["--env", ENV, "--exp-id", "9"], "no run 9"),
        (["--env", "pointmaze-medium-v0"], "zoo.train --algo proq --env pointmaze-medium-v0"),
        (["--env", "pointmaze-medum-v0"], "pointmaze-medium-v0"),
        (["--env", ENV, "--video", "out.avi"], ".mp4"),
        (["--env", ENV, "--plot", "out.txt"], ".png"),
        (["--env", ENV, "--n-episodes", "0"], "--n-episodes"),
        (["--env", ENV, "--task", "3"], "task"),
        (["--env", ENV, "--device", "cuda:99"], "cuda:99"),
        (["--env", "pointmaze-medium-v0", "--agent", "{other}"], "space"),
        ([], "--env"),
    ],
)
def test_bad_input_is_one_clear_line(logs, tmp_path, monkeypatch, capsys, options, words):
    monkeypatch.chdir(tmp_path)
    other = logs / "proq" / f"{env_name(ENV)}_1" / f"{env_name(ENV)}.zip"
    if "{other}" in options:
        tiny_model(policy_kwargs={"hidden_sizes": [8], "n_components": 2}, action_space=None).save(tmp_path / "o.zip")
        other = tmp_path / "o.zip"
    assert main([*(option.format(other=other) for option in options), "-f", str(logs)]) == 1
    error = capsys.readouterr().err.strip()
    assert words.lower() in error.lower() and "\n" not in error


@pytest.mark.slow
def test_as_a_process(logs):
    command = [sys.executable, "-m", "zoo.enjoy", "--env", ENV, "-f", str(logs), "--n-episodes", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "success" in done.stdout
