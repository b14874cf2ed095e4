"""How much slower an agent is that samples its actions: noise beyond the limits of an action is lost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch as th

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.proq.policies import ProQPolicy

N_STATES = 2048


@th.no_grad()
def sampled_pace(policy: ProQPolicy, dataset: GoalDataset, hop: float) -> float:
    """
    The way that sampled actions make, on average, as a share of that of the mean ones, if half an action leads half as
    far: E[clip(a)]·μ / μ·μ. The better an actor knows to go at full speed, the more of its noise is cut off on one side
    alone.

    :param policy: whose actor it is
    :param dataset: states, evenly spread over it, and where their trajectories are a hop later
    :param hop: time steps
    """
    chosen = np.linspace(0, dataset.n_transitions - 1, N_STATES).astype(int)
    rows = dataset.nth_transitions(th.as_tensor(chosen, device=dataset.device))
    later = dataset.ahead(rows, max(1, round(hop)))
    here, target = (policy.locate(dataset.achieved_goals[index]) for index in (rows, later))
    mean, std = policy.action_distribution(dataset.observations[rows], here, target)
    sampled, mean = _clipped_mean(mean, policy.sampled_std(std)), mean.clamp(-1.0, 1.0)
    share = (sampled * mean).sum() / mean.square().sum().clamp_min(th.finfo(mean.dtype).tiny)
    return min(share.item(), 1.0) or 1.0  # of an actor that never moves as much as of any


def _clipped_mean(mean: th.Tensor, std: th.Tensor) -> th.Tensor:
    """E[clip(a, -1, 1)] of Gaussian actions."""
    low, high = (-1.0 - mean) / std, (1.0 - mean) / std
    below, above = th.special.ndtr(low), th.special.ndtr(-high)
    density_low, density_high = (th.exp(-0.5 * end.square()) / math.sqrt(2.0 * math.pi) for end in (low, high))
    return above - below + mean * (1.0 - below - above) + std * (density_low - density_high)
