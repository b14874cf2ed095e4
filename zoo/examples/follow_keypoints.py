"""Somebody else's controller follows ProQ's keypoints to goals that it does not reach alone.

::

    python -m zoo.examples.follow_keypoints --env PointMaze_Large-v3 --controller scripted
    python -m zoo.examples.follow_keypoints --env PointMaze_Large-v3 --controller sac

A map of the maze is learned from a small dataset. The controller knows nothing of walls: ``scripted`` pushes straight
towards its goal, ``sac`` is a Stable-Baselines3 agent that was trained with hindsight on short hops in another, small
maze. Both are then asked for far goals, alone and behind :class:`~wrappers.KeypointGoal`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.cli import print_table, run
from zoo.data.catalogue import ROBOTICS_IDS

if TYPE_CHECKING:
    import gymnasium as gym
    from stable_baselines3.common.type_aliases import PolicyPredictor


def follow_keypoints(args: argparse.Namespace) -> None:
    """Train what is needed and compare the controller alone with the same controller behind the wrapper."""
    from proq_agent.common.evaluation import NO_TASK, evaluate_tasks
    from wrappers import KeypointGoal, make_goal_env
    from zoo.examples.controllers import FarGoals, ScriptedController, train_map, train_sac

    model = train_map(args.env, args.dataset_episodes, args.n_timesteps, args.seed)
    controller: PolicyPredictor = ScriptedController()
    if args.controller == "sac":
        controller = train_sac(args.sac_timesteps, args.seed)

    def far(_: int) -> gym.Env:
        return FarGoals(make_goal_env(args.env), model, args.min_cost)

    def guided(task: int) -> gym.Env:
        return KeypointGoal(far(task), model)

    rows = []
    for name, make_env in (("alone", far), ("with keypoints", guided)):
        result = evaluate_tasks(controller, make_env, [NO_TASK], args.episodes, deterministic=True, seed=args.seed)
        rows.append((f"{args.controller} {name}", f"{100 * result.success_rate:.0f} %"))
    print_table(f"{args.env}, {args.episodes} goals at a cost of {args.min_cost:g} or more", ("", "reached"), rows)


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m zoo.examples.follow_keypoints", description=__doc__.split("\n")[0])
    parser.add_argument("--env", choices=ROBOTICS_IDS, default="PointMaze_Large-v3", help="default: %(default)s")
    parser.add_argument("--controller", choices=("scripted", "sac"), default="scripted", help="default: %(default)s")
    parser.add_argument("-n", "--n-timesteps", type=int, default=4000, metavar="N", help="updates of the map")
    parser.add_argument("--sac-timesteps", type=int, default=8000, metavar="N", help="steps of SAC in the small maze")
    parser.add_argument("--dataset-episodes", type=int, default=200, metavar="N", help="trajectories of 500 steps")
    parser.add_argument("--episodes", type=int, default=50, metavar="N", help="goals to try (default: %(default)s)")
    parser.add_argument(
        "--min-cost", type=float, default=400.0, metavar="COST", help="of the plan; a goal nearer is not far"
    )
    parser.add_argument("--seed", type=int, default=0, help="of everything (default: %(default)s)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    return run(build_parser(), follow_keypoints, argv)


if __name__ == "__main__":
    raise SystemExit(main())
