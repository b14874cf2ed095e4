"""How long it takes to get about in a world, from its logs: the measure of all distances, before any is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch as th

from proq_agent.common.logged_pairs import leads_up_to, pairs_apart
from proq_agent.proq.settings import DistanceSettings

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset

SEED, N_PAIRS = 0, 4000
LONGEST_LEAD = 1000.0
# In units of the time scale; on medium mazes of points these make 100 and 200 steps, which were found by experiments.
FOCUS, OFFSET = 2.3, 4.6
SOFTNESS = 4.0  # of the offset: far_scale * far_offset


def time_scales(dataset: GoalDataset) -> np.ndarray:
    """
    Of each coordinate of goal space: steps until a trajectory is half as far from where it was as random states are
    from each other.

    :param dataset: trajectories that are too short to get as far tell by how far they get
    :return: ``[goal_dim]``, NaN for one that never moves
    """
    generator = th.Generator(dataset.device).manual_seed(SEED)

    def apart(rows: th.Tensor, others: th.Tensor) -> np.ndarray:
        return (dataset.achieved_goals[rows] - dataset.achieved_goals[others]).double().abs().mean(dim=0).cpu().numpy()

    usual = apart(*(dataset.random_rows(N_PAIRS, generator) for _ in range(2)))
    leads = leads_up_to(dataset, LONGEST_LEAD)
    gone = np.array([apart(*pairs_apart(dataset, lead, generator)) for lead in leads])
    gone = np.maximum.accumulate(gone)  # whoever comes back has been away
    times = np.full(len(usual), np.nan)
    for i in np.flatnonzero((usual > 0.0) & (gone[-1] > 0.0)):
        share = gone[:, i] / usual[i]
        times[i] = np.interp(0.5, np.append(0.0, share), [0, *leads]) * max(1.0, 0.5 / share[-1])
    return times


def time_scale(dataset: GoalDataset) -> float:
    """
    The median of :func:`time_scales`, of the coordinates that goals ask for: an arm is everywhere long before what it
    carries. One that is all noise is as far away after one step, and one that is set at the start of an episode never
    moves.

    :param dataset: shows how far trajectories get
    :return: at least 1
    """
    times = time_scales(dataset)[dataset.goal_spec.asked(dataset.achieved_goals.shape[1])]
    return max(float(np.nanmedian(times)), 1.0) if np.isfinite(times).any() else 1.0


def choose_distance(settings: DistanceSettings, dataset: GoalDataset) -> tuple[DistanceSettings, str]:
    """
    What is None in the settings: how far the map pushes states apart, and at which distances most.

    Pairs farther than the focus count less in that push. Where all that matters is nearer, as in a world that is
    crossed in thirty steps, all pairs would count alike, and short ways, of which a batch has few, would be squeezed.

    :param settings: what is not None stays
    :param dataset: to learn from
    :return: the settings, and what was found, in a sentence
    """
    scale = time_scale(dataset)
    chosen = settings.known(round(OFFSET * scale, 1), round(FOCUS * scale, 1), SOFTNESS)
    return chosen, (
        f"from the data: half the world is crossed in {scale:.0f} steps; distances count half at "
        f"{chosen.far_focus:.0f} and are pushed up to {chosen.far_offset:.0f}"
    )
