"""Set the transitions of a dataset apart that chance decided, and say what was done."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from proq_agent.chance.clustering import cluster_chance
from proq_agent.chance.detection import find_unpredictable
from proq_agent.chance.edges import ChanceEdge
from proq_agent.chance.jumps import find_jumps, ordinary_step
from proq_agent.common.dataset import GoalDataset

MANY = 0.01  # share of the transitions set apart that is worth a warning
SHATTERED = 0.05  # mean length of the pieces that are left, likewise, relative to the trajectories


class Separation(NamedTuple):
    """The transitions that chance decided."""

    rows: np.ndarray  #: where they begin in the dataset
    edges: tuple[ChanceEdge, ...]  #: what they tell about the world
    summary: str  #: one line


def separate_chance(dataset: GoalDataset, seed: int) -> Separation:
    """
    Find the transitions that chance decided; warn if they are so many that little else is left.

    :param dataset: jumps are looked for in its goal space, causes in observations and actions
    :param seed: breaks ties
    """
    starts = dataset.transition_rows
    observations, actions, goals = (
        array.cpu().numpy() for array in (dataset.observations, dataset.actions, dataset.achieved_goals)
    )
    visits = goals[starts]
    jumps = find_jumps(visits, goals[starts + 1])
    found = find_unpredictable(observations[starts], actions[starts], observations[starts + 1], jumps, seed=seed)
    rows = starts[found]
    edges: tuple[ChanceEdge, ...] = ()
    if len(rows):
        change = (goals[starts + 1] - visits)[~found].astype(np.float64)
        unit = np.maximum(ordinary_step(change), 1e-12)
        step = unit * np.median(np.linalg.norm(change / unit, axis=1))
        edges = tuple(cluster_chance(goals[rows], goals[rows + 1], visits, step=np.maximum(step, 1e-12)))
    share = len(rows) / max(len(starts), 1)
    summary = f"{len(rows)} of {len(starts)} transitions ({100 * share:.2g} %) were decided by chance and are set apart"
    if len(rows):
        coordinates, counts = np.unique(jumps.coordinates[found[jumps.rows]], return_counts=True)
        where = ", ".join(f"{k} ({n})" for k, n in zip(coordinates, counts, strict=True))
        portals = sum(edge.is_portal for edge in edges)
        summary += f": jumps in goal coordinates {where}; {portals} portals, {len(edges) - portals} regions of risk"
    remedy = "if they are no chance, pass stochastic='ignore', or goals without the coordinates that jump"
    if share > MANY:
        warnings.warn(f"{summary}. That is much; {remedy}", stacklevel=2)
    elif dataset.n_trajectories < SHATTERED * (dataset.n_trajectories + len(rows)):
        pieces = len(dataset) / (dataset.n_trajectories + len(rows))
        warnings.warn(f"{summary}. It leaves pieces of {pieces:.0f} rows; {remedy}", stacklevel=2)
    return Separation(rows, edges, summary)
