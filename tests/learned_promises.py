"""
What agents that have learned promise in worlds with chance, what becomes of them, and of agents that ignore chance.

::

    PYTHONPATH=. python tests/learned_promises.py

Prints a row a world, success in percent for sampled / deterministic actions.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import warnings

import numpy as np
import torch as th
from chance_worlds import STEP, is_elsewhere
from test_chance_worlds import CASES, START, Case

from proq_agent import ProQ
from zoo.config import load_hyperparams

N_TRANSITIONS, LIMIT = 60_000, 400
WORLDS = (
    "a rare reset, everywhere",
    "a band that resets, with a detour",
    "a trap, with a detour",
    "a trap, without",
    "ice, some slides",
)


def learned(case: Case, stochastic: str, updates: int) -> ProQ:
    """The settings of the point mazes, in fewer updates: it is a small square."""
    settings, _ = load_hyperparams("pointmaze-medium-navigate-v0")
    model = ProQ(dataset=case.world.walks(N_TRANSITIONS), **settings, stochastic=stochastic, seed=1, device="cpu")
    return model.learn(updates, log_interval=None)


def success(case: Case, model: ProQ, episodes: int, deterministic: bool) -> float:
    """Share of the episodes that reach the goal in time."""
    rng = np.random.default_rng(0)
    positions, goals = (np.tile(np.array(place, dtype=np.float32), (episodes, 1)) for place in (START, case.goal))
    reached, lost, state = np.zeros(episodes, dtype=bool), np.zeros(episodes, dtype=bool), None
    for _ in range(LIMIT):
        seen = {"observation": positions, "achieved_goal": positions, "desired_goal": goals}
        actions, state = model.predict(seen, state, deterministic=deterministic)
        moved = case.world.step(positions, actions, rng)
        reached |= ~lost & (np.linalg.norm(moved - goals, axis=1) < 2 * STEP)
        lost |= is_elsewhere(moved) & ~is_elsewhere(goals)
        over = reached | lost
        positions = np.where(over[:, None], goals, moved).astype(np.float32)  # who is done rests at the goal
        if over.all():
            break
    return float(reached.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", choices=CASES, default=WORLDS, metavar="NAME", help="default: five")
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--episodes", type=int, default=100)
    args = parser.parse_args()
    th.set_num_threads(1)
    print("| world | best | promised | `plan` | `ignore` |\n|---|---|---|---|---|")
    for name in args.worlds:
        case, kept = CASES[name], {}
        for stochastic in ("plan", "ignore"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of shares above one percent
                with contextlib.redirect_stdout(sys.stderr):
                    model = learned(case, stochastic, args.updates)
            if stochastic == "plan":
                promised = model.plan(np.array(START), np.array(case.goal)).probability
            both = (100 * success(case, model, args.episodes, deterministic) for deterministic in (False, True))
            kept[stochastic] = " / ".join(f"{share:.0f}" for share in both)
        shares = f"{100 * case.odds:.0f} | {100 * promised:.0f} | {kept['plan']} | {kept['ignore']}"
        print(f"| {name} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
