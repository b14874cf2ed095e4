"""Whether ways are as short as a map promises: followed along pieces of logged trajectories, without an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch as th
from scipy.spatial import KDTree

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.proq.policies import ProQPolicy

N_WALKS, N_CHOICES, MAX_PIECES = 200, 64, 200_000  # walks, pieces to choose from each time, pieces of all
PIECES_OF_A_HOP = 9


class Promises(NamedTuple):
    """Half ways, one row a walk; the other half ends at one point, which pieces of trajectories hardly ever meet."""

    promised: np.ndarray  #: time steps by the map
    taken: np.ndarray  #: time steps along logged pieces and across the gaps; inf if twice the time did not do
    piece: int  #: time steps of a piece
    gaps: np.ndarray  #: d from the end of each piece to the beginning of the next one

    @property
    def kept(self) -> np.ndarray:
        """Which were walked in the time that was promised, to the accuracy of a piece."""
        return self.taken <= self.promised + self.piece


@th.no_grad()
def keep_promises(
    policy: ProQPolicy, dataset: GoalDataset, logged: GoalDataset, max_hop: float, generator: th.Generator | None
) -> Promises:
    """
    Walk from random states towards random goals, always along that of the logged pieces nearby that leaves least to go;
    the gap from piece to piece counts as the map says.

    A right d falls by one a step along the best of them, and the walk is half way after half of the d that it began
    with. Where the map promises a way that nobody took, as through a thin wall or a turn on the spot, the walk gets
    stuck, and where all is farther than the map says, it is late.

    :param policy: holds d
    :param dataset: starts and goals are its states
    :param logged: trajectories to walk along
    :param max_hop: goals are at most so far, by the map: farther ones are reached by way of keypoints
    :param generator: source of randomness
    :return: empty if all goals are farther, or no trajectory is as long as a piece
    """
    piece = max(1, round(max_hop / PIECES_OF_A_HOP))
    starts = th.arange(len(logged), device=logged.device)
    starts = starts[logged.ahead(starts, piece) == starts + piece]
    if len(starts) > MAX_PIECES:
        starts = starts[th.randint(len(starts), (MAX_PIECES,), generator=generator, device=starts.device)]
    begin, end = (dataset.random_rows(2 * N_WALKS, generator) for _ in range(2))
    here, goals = (policy.embed_goals(dataset.achieved_goals[rows]) for rows in (begin, end))
    apart = policy.pairwise_distances(here, goals)
    near = apart <= max_hop
    if not len(starts) or not near.any():
        return Promises(np.zeros(0), np.zeros(0), piece, np.zeros(0))
    # Not the nearer half of these: that may be a piece or less away, or where the map has no room.
    place, goal = (near & (apart >= apart[near].median())).nonzero().T
    chosen = th.randint(len(place), (N_WALKS,), generator=generator, device=place.device)
    place, goal = place[chosen], goal[chosen]
    promised, here, goals, seen = apart[place, goal] / 2, here[place], goals[goal], dataset.observations[begin[place]]

    # Pieces begin near in what the actor sees: two states at one place may differ in where they can go.
    tree = KDTree(policy.observation_scaler(logged.observations[starts]).cpu().numpy())
    n_choices = min(N_CHOICES, len(starts))
    gone, taken = th.zeros_like(promised), th.full_like(promised, th.inf)
    gaps = []
    walks = th.arange(N_WALKS, device=promised.device)
    while len(walks):
        _, nearest = tree.query(policy.observation_scaler(seen[walks]).cpu().numpy(), k=n_choices)
        rows = starts[th.as_tensor(nearest.reshape(len(walks), n_choices), device=starts.device)]
        before, after = (_embed(policy, logged, at) for at in (rows, rows + piece))
        gap, left = policy.distances(here[walks, None], before), policy.distances(after, goals[walks, None])
        best = th.arange(len(walks), device=rows.device), (gap + left).argmin(dim=1)
        gaps.append(gap[best])
        gone[walks] += piece + gap[best]
        here[walks], seen[walks] = after[best], logged.observations[rows[best] + piece]
        arrived = left[best] <= promised[walks]
        taken[walks[arrived]] = gone[walks[arrived]]
        walks = walks[~arrived & (gone[walks] < 2.0 * promised[walks])]
    return Promises(promised.cpu().numpy(), taken.cpu().numpy(), piece, th.cat(gaps).cpu().numpy())


def _embed(policy: ProQPolicy, dataset: GoalDataset, rows: th.Tensor) -> th.Tensor:
    """What :meth:`ProQPolicy.distances` compares, of the states in rows ``[walks, choices]``."""
    return policy.embed_goals(dataset.achieved_goals[rows.reshape(-1)]).view(*rows.shape, -1)
