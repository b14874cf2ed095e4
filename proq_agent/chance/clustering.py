"""From observed jumps to chance edges.

Unpredictable jumps (see :mod:`proq_agent.chance.detection`) are random events of a region: of the steps that begin in
it, a share jumps to one of the exits. :func:`cluster_chance` recovers regions, rates and exits.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.cluster.vq import kmeans2
from scipy.spatial import cKDTree
from scipy.special import bdtrc

from proq_agent.chance.edges import MAX_PLACES, ChanceEdge, in_region

MAX_LINKED = 2000  # points that are clustered with each other; the rest follow the nearest of them
GROWTH = 1.25  # of the size of exits that are too many
N_BOXES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)  # that are tried to cover what is no portal
LIKELIHOOD_STEPS = 50
UNSURE = 3.0  # jumps that would have been expected where a region surely ends: none is seen by luck in 5 % of cases
MAX_LUCKY = 0.1  # portals that would be expected if there were none
MAX_VISITS = 20_000  # looked at to find regions; their rates are of all


def cluster_chance(
    entrances: NDArray[np.floating],
    exits: NDArray[np.floating],
    visits: NDArray[np.floating],
    *,
    step: NDArray[np.float64] | None = None,
    least: NDArray[np.floating] | float = 0.0,
    closeness: float = 0.25,
    min_count: int = 5,
    max_nodes: int = MAX_PLACES,
) -> list[ChanceEdge]:
    """
    Group observed jumps into chance edges.

    Points are one place while their mean distance (average linkage) is at most ``closeness`` times the median
    length of the jumps, so the unit of length does not matter and no place grows without bound. Where most steps from
    such a place jump it is a portal. The other jumps are covered by boxes, as many as make them most likely. Regions
    with fewer than ``min_count`` jumps are dropped; so are, within a region, exits seen fewer than ``min_count`` times,
    unless that would leave none. Exits are merged until there are at most ``max_nodes`` places in all.

    :param entrances: Where each jump began, in goal space, ``[n, goal_dim]``.
    :param exits: Where it ended, ``[n, goal_dim]``.
    :param visits: Where every transition of the data began, jump or not, ``[T, goal_dim]``.
    :param step: How far a step of the data leads in each coordinate, ``[goal_dim]``.
    :param least: What a jump exceeds in one of the coordinates, ``[goal_dim]``; nearer to an exit none can be told.
    :param closeness: Size of a place relative to a jump.
    :param min_count: Fewest jumps that make an entrance or an exit.
    :param max_nodes: Most entrances and exits in all.
    :return: The edges, the most frequent first.
    """
    if entrances.ndim != 2 or entrances.shape != exits.shape or visits.shape[1:] != entrances.shape[1:]:
        raise ValueError(
            f"entrances {entrances.shape} and exits {exits.shape} must both be [n, goal_dim], one row a jump, and "
            f"visits {visits.shape} [T, goal_dim]."
        )
    if closeness <= 0 or min_count < 1 or max_nodes < 2:
        raise ValueError(
            f"closeness={closeness} must be positive, min_count={min_count} at least 1 and max_nodes={max_nodes} at "
            "least 2; the defaults fit most data."
        )
    if len(entrances) < min_count:
        return []
    entrances, exits, visits = (points.astype(np.float64) for points in (entrances, exits, visits))
    size = closeness * float(np.median(np.linalg.norm(exits - entrances, axis=1)))
    places, exit_size = _Places(exits), size
    regions = _regions(entrances, places.labels(size), visits, size, min_count, max_nodes // 2)
    while len(np.unique(places.labels(exit_size))) > max_nodes - len(regions):
        exit_size *= GROWTH
    if exit_size > size:
        warnings.warn(
            f"chance leads to so many places that those within {exit_size:.3g} of each other are taken for one, to "
            f"plan with at most {max_nodes}",
            stacklevel=2,
        )
    if not regions:
        return []
    rates, _ = _rates(regions, entrances, visits)
    labels, seen = places.labels(exit_size), _some(visits)
    edges = []
    for region, rate in zip(regions, rates, strict=True):
        targets, counts = np.unique(labels[region.jumps], return_counts=True)
        kept = [i for i in np.argsort(-counts, kind="stable") if counts[i] >= min_count]
        if not kept:
            kept = list(range(len(targets)))
        # Of all jumps to a place, so that regions which lead to the same places agree about them.
        centres = np.stack([exits[labels == targets[i]].mean(axis=0) for i in kept])
        count = int(counts[kept].sum())
        odds = counts[kept] / count
        inside = seen[in_region(*region[:3], seen)]
        if len(inside):
            told = (np.abs(inside[:, None] - centres) > least).any(axis=2).mean(axis=0) @ odds
            rate /= max(told, rate)
        edges.append(ChanceEdge(region.centre, region.radius, centres, odds, count, float(rate), region.axes, step))
    return sorted(edges, key=lambda edge: -edge.count)


class _Region(NamedTuple):
    centre: NDArray[np.float64]
    radius: float
    axes: NDArray[np.float64] | None
    jumps: NDArray[np.intp]  # that began in it


def _regions(
    entrances: NDArray[np.float64],
    exit_place: NDArray[np.integer],
    visits: NDArray[np.floating],
    size: float,
    min_count: int,
    max_regions: int,
) -> list[_Region]:
    """Portals of the given size, and boxes around the jumps from elsewhere."""
    labels = _Places(entrances).labels(size)
    portals: list[_Region] = []
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        if len(rows) >= min_count and len(portals) < max_regions:
            portal = _portal(entrances, rows)
            if _rates([portal], entrances, visits)[0][0] >= 0.5:
                portals.append(portal)
    portals = _unlike_the_rest(portals, len(np.unique(labels)), entrances, visits)
    scattered = np.ones(len(entrances), dtype=bool)
    for portal in portals:
        scattered[portal.jumps] = False
    rows = np.flatnonzero(scattered)
    if len(rows) < min_count:
        return portals
    best, highest = [], -np.inf
    seen = _some(visits)
    for n in N_BOXES:
        if n > min(len(rows) // min_count, max_regions - len(portals)):
            break
        cells = np.zeros(len(rows), dtype=int) if n == 1 else kmeans2(entrances[rows], n, minit="++", seed=0)[1]
        boxes = [_box(entrances, rows[cells == i], seen) for i in range(n) if np.count_nonzero(cells == i) >= min_count]
        if not boxes:
            continue
        likelihood = _rates(boxes, entrances[rows], seen)[1]
        n_parameters = len(boxes) * (2 * entrances.shape[1] + 1)
        for box in boxes:
            _, counts = np.unique(exit_place[box.jumps], return_counts=True)
            likelihood += (counts * np.log(counts / counts.sum())).sum()
            n_parameters += len(counts) - 1
        likelihood -= 0.5 * np.log(len(rows)) * n_parameters  # Schwarz's criterion
        if likelihood <= highest:
            break
        best, highest = boxes, likelihood
    return portals + best


def _some(visits: NDArray[np.floating]) -> NDArray[np.floating]:
    return visits[:: len(visits) // MAX_VISITS + 1]


def _unlike_the_rest(
    portals: list[_Region], n_places: int, entrances: NDArray[np.floating], visits: NDArray[np.floating]
) -> list[_Region]:
    """Without those that jump no oftener than some of so many places do by luck, at the rate of the world outside."""
    within = [[np.count_nonzero(in_region(*portal[:3], of)) for of in (entrances, visits)] for portal in portals]
    jumps, steps = np.array(within, dtype=int).reshape(-1, 2).T
    others = len(entrances) - sum(len(portal.jumps) for portal in portals)
    rest = np.clip(others / max(len(visits) - steps.sum(), 1), 0.0, 1.0)
    lucky = n_places * bdtrc(jumps - 1, np.maximum(steps, jumps), rest)
    return [portal for portal, expected in zip(portals, lucky, strict=True) if expected < MAX_LUCKY]


def _portal(entrances: NDArray[np.float64], rows: NDArray[np.intp]) -> _Region:
    # Half-way between the extremes, because most visitors may come from the same side.
    centre = np.quantile(entrances[rows], [0.025, 0.975], axis=0).mean(axis=0)
    radius = np.quantile(np.linalg.norm(entrances[rows] - centre, axis=1), 0.95)
    return _Region(centre, float(radius), None, rows)


def _box(entrances: NDArray[np.float64], rows: NDArray[np.intp], visits: NDArray[np.floating]) -> _Region:
    """Along the principal axes, and beyond the jumps as far as there are too few visits to tell."""
    points = entrances[rows]
    _, directions = np.linalg.eigh(np.atleast_2d(np.cov(points.T)))
    jumps, seen = points @ directions, visits @ directions
    low, high = jumps.min(axis=0), jumps.max(axis=0)
    inside = (seen >= low) & (seen <= high)
    wait = int(np.ceil(UNSURE * inside.all(axis=1).sum() / len(rows)))
    for k in range(len(low)):
        beside = seen[np.delete(inside, k, axis=1).all(axis=1), k]
        below, above = np.sort(beside[beside < low[k]])[::-1][:wait], np.sort(beside[beside > high[k]])[:wait]
        low[k], high[k] = below.min(initial=low[k]), above.max(initial=high[k])
    half = np.maximum((high - low) / 2, 1e-6 * np.ptp(seen, axis=0).max() + 1e-12)
    return _Region(directions @ (low + high) / 2, float(np.linalg.norm(half)), (directions / half).T, rows)


def _rates(
    regions: Sequence[_Region], entrances: NDArray[np.floating], visits: NDArray[np.floating]
) -> tuple[NDArray[np.floating], float]:
    """Jumps a visit, adding up where regions overlap, of maximum likelihood; and its logarithm."""
    inside = np.stack([in_region(*region[:3], entrances) for region in regions], axis=1)
    known = np.asarray(inside.any(axis=1))
    steps = np.array(
        [np.count_nonzero(in_region(region.centre, region.radius, region.axes, visits)) for region in regions]
    )
    steps = np.maximum(steps, 1)
    rates = inside.sum(axis=0) / steps
    for _ in range(LIKELIHOOD_STEPS):
        rates = rates * (inside[known] / (inside[known] @ rates)[:, None]).sum(axis=0) / steps
    outside = np.count_nonzero(~known)
    likelihood = np.log(inside[known] @ rates).sum() - rates @ steps + outside * np.log(1.0 / len(visits))
    return np.clip(rates, np.finfo(float).tiny, 1.0), float(likelihood)


class _Places:
    """Points in clusters of any size: evenly spaced ones are linked, the others join the nearest of these."""

    def __init__(self, points: NDArray[np.floating]) -> None:
        linked = points[np.linspace(0, len(points) - 1, min(len(points), MAX_LINKED)).astype(int)]
        self.nearest = np.asarray(cKDTree(linked).query(points)[1])
        self.links = linkage(linked, method="average") if len(linked) > 1 else None

    def labels(self, size: float) -> NDArray[np.integer]:
        """The cluster of each point."""
        if self.links is None:
            return np.zeros(len(self.nearest), dtype=np.intp)
        labels: NDArray[np.integer] = fcluster(self.links, size, criterion="distance")
        return labels[self.nearest]
