"""Let an agent act, episode by episode, and say how it did."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wrappers.goal_dict import GoalDict
from zoo.data.tasks import make_task_env
from zoo.figures.canvas import check_suffix
from zoo.figures.learned_map import LearnedMap, has_map
from zoo.figures.maps import Trajectory, draw_trajectories
from zoo.figures.maze_geometry import MazeGeometry
from zoo.figures.video import MapVideo, check_video
from zoo.runs.agents import AgentChoice, load_map

if TYPE_CHECKING:
    from stable_baselines3.common.type_aliases import PolicyPredictor


def enjoy(
    agent: AgentChoice,
    n_episodes: int = 5,
    task: int | None = None,
    seed: int = 0,
    deterministic: bool = False,
    keypoints: str | None = None,
    plot: Path | None = None,
    video: Path | None = None,
    fps: int = 30,
    frame_every: int = 2,
) -> None:
    """
    Play episodes, print how each of them went, and draw them.

    :param agent: who acts, in its environment
    :param n_episodes: task after task
    :param task: only this one
    :param seed: of episodes and samples
    :param deterministic: the mean action instead of a sample
    :param keypoints: whose plan to follow, see :func:`~zoo.runs.agents.load_map`; None for nobody's
    :param plot: picture to write
    :param video: video to write
    :param fps: frames a second
    :param frame_every: steps from one frame to the next
    """
    if agent.env is None:
        raise ValueError("where shall the agent act? give --env ID")
    if plot:
        check_suffix(plot)
    if video:
        check_video(video)
    env = make_task_env(agent.env, task, trust_dataset=agent.trust_dataset)
    try:
        model = agent.load(env)
        model.set_random_seed(seed)
        maze = MazeGeometry.of_env(env)
        guide = None if keypoints is None else load_map(agent.env, keypoints, agent.device)
        actor, drawn = (model, model) if guide is None else (guide.guide(model), guide)
        learned = LearnedMap(drawn) if has_map(drawn) else None
        tasks: Sequence[int | None] = (task,) if task is not None else env.task_ids or (None,)
        episodes = []
        with MapVideo(video, learned, maze, fps) if video else nullcontext() as film:
            for number in range(n_episodes):
                its_task = tasks[number % len(tasks)]
                episodes.append(play(actor, env, its_task, seed + number, deterministic, film, frame_every))
                print(f"episode {number + 1}: {describe(episodes[-1], maze)}", flush=True)
    finally:
        env.close()
    print(summarise(episodes, maze))
    if plot:
        draw_trajectories(drawn, plot, episodes, maze)
    for path in filter(None, (video, plot)):
        print(f"wrote {path}")


def play(
    model: PolicyPredictor,
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
