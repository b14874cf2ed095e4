"""Set the transitions of a dataset apart that chance decided, and say what was done."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from proq_agent.chance.clustering import cluster_chance
from proq_agent.chance.detection import Judges, find_judges, find_unpredictable
from proq_agent.chance.edges import ChanceEdge
from proq_agent.chance.jumps import JumpRule, find_jumps, ordinary_step
from proq_agent.common.dataset import GoalDataset
from proq_agent.common.row_file import whole

MANY = 0.01  # share of the transitions set apart that is worth a warning
MAX_NUMBERS = 1 << 23  # in observations and actions on disk; of more, random trajectories tell what chance does
SHATTERED = 0.05  # mean length of the pieces that are left, likewise, relative to the trajectories


class Separation(NamedTuple):
    """The transitions that chance decided."""

    rows: np.ndarray  #: where they begin in the dataset
    edges: tuple[ChanceEdge, ...]  #: what they tell about the world
    summary: str  #: one line


def separate_chance(dataset: GoalDataset, seed: int) -> Separation:
    """
    Find the transitions that chance decided; warn if they are so many that little else is left.

    Of a dataset on disk that is too large to compare everything with everything, random trajectories tell what a jump
    is, which ones are chance and at which rates; all jumps of the whole are then judged by the nearest of these.

    :param dataset: jumps are looked for in its goal space, causes in observations and actions
    :param seed: breaks ties
    """
    sizes = dataset.observations.shape[1] + dataset.actions.shape[1]
    sample = dataset.in_memory(MAX_NUMBERS // sizes, seed)
    starts = sample.transition_rows
    observations, actions, goals = (
        whole(array).cpu().numpy() for array in (sample.observations, sample.actions, sample.achieved_goals)
    )
    visits = goals[starts]
    jumps = find_jumps(visits, goals[starts + 1])
    transitions = observations[starts], actions[starts], observations[starts + 1]
    found = find_unpredictable(*transitions, jumps, seed=seed)
    rows = starts[found]
    edges: tuple[ChanceEdge, ...] = ()
    if len(rows):
        change = (goals[starts + 1] - visits)[~found].astype(np.float64)
        unit = np.maximum(ordinary_step(change), 1e-12)
        step = unit * np.median(np.linalg.norm(change / unit, axis=1))
        step, least = np.maximum(step, 1e-12), jumps.rule.least(goals.shape[1])
        edges = tuple(cluster_chance(goals[rows], goals[rows + 1], visits, step=step, least=least))
    coordinates, counts = np.unique(jumps.coordinates[found[jumps.rows]], return_counts=True)
    if len(sample) < len(dataset):
        judges = find_judges(*transitions, jumps, seed=seed)[0] if len(rows) else None
        del sample, observations, actions, goals, visits, transitions
        rows = _everywhere(dataset, jumps.rule, judges)
    share = len(rows) / max(dataset.n_transitions, 1)
    of = f"{len(rows)} of {dataset.n_transitions} transitions ({100 * share:.2g} %)"
    summary = f"{of} were decided by chance and are set apart"
    if len(rows):
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


def _everywhere(dataset: GoalDataset, rule: JumpRule, judges: Judges | None) -> np.ndarray:
    """All rows of a dataset that chance decided, by what is known from some of its trajectories."""
    rows = [np.empty(0, dtype=np.int64)]
    if judges is not None:
        for starts, goals, next_goals in dataset.farther_than(rule.least(dataset.achieved_goals.shape[1])):
            jumps = starts[rule.find(goals.cpu().numpy(), next_goals.cpu().numpy())]
            if len(jumps):
                rows.append(jumps[judges.decide(judges.places(dataset.observations[jumps].cpu().numpy()))])
    return np.concatenate(rows)
