"""Whether a trained agent can be trusted: what held-out trajectories say, and what to do about each fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch as th

from proq_agent.common.logged_pairs import leads_up_to
from proq_agent.proq.diagnosis import Check, Diagnosis, Measured, at_least, at_most, unknown
from proq_agent.proq.hop_evidence import (
    Coverage,
    Likelihood,
    action_likelihood,
    coverage,
    natural_hop,
    routed_trips,
)
from proq_agent.proq.map_evidence import (
    Calibration,
    Separation,
    calibration,
    separation,
    without_jumps,
)
from proq_agent.proq.promises import Promises, keep_promises

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.planning.planner import Planner
    from proq_agent.proq.policies import ProQPolicy

MIN_PAIRS = 50  # fewer tell nothing
SEED = 0  # of the pairs that are looked at: the same agent and data give the same diagnosis

# What is too much or too little: the agents of the eight point mazes, which reach their goals, are on the right side of
# each; those of a parking car and a mountain car, which seldom do, are on the wrong side of the first two.
MAX_EXCESS = 0.03  # share of distances that the log disproves
MAX_SHORTCUTS = 0.4  # share of ways that take longer than the map says
MIN_SEPARATION = 0.85  # balanced accuracy of ψ
MIN_SUPPORT = 0.1  # by how much more often logged actions fit the logged goal than others do
MAX_STRETCH = 1.25  # longest hop of a plan, in natural hops of the controller
MIN_ROUTED = 0.95  # share of logged trips with a plan
MIN_COVERED = 0.95  # share of states with a keypoint within a hop


def diagnose(
    policy: ProQPolicy,
    planner: Planner,
    dataset: GoalDataset | None,
    logged: GoalDataset | None = None,
    numbers: Mapping[str, float] | None = None,
) -> Diagnosis:
    """
    Look at an agent through trajectories that it did not learn from; no environment is needed.

    :param policy: map, keypoints and controller
    :param planner: the graph of its keypoints
    :param dataset: the trajectories; without any there is nothing to check
    :param logged: more trajectories, which it may have learned from: they show which ways there are
    :param numbers: more to say about the agent
    """
    if dataset is None:
        return Diagnosis((), numbers)
    policy.set_training_mode(False)
    dataset = without_jumps(policy, dataset.to(policy.device))
    logged = without_jumps(policy, logged.to(policy.device)) if logged is not None else dataset
    generator = th.Generator(policy.device).manual_seed(SEED)
    hop, graph = planner.max_hop, planner.graph
    leads = leads_up_to(dataset, 4.0 * hop)
    measured = Measured(
        hop,
        calibration(policy, dataset, leads, generator),
        keep_promises(policy, dataset, logged, hop, generator),
        separation(policy, dataset, generator),
        action_likelihood(policy, dataset, leads, generator),
        coverage(policy, graph, dataset, generator),
    )
    checks = (
        check_calibration(measured.calibration),
        check_shortcuts(measured.promises),
        check_separation(measured.separation),
        check_support(measured.likelihood, hop),
        check_hop(measured.likelihood, hop),
        check_routes(routed_trips(policy, graph, dataset, hop, generator)),
        check_coverage(measured.coverage, hop),
    )
    return Diagnosis(checks, numbers, measured)


def check_calibration(found: Calibration) -> Check:
    """d is the least number of steps: what was logged in fewer cannot be farther."""
    worst = int(found.excess.argmax())
    value = float(found.excess[worst])
    verdict = f"{value:.1%} of states logged {found.leads[worst]} steps apart are much farther by the map"
    advice = "the map has not converged or its goal space is not Markov: train longer, or give goals that say more"
    return at_most("calibration", value, MAX_EXCESS, verdict, advice)


def check_shortcuts(found: Promises) -> Check:
    """Ways are as short as the map says."""
    if len(found.kept) < MIN_PAIRS:
        return unknown("shortcuts", MAX_SHORTCUTS, "no states are within a hop of each other on the map")
    if np.median(found.gaps) > found.piece / 2:
        return unknown("shortcuts", MAX_SHORTCUTS, "too few trajectories to walk along; give more as `logged`")
    value = float(1.0 - found.kept.mean())
    verdict = f"{value:.1%} of the ways within a hop take longer than the map says, along pieces of the log"
    advice = "the map promises ways that nobody took: train longer, log more of the ways between such places, or act"
    return at_most("shortcuts", value, MAX_SHORTCUTS, verdict, f"{advice} without a plan (model.controller)")


def check_separation(found: Separation) -> Check:
    """ψ keeps keypoints and plans where the data are."""
    if len(found.off_data) < MIN_PAIRS:
        return unknown("separation", MIN_SEPARATION, "the data lie everywhere between and around themselves")
    value = found.balanced_accuracy
    verdict = f"psi is {found.data.mean():.2f} on data and {found.off_data.mean():.2f} off them: {value:.1%} told apart"
    advice = "keypoints may lie where nobody can be: train longer, or set policy_kwargs.classifier_scale"
    return at_least("separation", value, MIN_SEPARATION, verdict, advice)


def check_support(found: Likelihood, max_hop: float) -> Check:
    """The controller does what the log did on the way to the same place."""
    i = int(np.abs(found.leads - max_hop / 2).argmin())
    what = f"{found.share[i]:.1%} of logged actions fit where the log was {found.leads[i]} steps later"
    verdict = f"{what} better than a random goal, of other actions {found.chance[i]:.1%}"
    advice = "the controller does not know the way: train longer, and see that actions belong to their observations"
    return at_least("support", float(found.advantage[i]), MIN_SUPPORT, verdict, advice)


def check_hop(found: Likelihood, max_hop: float) -> Check:
    """Plans ask no more of the controller than it can do."""
    if len(found.leads) < 3 or found.leads[-1] < max_hop:
        return unknown("hop", MAX_STRETCH, "trajectories are shorter than a hop of a plan")
    natural = natural_hop(found)
    verdict = f"hops of up to {max_hop:.0f} steps; what the controller knows of its goal fades after {natural:.0f}"
    advice = f"plan with shorter hops: model.set_planning(max_hop={natural:.0f}, reach={natural / 5:.0f})"
    return at_most("hop", max_hop / natural, MAX_STRETCH, verdict, advice)


def check_routes(routed: float | None) -> Check:
    """Where somebody went, the keypoints have a way."""
    if routed is None:
        return unknown("routes", MIN_ROUTED, "trajectories are shorter than a hop of a plan")
    verdict = f"{routed:.1%} of the logged trips have a plan over the keypoints"
    advice = "the keypoints' graph falls apart: set more keypoints (keypoints.n), or longer hops (planning.max_hop)"
    return at_least("routes", routed, MIN_ROUTED, verdict, advice)


def check_coverage(found: Coverage, max_hop: float) -> Check:
    """From every state a keypoint is within a hop, and every state from a keypoint."""
    there, back = ((found.there <= max_hop).mean(), (found.back <= max_hop).mean())
    verdict = f"{there:.1%} of states have a keypoint within a hop, {back:.1%} are within a hop of one"
    advice = "plans have gaps: set more keypoints (keypoints.n), or train longer so that they spread"
    return at_least("coverage", float(min(there, back)), MIN_COVERED, verdict, advice)
