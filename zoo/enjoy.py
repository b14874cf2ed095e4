"""
Watch a trained agent: successes, steps against the shortest possible, a video, a picture::

    python -m zoo.enjoy --env pointmaze-giant-stitch-v0 --video giant.mp4 --plot giant.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.cli import (
    ENVIRONMENT_HABITS,
    add_agent_arguments,
    add_common_arguments,
    add_keypoints_argument,
    agent_options,
    check_counts,
    run,
)

EPISODES = "episodes are counted here, not steps; type: --n-episodes N"
HABITS = {"-n": EPISODES, "--n-timesteps": EPISODES, **ENVIRONMENT_HABITS}


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
    add_keypoints_argument(group)
    acting = group.add_mutually_exclusive_group()
    acting.add_argument("--deterministic", action="store_true", help="act by the mean of the actor's distribution")
    acting.add_argument("--stochastic", action="store_true", help="sample from it, as predict does (the default)")
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of episodes and samples (default: %(default)s)"
    )
    group = parser.add_argument_group("output")
    group.add_argument("--plot", type=Path, metavar="FILE", help="all trajectories: .png, .pdf, .svg, .jpg")
    group.add_argument("--video", type=Path, metavar="FILE", help="agent, goal and its plan, if any: .mp4 or .gif")
    group.add_argument("--fps", type=int, default=30, metavar="N", help="frames a second (default: %(default)s)")
    group.add_argument(
        "--frame-every", type=int, default=2, metavar="N", help="steps from frame to frame (default: %(default)s)"
    )
    # RL Zoo's, for what happens here anyway: no window, no download, a line an episode.
    for option in (("--no-render",), ("--no-hub",), ("-P", "--progress")):
        parser.add_argument(*option, action="store_true", help=argparse.SUPPRESS)
    return parser


def enjoy(args: argparse.Namespace) -> None:
    """Do what the command line asks for."""
    from zoo.runs import episodes
    from zoo.runs.agents import AgentChoice

    check_counts(n_episodes=args.n_episodes, frame_every=args.frame_every, fps=args.fps)
    episodes.enjoy(
        AgentChoice(**agent_options(args)),
        n_episodes=args.n_episodes,
        task=args.task,
        seed=args.seed,
        deterministic=args.deterministic,
        keypoints=args.keypoints,
        plot=args.plot,
        video=args.video,
        fps=args.fps,
        frame_every=args.frame_every,
    )


def main(argv: Sequence[str] | None = None) -> int:
    return run(build_parser(), enjoy, argv, HABITS)


if __name__ == "__main__":
    sys.exit(main())
