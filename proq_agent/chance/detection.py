"""Find the transitions that chance decided, from the data alone.

A dataset may hold jumps (see :mod:`proq_agent.chance.jumps`): a portal with several exits, a slip that happens now and
then, a respawn. A distance learned from them is too optimistic: it counts the luckiest successor as one reliable step.

A jump is unpredictable if the most similar transitions, nearest in state and action, contradict it: too many of them
jump elsewhere, or no model can tell the jumps from the ordinary steps among them. Two models try, and one that succeeds
is enough: a local one, as close up the border of a region or a wall is straight; and one of all jumps in the same
direction, for causes like a wall that the ball bounces off, whose few neighbours in many dimensions are far apart. A
teleporter with a single exit is a jump that its neighbours confirm, and is left alone.

States are measured in ordinary steps a dimension and actions in standard deviations, so units do not matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import expit

from proq_agent.chance.jumps import Jumps, ordinary_step, periods, successive, unwrapped_change

N_NEIGHBOURS = 8  # most similar transitions that are asked about a jump
N_POOLED = 256  # nearby jumps whose answers are averaged: a single answer is unreliable, above all where a region ends
N_LOCAL = 64  # of these jumps, with their neighbours, a local model is fitted to
MAX_JUDGED = 300  # jumps, drawn at random, that are judged with their surroundings
N_JUDGES = 15  # nearest of these whose majority decides: a verdict in the balance is right more often than not
MAX_ELSEWHERE = 0.02  # of the jumps from a place with a single exit, hardly any leads elsewhere
MIN_FORESIGHT = 0.75  # and whether it jumps can be told in advance
MAX_FITTED = 10_000  # transitions that a model is fitted to
FIT_STEPS = 20  # of Newton's method, at most
PRIOR = 0.01  # precision of the weights; sharp borders need large ones
ODD = 0.05  # share of the jumps that a model may take for exceptions
TIE_NOISE = 0.05  # in ordinary steps; shuffles equal states (grids), harmless elsewhere


class Places(NamedTuple):
    """States in ordinary steps; where a coordinate wraps, on a circle."""

    wraps: NDArray[np.floating]
    steps: NDArray[np.floating]

    @classmethod
    def of(cls, observations: NDArray[np.floating], next_observations: NDArray[np.floating]) -> Places:
        """Measure as these transitions ask for."""
        wraps = periods(observations, next_observations)
        change = unwrapped_change(observations, next_observations, wraps)
        return cls(wraps, ordinary_step(change, successive(observations, next_observations)))

    def __call__(self, observations: NDArray[np.floating]) -> NDArray[np.floating]:
        straight, round_ = (self.steps > 0) & np.isinf(self.wraps), (self.steps > 0) & np.isfinite(self.wraps)
        radius = self.wraps[round_] / (2 * np.pi)
        angle = observations[:, round_] / radius
        radius = radius / self.steps[round_]
        points = observations[:, straight] / self.steps[straight]
        return np.hstack([points, radius * np.cos(angle), radius * np.sin(angle)])


def find_unpredictable(
    observations: NDArray[np.floating],
    actions: NDArray[np.floating],
    next_observations: NDArray[np.floating],
    jumps: Jumps,
    *,
    seed: int | np.random.Generator = 0,
) -> NDArray[np.bool_]:
    """
    Mark the jumps whose outcome the state and the action do not determine.

    A change that is small beside the ordinary steps is never marked, however random. A jump with a cause is left
    alone only if the data show the cause: one that depends on details finer than the spacing of the data looks like
    chance.

    :param observations: States before the transitions, ``[T, obs_dim]``.
    :param actions: Actions taken there, ``[T, act_dim]``.
    :param next_observations: States after them, ``[T, obs_dim]``.
    :param jumps: The same transitions in goal space.
    :param seed: Seed or generator for breaking ties among equal states and for splitting the data.
    :return: ``True`` where the transition is an unpredictable jump, ``[T]``.
    """
    _check(observations, actions, next_observations, jumps.change)
    unpredictable = np.zeros(len(observations), dtype=bool)
    if len(jumps.rows):
        judges, points = find_judges(observations, actions, next_observations, jumps, seed=seed)
        unpredictable[jumps.rows] = judges.decide(points)
    return unpredictable


class Judges(NamedTuple):
    """Jumps that are known to be unpredictable or not, and decide about others by a majority of the nearest."""

    places: Places  #: what states are measured in
    points: NDArray[np.floating]  #: where the jumps begin
    verdicts: NDArray[np.bool_]  #: whether each is unpredictable

    def decide(self, points: NDArray[np.floating]) -> NDArray[np.bool_]:
        """
        :param points: Where other jumps begin, as :attr:`places` measures it.
        :return: Whether they are unpredictable.
        """
        _, nearest = cKDTree(self.points).query(points, k=np.arange(1, min(N_JUDGES, len(self.points)) + 1))
        return self.verdicts[nearest].mean(axis=1) > 0.5


def find_judges(
    observations: NDArray[np.floating],
    actions: NDArray[np.floating],
    next_observations: NDArray[np.floating],
    jumps: Jumps,
    *,
    seed: int | np.random.Generator = 0,
) -> tuple[Judges, NDArray[np.floating]]:
    """
    Judge some of the jumps, of which there is one at least; see :func:`find_unpredictable`.

    :return: These, and where every jump begins, as they measure it.
    """
    rows = jumps.rows
    measure = Places.of(observations, next_observations)
    places = measure(observations)
    rng = np.random.default_rng(seed)
    places = places + rng.normal(scale=TIE_NOISE, size=places.shape)
    spread = actions.std(axis=0)
    situations = np.hstack([places, actions[:, spread > 0] / spread[spread > 0]])
    distance, neighbour = _nearest_others(situations, rows)
    half = rng.random(len(situations)) < 0.5

    is_jump = np.zeros(len(situations), dtype=bool)
    is_jump[rows] = True
    jumped = is_jump[neighbour]
    foreseen = _foreseen_directions(situations, jumps, neighbour, half)
    gap = np.abs(jumps.change[neighbour] - jumps.change[rows, None]).max(axis=2)
    # A fixed exit or a bounce changes with the state it starts from, by up to twice the distance between the two.
    elsewhere = jumped & (gap > jumps.threshold + 2 * distance)
    # Where several walls meet, each bounce has its own cause.
    elsewhere &= np.minimum(foreseen[neighbour], foreseen[rows, None]) < 0.5

    # One jump's neighbours say little, so the jumps around it are judged together.
    judged = rng.permutation(len(rows))[:MAX_JUDGED]
    _, pools = cKDTree(places[rows]).query(places[rows[judged]], k=np.arange(1, min(N_POOLED, len(rows)) + 1))
    tolerated = MAX_ELSEWHERE * jumped[pools].sum(axis=(1, 2))
    verdict = elsewhere[pools].sum(axis=(1, 2)) > tolerated + 4 * np.sqrt(tolerated)
    for i, pool in enumerate(np.asarray(pools)):
        if not verdict[i] and foreseen[rows[pool]].mean() < MIN_FORESIGHT:
            around, jump = neighbour[pool[:N_LOCAL]].ravel(), jumped[pool[:N_LOCAL]].ravel()
            likely = _cross_fitted(situations[around], jump, half[around])
            verdict[i] = not jump.any() or likely[jump].mean() < MIN_FORESIGHT
    return Judges(measure, places[rows[judged]], verdict), places[rows]


def _foreseen_directions(
    situations: NDArray[np.floating], jumps: Jumps, neighbour: NDArray[np.integer], half: NDArray[np.bool_]
) -> NDArray[np.floating]:
    """``[T]`` the probability of its own jump that a model of all jumps in that direction gives to each one."""
    foreseen = np.ones(len(situations))
    for sign in (-1, 1):
        for change in sign * jumps.change.T:
            jumped = change > jumps.threshold
            these = jumped[jumps.rows]
            if these.any():
                around = np.unique(np.concatenate([jumps.rows[these], neighbour[these].ravel()]))
                around = around[:: len(around) // MAX_FITTED + 1]
                likely = _cross_fitted(situations[around], jumped[around], half[around])
                own = np.full(len(situations), likely[jumped[around]].mean() if jumped[around].any() else 0.0)
                own[around] = likely
                foreseen[jumped] = np.minimum(foreseen, own)[jumped]
    return foreseen


def _cross_fitted(x: NDArray[np.floating], jumped: NDArray[np.bool_], half: NDArray[np.bool_]) -> NDArray[np.floating]:
    """
    The probability of a jump that a linear logistic regression gives to each row, fitted to the other half of the rows.

    Jumps by chance get their own frequency, jumps with a cause close to one. The fit is repeated without the jumps that
    it explains worst: a few with another cause would spoil it for all.
    """
    deviation = x.std(axis=0)
    x = (x - x.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    x = np.hstack([x, np.ones((len(x), 1))])
    likely = np.empty(len(x))
    for unseen in (half, ~half):
        seen, target = x[~unseen], jumped[~unseen]
        weight = _logistic(seen, target)
        if target.any():
            score = seen @ weight
            kept = ~target | (score >= np.quantile(score[target], ODD))
            weight = _logistic(seen[kept], target[kept])
        likely[unseen] = expit(x[unseen] @ weight)
    return likely


def _logistic(x: NDArray[np.floating], target: NDArray[np.bool_]) -> NDArray[np.floating]:
    """Weights of a logistic regression with a weak prior, by Newton's method."""
    weight = np.zeros(x.shape[1])
    for _ in range(FIT_STEPS):
        likely = expit(x @ weight)
        hessian = (x * (likely * (1 - likely))[:, None]).T @ x + PRIOR * np.eye(len(weight))
        step = np.linalg.solve(hessian, x.T @ (likely - target) + PRIOR * weight)
        weight -= step
        if np.abs(step).max() < 0.01:
            break
    return weight


def _nearest_others(points: NDArray[np.floating], queries: NDArray[np.intp]) -> tuple[NDArray, NDArray]:
    """Distances to and indices of the points nearest to ``points[queries]``, themselves left out."""
    tree = cKDTree(points, balanced_tree=False, compact_nodes=False)
    distance, index = map(np.asarray, tree.query(points[queries], k=N_NEIGHBOURS + 1))
    return distance[:, 1:], index[:, 1:]


def _check(*arrays: NDArray[np.floating]) -> None:
    names = ("observations", "actions", "next_observations", "jumps.change")
    for name, array in zip(names, arrays, strict=True):
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
