"""Whether a plan is better than none: which of the two foretells the actions of held-out trajectories better?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch as th

from proq_agent.common.logged_pairs import leads_up_to, pairs_apart
from proq_agent.proq.diagnosis import Check, at_most
from proq_agent.proq.hop_evidence import action_likelihood, natural_hop

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.planning.navigator import Navigator
    from proq_agent.planning.settings import PlanningSettings
    from proq_agent.proq.policies import ProQPolicy

SEED = 0
LONGEST_LEAD = 400.0  # steps; trajectories seldom tell more about what was wanted
HOPS = (5.0, 60.0)  # shortest and longest that are chosen: short ones find the way round corners
# Share of what the goal tells about the logged action that is lost when the plan's next target is told instead.
MAX_LOSS = 0.1


class Foretold(NamedTuple):
    """Mean log-likelihood of logged actions, by the steps to the goal."""

    leads: np.ndarray
    direct: np.ndarray  #: if the controller is told the state that was reached
    planned: np.ndarray  #: if it is told the next target on the plan to there
    random: np.ndarray  #: if it is told any state

    @property
    def loss(self) -> float:
        """Share of what the goal tells that the plan loses; negative if the plan tells more."""
        told = np.maximum(self.direct - self.random, 0.0).sum()
        return float((self.direct - self.planned).sum() / told) if told > 0 else 0.0


@th.no_grad()
def foretell(policy: ProQPolicy, navigator: Navigator, dataset: GoalDataset, leads: list[int]) -> Foretold:
    """
    How likely logged actions are with and without a plan.

    :param policy: holds the controller
    :param navigator: plans on its map
    :param dataset: trajectories that it did not learn from
    :param leads: steps to the goal
    """
    generator = th.Generator(dataset.device).manual_seed(SEED)
    found = []
    for lead in leads:
        rows, later = pairs_apart(dataset, lead, generator)
        states, goals = (dataset.achieved_goals[r] for r in (rows, later))
        points = navigator.next_points(states.cpu().numpy(), goals.cpu().numpy())
        others = dataset.achieved_goals[dataset.random_rows(len(rows), generator)]
        targets = (goals, th.as_tensor(points, dtype=th.float32, device=dataset.device), others)
        told = dataset.actions[rows], dataset.observations[rows], policy.locate(states)
        found.append([policy.log_prob(*told, policy.locate(target)).mean().item() for target in targets])
    return Foretold(np.array(leads), *np.array(found).reshape(-1, 3).T)


def check_guidance(policy: ProQPolicy, navigator: Navigator, settings: PlanningSettings, dataset: GoalDataset) -> Check:
    """
    Whether plans lead where trajectories went.

    :param policy: a trained agent's
    :param navigator: of that agent
    :param settings: as the agent plans
    :param dataset: trajectories that it did not learn from
    """
    loss = _loss(policy, navigator.replanned(replace(settings.known(), direct=False)), dataset)
    verdict = f"plans lose {max(loss, 0.0):.0%} of what goals tell about logged actions"
    advice = "the map misleads: act without plans (planning.direct), train longer, or log more"
    if settings.direct:
        advice = "the map misleads, and the agent heads straight for its goals: train longer, or log more"
    return at_most("guidance", loss, MAX_LOSS, verdict, advice)


def _loss(policy: ProQPolicy, navigator: Navigator, dataset: GoalDataset) -> float:
    """Of goals at least half a hop ahead: nearer ones are headed for anyway."""
    leads = [lead for lead in leads_up_to(dataset, LONGEST_LEAD) if lead > navigator.planner.max_hop / 2]
    return foretell(policy, navigator, dataset, leads).loss if leads else 0.0


def choose_planning(
    policy: ProQPolicy,
    navigator: Callable[[PlanningSettings], Navigator],
    settings: PlanningSettings,
    dataset: GoalDataset,
) -> tuple[PlanningSettings, str]:
    """
    What is None in the settings: hops as long as the controller knows the way, and keypoints only if they help. Who
    says how long hops are wants keypoints.

    A wrong map misleads: plans over it send agents where nobody went. On held-out trajectories the actions that led to
    a state are then less likely if the controller is told the plan's next target than if it is told the state itself.

    :param policy: a trained agent's
    :param navigator: makes one of that agent that plans as it is told
    :param settings: what is not None stays
    :param dataset: trajectories that it did not learn from
    :return: the settings, and what was found, in a sentence
    """
    leads = leads_up_to(dataset, LONGEST_LEAD)
    likelihood = action_likelihood(policy, dataset, leads, th.Generator(dataset.device).manual_seed(SEED))
    chosen = settings.known(float(np.clip(natural_hop(likelihood), *HOPS)))
    assert chosen.max_hop is not None
    what = f"hops of up to {chosen.max_hop:.0f} steps, reached within {chosen.reach:.0f}"
    if settings.direct is not None or settings.max_hop is not None:
        return chosen, f"from the data: {what}"
    loss = _loss(policy, navigator(chosen), dataset)
    chosen = replace(chosen, direct=loss > MAX_LOSS)
    if chosen.direct:
        return chosen, (
            f"from the data: no plans, but straight to the goal, as plans lose {loss:.0%} of what goals tell about "
            f"logged actions, more than {MAX_LOSS:.0%}: the map is not right, see diagnose()"
        )
    return chosen, f"from the data: {what}; plans lose {max(loss, 0.0):.0%} of what goals tell about logged actions"
