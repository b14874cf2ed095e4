"""Find the transitions that chance decided, from the data alone.

A dataset may hold *jumps*: a portal with several exits, a slip that happens now and then, a respawn.
A distance learned from them is a gambler's: it counts the luckiest successor as one reliable step.
:func:`find_unpredictable` marks them in two stages.

1. A jump is a change of state far outside the dataset's ordinary steps. "Far" comes from the data: the upper
   half of the step sizes, continued as an exponential tail, is expected to hold no step of that size.
2. A jump is unpredictable if the most similar transitions, nearest in state and action, contradict it: too many
   of them jump elsewhere, or a local model cannot tell the jumps from the ordinary steps among them. A teleporter
   with a single exit is a jump that its neighbours confirm, and is left alone.

States are measured in ordinary steps a dimension and actions in standard deviations, so units do not matter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import expit

FALSE_JUMPS = 0.01  # ordinary steps expected above the jump threshold, in the whole dataset
MIN_EXCESS = 1.0  # a jump exceeds an ordinary step by at least another one
N_NEIGHBOURS = 8  # most similar transitions that are asked about a jump
N_POOLED = 64  # nearby jumps whose answers are averaged: where a region ends, a single answer is unreliable
MAX_JUDGED = 500  # jumps, drawn at random, that are judged with their surroundings
N_JUDGES = 15  # nearest of these whose majority decides: a verdict in the balance is right more often than not
MAX_ELSEWHERE = 0.02  # of the jumps from a place with a single exit, hardly any leads elsewhere
MIN_FORESIGHT = 0.75  # and whether it jumps can be told in advance
FIT_STEPS = 30  # of the local model
TIE_NOISE = 0.05  # in ordinary steps; shuffles equal states (grids), harmless elsewhere


def find_unpredictable(
    observations: NDArray[np.floating],
    actions: NDArray[np.floating],
    next_observations: NDArray[np.floating],
    *,
    seed: int | np.random.Generator = 0,
) -> NDArray[np.bool_]:
    """
    Mark the transitions whose outcome the state and the action do not determine.

    A change that is small beside the ordinary steps is never marked, however random. A jump with a cause is left
    alone only if the data show the cause: one that depends on details finer than the spacing of the data (a few
    dozen events, a bounce in four dimensions or more) looks like chance.

    :param observations: States before the transition, ``[T, obs_dim]``.
    :param actions: Actions taken there, ``[T, act_dim]``.
    :param next_observations: States after it, ``[T, obs_dim]``; no transition may span two trajectories.
    :param seed: Seed or generator for breaking ties among equal states and for splitting the data.
    :return: ``True`` where the transition is an unpredictable jump, ``[T]``.
    """
    _check(observations, actions, next_observations)
    unpredictable = np.zeros(len(observations), dtype=bool)
    if len(observations) <= N_NEIGHBOURS:
        return unpredictable
    change = next_observations - observations
    step = _ordinary_step(change)
    moving = step > 0
    change = change[:, moving] / step[moving]
    size = np.abs(change).max(axis=1, initial=0.0)
    threshold = _jump_threshold(size)
    jumps = np.flatnonzero(size > threshold)
    if len(jumps) == 0:
        return unpredictable

    rng = np.random.default_rng(seed)
    places = observations[:, moving] / step[moving]
    places = places + rng.normal(scale=TIE_NOISE, size=places.shape)
    spread = actions.std(axis=0)
    situations = np.hstack([places, actions[:, spread > 0] / spread[spread > 0]])
    distance, neighbour = _nearest_others(situations, jumps)
    jumped = size[neighbour] > threshold
    gap = np.abs(change[neighbour] - change[jumps, None]).max(axis=2)
    # A fixed exit or a bounce changes with the state it starts from, by up to twice the distance between the two.
    elsewhere = jumped & (gap > threshold + 2 * distance)

    # One jump's neighbours say little, so the jumps around it are judged together.
    judged = rng.permutation(len(jumps))[:MAX_JUDGED]
    _, pools = cKDTree(places[jumps]).query(places[jumps[judged]], k=np.arange(1, min(N_POOLED, len(jumps)) + 1))
    half = rng.random(len(situations)) < 0.5
    verdict = elsewhere[pools].sum(axis=(1, 2)) > MAX_ELSEWHERE * jumped[pools].sum(axis=(1, 2))
    for i, pool in enumerate(np.asarray(pools)):
        if not verdict[i]:
            verdict[i] = _foresight(situations[neighbour[pool]], jumped[pool], half[neighbour[pool]]) < MIN_FORESIGHT
    _, judges = cKDTree(places[jumps[judged]]).query(places[jumps], k=np.arange(1, min(N_JUDGES, len(judged)) + 1))
    unpredictable[jumps] = verdict[judges].mean(axis=1) > 0.5
    return unpredictable


def _foresight(x: NDArray[np.floating], jumped: NDArray[np.bool_], half: NDArray[np.bool_]) -> float:
    """
    The probability that a local model of "does it jump here?" gives to the jumps that it has not seen.

    A linear logistic regression, because close up the border of a region or a wall is straight; each half of the
    rows is predicted from the other. Jumps by chance get their own frequency, jumps with a cause close to one.
    """
    if jumped.all() or not jumped.any():
        return float(jumped.any())
    x, jumped, half = x.reshape(-1, x.shape[-1]), jumped.ravel(), half.ravel()
    deviation = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    x = np.hstack([x, np.ones((len(x), 1))])
    foreseen = np.empty(len(x))
    for unseen in (half, ~half):
        seen, target, weight = x[~unseen], jumped[~unseen], np.zeros(x.shape[1])
        # p (1 - p) is at most 1/4, which bounds the Hessian: a Newton step with the bound never overshoots.
        inverse = np.linalg.inv(seen.T @ seen / 4 + np.eye(len(weight)))
        for _ in range(FIT_STEPS):
            weight -= inverse @ (seen.T @ (expit(seen @ weight) - target) + weight)
        foreseen[unseen] = expit(x[unseen] @ weight)
    return float(foreseen[jumped].mean())


def _ordinary_step(change: NDArray[np.floating]) -> NDArray[np.floating]:
    """The 90th percentile of the absolute change a dimension, or its mean where most changes are zero."""
    size = np.abs(change)
    step = np.quantile(size, 0.9, axis=0)
    return np.where(step > 0, step, size.mean(axis=0))


def _jump_threshold(size: NDArray[np.floating]) -> float:
    """The size above which an exponential tail through the median and the 90th percentile holds no step."""
    median, large = np.quantile(size, [0.5, 0.9])
    tail = (large - median) / np.log(5) * np.log(0.1 * len(size) / FALSE_JUMPS)
    # Bounded steps (speed limits, grids) have no tail, yet a contact may push a little beyond them.
    return float(large + max(tail, MIN_EXCESS * large))


def _nearest_others(points: NDArray[np.floating], queries: NDArray[np.intp]) -> tuple[NDArray, NDArray]:
    """Distances to and indices of the points nearest to ``points[queries]``, themselves left out."""
    tree = cKDTree(points, balanced_tree=False, compact_nodes=False)
    distance, index = map(np.asarray, tree.query(points[queries], k=N_NEIGHBOURS + 1))
    return distance[:, 1:], index[:, 1:]


def _check(*arrays: NDArray[np.floating]) -> None:
    for name, array in zip(("observations", "actions", "next_observations"), arrays, strict=True):
        if array.ndim != 2 or len(array) != len(arrays[0]):
            raise ValueError(
                f"{name} has shape {array.shape}: pass one row a transition, [{len(arrays[0])}, dim], "
                "flattening images and discrete actions first."
            )
        if not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
            raise ValueError(f"{name}[{row}] is not finite: remove such transitions first.")
    if arrays[0].shape != arrays[2].shape:
        raise ValueError(
            f"observations have {arrays[0].shape[1]} dimensions and next_observations {arrays[2].shape[1]}: "
            "both must be states of the same space."
        )
