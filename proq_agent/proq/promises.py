"""Whether ways are as short as a map promises: followed along pieces of logged trajectories, without an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch as th
from scipy.spatial import KDTree

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.proq.policies import ProQPolicy

N_WALKS, N_PIECES = 200, 64  # and pieces to choose from, every time
PIECES_OF_A_HOP = 9


class Promises(NamedTuple):
    """Half ways, one row a walk; the other half ends at one point, which pieces of trajectories hardly ever meet."""

    promised: np.ndarray  #: time steps by the map
    taken: np.ndarray  #: time steps along logged pieces; inf if twice the time did not do
    piece: int  #: time steps of a piece

    @property
    def kept(self) -> np.ndarray:
        """Which were walked in the time that was promised, to the accuracy of a piece."""
        return self.taken <= self.promised + self.piece


@th.no_grad()
def keep_promises(policy: ProQPolicy, dataset: GoalDataset, max_hop: float, generator: th.Generator | None) -> Promises:
    """
    Walk from random states towards random goals, always along that of the logged pieces nearby that shortens d most.

    A right d falls by one a step along the best of them, and the walk is half way after half of the d that it began
    with. Where the map promises a way that nobody took, as through a thin wall or a turn on the spot, the walk gets
    stuck, and where all is farther than the map says, it is late.

    :param policy: holds d
    :param dataset: trajectories that it did not learn from
    :param max_hop: goals are at most so far, by the map: farther ones are reached by way of keypoints
    :param generator: source of randomness
    :return: empty if all goals are farther, or no trajectory is as long as a piece
    """
    piece = max(1, round(max_hop / PIECES_OF_A_HOP))
    starts = th.arange(len(dataset), device=dataset.device)
    starts = starts[dataset.ahead(starts, piece) == starts + piece]
    none = Promises(np.zeros(0), np.zeros(0), piece)
    if not len(starts):
        return none
    at = starts[th.randint(len(starts), (2 * N_WALKS,), generator=generator, device=starts.device)]
    goals = policy.embed_goals(dataset.achieved_goals[dataset.random_rows(2 * N_WALKS, generator)])
    apart = policy.pairwise_distances(policy.embed_goals(dataset.achieved_goals[at]), goals)
    near = apart <= max_hop
    if not near.any():
        return none
    # Not the nearer half of these: that may be a piece or less away, or where the map has no room.
    place, goal = (near & (apart >= apart[near].median())).nonzero().T
    chosen = th.randint(len(place), (N_WALKS,), generator=generator, device=place.device)
    promised, at, goals = apart[place[chosen], goal[chosen]] / 2, at[place[chosen]], goals[goal[chosen]]

    # Pieces begin near in what the actor sees: two states at one place may differ in where they can go.
    seen = policy.observation_scaler(dataset.observations).cpu().numpy()
    tree = KDTree(seen[starts.cpu()])
    n_pieces = min(N_PIECES, len(starts))
    taken = th.full_like(promised, th.inf)
    walks = th.arange(N_WALKS, device=at.device)
    for time in range(piece, 2 * int(promised.max()) + piece + 1, piece):
        walks = walks[taken[walks].isinf() & (time <= 2 * promised[walks] + piece)]
        if not len(walks):
            break
        _, nearest = tree.query(seen[at[walks].cpu()], k=n_pieces)
        rows = starts[th.as_tensor(nearest.reshape(len(walks), n_pieces), device=at.device)]
        before, after = (_to_goals(policy, dataset, x, goals[walks]) for x in (rows, rows + piece))
        best = (before - after).argmax(dim=1, keepdim=True)
        at[walks] = rows.gather(1, best).squeeze(1) + piece
        taken[walks[after.gather(1, best).squeeze(1) <= promised[walks]]] = time
    return Promises(promised.cpu().numpy(), taken.cpu().numpy(), piece)


def _to_goals(policy: ProQPolicy, dataset: GoalDataset, rows: th.Tensor, goals: th.Tensor) -> th.Tensor:
    """d from states ``[walks, pieces]`` to the goal of each walk."""
    states = policy.embed_goals(dataset.achieved_goals[rows.reshape(-1)])
    return policy.distances(states.view(*rows.shape, -1), goals[:, None])
