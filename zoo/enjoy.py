"""
Watch a trained agent: successes, steps against the shortest possible, a video, a picture::

    python -m zoo.enjoy --env pointmaze-giant-stitch-v0 --video giant.mp4 --plot giant.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from proq_agent import ProQ
from wrappers import GoalDict
from zoo.cli import add_common_arguments, run
from zoo.data.tasks import make_task_env
from zoo.figures.canvas import check_suffix
from zoo.figures.learned_map import LearnedMap
from zoo.figures.maps import Trajectory, draw_trajectories
from zoo.figures.maze_geometry import MazeGeometry
from zoo.figures.video import MapVideo, check_video
from zoo.runs.agents import add_agent_arguments, load_agent


def play(
    model: ProQ,
    env: GoalDict,
    task: int | None,
    seed: int,
    deterministic: bool = False,
    video: MapVideo | None = None,
    frame_every: int = 1,
) -> Trajectory:
    """
    Play one episode; it ends at success.

    :param model: the agent
    :param env: where it acts
    :param task: its number; None where there are none
    :param seed: of the episode
    :param deterministic: the mean action instead of a sample
    :param video: gets the frames
    :param frame_every: steps from one frame to the next
    """
    name = "random goal" if task is None else f"task {task}"
    observation, info = env.reset(seed=seed, options=None if task is None else {"task_id": task})
    points = [observation["achieved_goal"]]
    state, success, done = None, False, False
    if video:
        video.start_episode()
    while not done:
        if video and (len(points) - 1) % frame_every == 0:
            video.add_frame(points[-1], observation["desired_goal"], f"{name}, step {len(points) - 1}")
        action, state = model.predict(observation, state, deterministic=deterministic)
        observation, _, terminated, truncated, info = env.step(action)
        points.append(observation["achieved_goal"])
        success = info["is_success"]
        done = success or terminated or truncated
    if video:
        end = "reached" if success else "failed"
        text = f"{name}, {end} after {len(points) - 1} steps"
        video.add_frame(points[-1], observation["desired_goal"], text, repeat=video.fps // 2 + 1)
    return Trajectory(np.array(points), observation["desired_goal"], success, name)


def enjoy(args: argparse.Namespace) -> None:
    """Do what the command line asks for."""
    if args.env is None:
        raise ValueError("where shall the agent act? give --env ID")
    for name in ("n_episodes", "frame_every", "fps"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(args, name)}")
    if args.plot:
        check_suffix(args.plot)
    if args.video:
        check_video(args.video)
    env = make_task_env(args.env, args.task)
    try:
        model = load_agent(args, env)
        model.set_random_seed(args.seed)
        maze = MazeGeometry.of_env(env)
        tasks: Sequence[int | None] = (args.task,) if args.task is not None else env.task_ids or (None,)
        episodes = []
        with MapVideo(args.video, LearnedMap(model), maze, args.fps) if args.video else nullcontext() as video:
            for number in range(args.n_episodes):
                task = tasks[number % len(tasks)]
                episodes.append(play(model, env, task, args.seed + number, args.deterministic, video, args.frame_every))
                print(f"episode {number + 1}: {describe(episodes[-1], maze)}", flush=True)
    finally:
        env.close()
    print(summarise(episodes, maze))
    if args.plot:
        draw_trajectories(model, args.plot, episodes, maze)
    for path in filter(None, (args.video, args.plot)):
        print(f"wrote {path}")


def describe(episode: Trajectory, maze: MazeGeometry | None) -> str:
    """One line on one episode."""
    steps = len(episode.points) - 1
    shortest = shortest_steps(episode, maze)
    known = "" if shortest is None else f", shortest possible {shortest:.0f}"
    ratio = f" ({steps / shortest:.2f} times that)" if shortest and episode.success else ""
    return f"{episode.label}, {'reached' if episode.success else 'failed'} after {steps} steps{known}{ratio}"


def summarise(episodes: Sequence[Trajectory], maze: MazeGeometry | None) -> str:
    """One line on all of them."""
    reached = [episode for episode in episodes if episode.success]
    line = f"success {len(reached)}/{len(episodes)} ({len(reached) / len(episodes):.0%})"
    if not reached:
        return line
    steps = np.array([len(episode.points) - 1 for episode in reached])
    line += f", {steps.mean():.0f} steps on average when reached"
    shortest = [shortest_steps(episode, maze) for episode in reached]
    if None not in shortest:
        line += f", {np.mean(steps / np.array(shortest)):.2f} times the shortest possible"
    return line


def shortest_steps(episode: Trajectory, maze: MazeGeometry | None) -> float | None:
    """Steps of the best possible agent, where they are known."""
    return maze.shortest_steps(episode.points[0][:2], episode.goal[:2]) if maze else None


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zoo.enjoy",
        description="Let a trained agent act; print how it did, and write a video or a picture of it.",
    )
    add_agent_arguments(parser)
    add_common_arguments(parser)
    group = parser.add_argument_group("episodes")
    group.add_argument("--n-episodes", type=int, default=5, metavar="N", help="task after task (default: %(default)s)")
    group.add_argument("--task", type=int, metavar="K", help="only this task of the environment")
    acting = group.add_mutually_exclusive_group()
    acting.add_argument("--deterministic", action="store_true", help="act by the mean of the actor's distribution")
    acting.add_argument("--stochastic", action="store_true", help="sample from it, as predict does (the default)")
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of episodes and samples (default: %(default)s)"
    )
    group = parser.add_argument_group("output")
    group.add_argument(
        "--plot", type=Path, metavar="FILE", help="all trajectories over the map: .png, .pdf, .svg, .jpg"
    )
    group.add_argument("--video", type=Path, metavar="FILE", help="agent, goal, keypoint and plan: .mp4 or .gif")
    group.add_argument("--fps", type=int, default=30, metavar="N", help="frames a second (default: %(default)s)")
    group.add_argument(
        "--frame-every", type=int, default=2, metavar="N", help="steps from frame to frame (default: %(default)s)"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    return run(build_parser(), enjoy, argv)


if __name__ == "__main__":
    sys.exit(main())
