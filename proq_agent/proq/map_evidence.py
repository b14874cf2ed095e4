"""What held-out trajectories tell about a map: is d the time that it takes, does ψ know where the data are?"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch as th
from scipy.spatial import KDTree

from proq_agent.common.logged_pairs import N_PAIRS, pairs_apart

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.proq.policies import ProQPolicy

EXCESS, SLACK = 1.5, 1.0  # d may be that many times the time that passed, and so much more
FAR_OFF = 0.99  # share of the states that have another trajectory's state nearer than what counts as off the data


class Calibration(NamedTuple):
    """Learned distances between states of a trajectory, by the time between them; one row a lead."""

    leads: np.ndarray  #: time steps between the states
    quantiles: np.ndarray  #: ``[leads, 3]`` of d: 5 %, one half, 95 %
    excess: np.ndarray  #: share of the pairs with a d that the log disproves: it took far less time


class Separation(NamedTuple):
    """ψ where the data are and where they are not."""

    data: np.ndarray  #: at held-out states
    off_data: np.ndarray  #: between and beyond them, away from all; may be empty

    @property
    def balanced_accuracy(self) -> float:
        """Of the planner's rule, that a place is reachable if ψ is one half or more; by chance one half."""
        return float(((self.data >= 0.5).mean() + (self.off_data < 0.5).mean()) / 2)


def without_jumps(policy: ProQPolicy, dataset: GoalDataset) -> GoalDataset:
    """
    The trajectories, ended where they jump farther than any transition that was learned from, as through a portal.

    :param policy: knows the longest step
    :param dataset: on the policy's device
    """
    rows = dataset.transition_rows
    change = policy.goal_scaler(dataset.achieved_goals[rows + 1]) - policy.goal_scaler(dataset.achieved_goals[rows])
    jumps = (change.abs() > policy.longest_step * 1.01).any(dim=1).cpu().numpy()
    return dataset if jumps.all() else dataset.cut(rows[jumps])


@th.no_grad()
def calibration(
    policy: ProQPolicy, dataset: GoalDataset, leads: list[int], generator: th.Generator | None
) -> Calibration:
    """
    Compare d with the time that passed: whoever logged a way in k steps has shown that d is at most k.

    :param policy: holds d
    :param dataset: trajectories that it did not learn from
    :param leads: time steps between states
    :param generator: source of randomness
    """
    quantiles, excess = [], []
    for lead in leads:
        here, later = (
            policy.embed_goals(dataset.achieved_goals[rows]) for rows in pairs_apart(dataset, lead, generator)
        )
        d = policy.distances(here, later)
        quantiles.append(d.quantile(d.new_tensor([0.05, 0.5, 0.95])).tolist())
        excess.append((d > EXCESS * lead + SLACK).float().mean().item())
    return Calibration(np.array(leads), np.array(quantiles), np.array(excess))


@th.no_grad()
def separation(policy: ProQPolicy, dataset: GoalDataset, generator: th.Generator | None) -> Separation:
    """
    ψ at states and at points between and beyond them, as it was trained to tell apart; but only at such points that
    are farther from every state than states are from those of other trajectories: in the open, all that lies between
    states is reachable, too.

    :param policy: holds ψ
    :param dataset: trajectories that it did not learn from
    :param generator: source of randomness
    """
    states = policy.goal_scaler(dataset.achieved_goals)
    ends = dataset.trajectory_ends
    middle = int(ends[(len(ends) - 1) // 2]) + 1 if len(ends) > 1 else len(dataset) // 2
    first, second = states[:middle].cpu().numpy(), states[middle:].cpu().numpy()
    radius = np.quantile(KDTree(first).query(second[:: max(1, len(second) // N_PAIRS)])[0], FAR_OFF)

    here, there = (states[dataset.random_rows(N_PAIRS, generator)] for _ in range(2))
    shares = th.rand(2, N_PAIRS, 1, generator=generator, device=states.device)
    points = th.cat([here + shares[0] * (there - here), here - shares[1] * (there - here)])
    apart, _ = KDTree(states.cpu().numpy()).query(points.cpu().numpy())
    off_data = points[th.as_tensor(apart > radius, device=points.device)]
    data, negative = (policy.classify(policy.encode_standard(x), x).sigmoid().cpu().numpy() for x in (here, off_data))
    return Separation(data, negative)
