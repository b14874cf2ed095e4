"""What a map is of: too little, and it does not tell what comes next; too much, and no two states are near."""

from __future__ import annotations

import numpy as np
import torch as th

from proq_agent.common.dataset import GoalDataset
from proq_agent.common.row_file import Rows, whole
from proq_agent.proq.time_scale import time_scale, time_scales

MAPS = ("goals", "open goals", "observations", "places")

HORIZON = 20  # steps ahead at most: a hop is longer, what has died away by then does not matter to a plan
N_ROWS = 20_000
N_FEATURES = 256
MAX_SHUFFLED = 1 << 23  # rows whose numbers are held in memory
# Share of where one gets in this time that the actions and the goal leave open, and the whole observation tells.
HIDDEN_LIMIT = 0.25
# A coordinate that nobody asks for is in the way if it takes so many times as long to change as the slowest asked for.
SLOWER = 2.0


def choose_map(dataset: GoalDataset) -> str:
    """
    One of :data:`MAPS`, for a dataset; never that of places: the data do not tell whether a pose is part of the goal.
    Nor is it of observations that show what is set when an episode begins, as the place of another target: states of
    other episodes could not be reached.
    """
    if hidden_share(dataset) > HIDDEN_LIMIT and not shows_its_episode(dataset):
        return "observations"
    return "open goals" if dataset.goal_spec.leaves_open else "goals"


def needed_coordinates(dataset: GoalDataset) -> tuple[int, ...] | None:
    """
    The coordinates that a map is of where goals leave some open: all but those that nobody asks for and that change
    more slowly than what is asked for, as how a cube is turned while it is to be moved. Hardly any two states have
    these in common, so that on a map of them all states are far from each other, for a reason that does not matter.

    :param dataset: its goals say what they ask for
    :return: None for all: there are no others, or they tell what comes next, as the load of a truck
    """
    if not dataset.goal_spec.leaves_open:
        return None
    asked = dataset.goal_spec.asked(dataset.achieved_goals.shape[1])
    times = time_scales(dataset)
    if not np.isfinite(times[asked]).any():
        return None
    kept = asked | (times <= SLOWER * np.nanmax(times[asked]))
    chosen = tuple(np.flatnonzero(kept).tolist())
    if kept.all() or hidden_share(dataset.on_coordinates(chosen)) > HIDDEN_LIMIT:
        return None
    return chosen


def shows_its_episode(dataset: GoalDataset) -> bool:
    """Whether a coordinate of observations never changes in a trajectory, but from one to another."""
    dataset = dataset.in_memory(MAX_SHUFFLED // dataset.observations.shape[1])
    observations, starts = whole(dataset.observations), th.as_tensor(dataset.transition_rows, device=dataset.device)
    stays = (observations[starts] == observations[starts + 1]).all(dim=0)
    return bool((stays & (observations[starts] != observations[starts[0]]).any(dim=0)).any())


def hidden_share(dataset: GoalDataset, seed: int = 0) -> float:
    """
    How much of the way that goals make in some steps depends on what observations show and goals do not. It is that of
    the coordinates that matter to goals.

    These are ``HORIZON`` steps, or those in which half the world is crossed, if that takes less: after several swings
    nobody can tell where a pendulum is, whatever is known of where it was.

    Two regressions with the same actions foretell the displacement in goal space, one from the goal, the other from the
    observation; what the second explains of rows that neither has seen, and the first does not, is hidden. What
    whoever acted had in mind does not count as hidden, since the actions are given.

    :param dataset: with at least some trajectories longer than the horizon; otherwise the horizon is shorter
    :param seed: of the choice of rows and features
    :return: share of the displacement's variance, from 0 to 1
    """
    if dataset.observations is dataset.achieved_goals:
        return 0.0
    rng = np.random.default_rng(seed)
    lengths = np.diff(dataset.trajectory_ends, prepend=-1)
    horizon = int(max(min(HORIZON, round(time_scale(dataset)), np.median(lengths) // 2), 1))
    starts, lasting = dataset.trajectory_ends + 1 - lengths, np.maximum(lengths - horizon, 0)
    chosen = _some_of(int(lasting.sum()), rng)  # of the rows that the horizon fits behind
    if len(chosen) < 100:
        return 0.0
    ends = np.cumsum(lasting)
    rows = chosen + (starts - (ends - lasting))[np.searchsorted(ends, chosen, side="right")]
    observations, goals = (_at(rows, values) for values in (dataset.observations, dataset.achieved_goals))
    moved = (_at(rows + horizon, dataset.achieved_goals) - goals) / dataset.goal_scale.cpu().numpy()
    moved = moved[:, dataset.goal_spec.asked(goals.shape[1])]
    spread = moved.var(axis=0).sum()
    if spread == 0.0:
        return 0.0
    pushed = np.stack([_at(rows + k, dataset.actions) for k in range(horizon)]).cumsum(axis=0)[:: max(horizon // 5, 1)]
    pushed = pushed.transpose(1, 0, 2).reshape(len(rows), -1)
    unexplained = [_residual(np.hstack([seen, pushed]), seen, moved, rng) / spread for seen in (goals, observations)]
    return float(np.clip(unexplained[0] - unexplained[1], 0.0, 1.0))


def _at(rows: np.ndarray, values: Rows) -> np.ndarray:
    return values[th.as_tensor(rows, device=values.device)].cpu().numpy().astype(np.float64)


def _some_of(n: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers below ``n``: all in random order, or ``N_ROWS`` of them."""
    if n <= MAX_SHUFFLED:
        return rng.permutation(n)[:N_ROWS]
    return rng.choice(n, N_ROWS, replace=False, shuffle=True)


def _residual(inputs: np.ndarray, states: np.ndarray, outputs: np.ndarray, rng: np.random.Generator) -> float:
    """Variance of the held-out half that a ridge regression on inputs and random features does not explain."""
    inputs = (inputs - inputs.mean(axis=0)) / np.maximum(inputs.std(axis=0), 1e-9)
    waves = inputs @ rng.normal(0.0, 1.0 / np.sqrt(inputs.shape[1]), (inputs.shape[1], N_FEATURES))
    near = (states - states.mean(axis=0)) / np.maximum(states.std(axis=0), 1e-9)
    near = near @ rng.normal(0.0, 1.5 / np.sqrt(near.shape[1]), (near.shape[1], N_FEATURES))
    phases = rng.uniform(0.0, 2 * np.pi, 2 * N_FEATURES)
    features = np.hstack([np.ones((len(inputs), 1)), inputs, np.cos(np.hstack([waves, near]) + phases)])
    half = len(features) // 2
    known, new = features[:half], features[half:]
    weights = np.linalg.solve(known.T @ known + 1e-3 * half * np.eye(known.shape[1]), known.T @ outputs[:half])
    return float(((outputs[half:] - new @ weights) ** 2).mean(axis=0).sum())
