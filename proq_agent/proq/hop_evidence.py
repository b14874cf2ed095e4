"""What held-out trajectories tell about hops: how far the controller knows the way, and are keypoints within?"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch as th

from proq_agent.common.logged_pairs import N_PAIRS, leads_up_to, pairs_apart

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.planning.hops import HopGraph
    from proq_agent.proq.policies import ProQPolicy

KEPT = 0.6  # share of its advantage over chance that a controller keeps up to its natural hop


class Likelihood(NamedTuple):
    """How much the controller's goal tells about the logged action; one row a lead."""

    leads: np.ndarray  #: time steps to the goal
    share: np.ndarray  #: how often the logged action is likelier with that goal than with a random one
    chance: np.ndarray  #: the same of an action that was logged elsewhere

    @property
    def advantage(self) -> np.ndarray:
        """What the controller knows: nothing if it is zero."""
        return self.share - self.chance


class Coverage(NamedTuple):
    """Learned distances between held-out states and the nearest keypoint that plans may use."""

    there: np.ndarray  #: from the state to a keypoint
    back: np.ndarray  #: from a keypoint to the state


@th.no_grad()
def action_likelihood(
    policy: ProQPolicy, dataset: GoalDataset, leads: list[int], generator: th.Generator | None
) -> Likelihood:
    """
    How often the logged action is likelier under the controller if its goal is where the log went than if it is a
    random state of the data: what the controller knows about goals so far ahead.

    :param policy: holds the controller
    :param dataset: trajectories that it did not learn from
    :param leads: time steps to the goal
    :param generator: source of randomness
    """
    shares = []
    for lead in leads:
        rows, later = pairs_apart(dataset, lead, generator)
        here = policy.locate(dataset.achieved_goals[rows])
        other = dataset.random_transitions(len(rows), generator)
        actions = dataset.actions[th.stack([rows, other])]
        log_probs = []
        for goals in (later, dataset.random_rows(len(rows), generator)):
            target = policy.locate(dataset.achieved_goals[goals])
            log_probs.append(policy.log_prob(actions, dataset.observations[rows], here, target))
        shares.append((log_probs[0] > log_probs[1]).float().mean(dim=1).tolist())
    return Likelihood(np.array(leads), *np.array(shares).T)


def natural_hop(likelihood: Likelihood) -> float:
    """
    The longest lead up to which a controller keeps most of what it knows about nearer goals.

    :param likelihood: a lead of one does not count: where the next state is says which action it was
    :return: in time steps, between the leads by linear interpolation; the longest lead if it never loses that much
    """
    leads, advantage = likelihood.leads[1:], likelihood.share[1:] - 0.5
    enough = KEPT * advantage.max()
    lost = np.flatnonzero(np.minimum.accumulate(advantage[advantage.argmax() :]) < enough)
    if not len(lost) or enough <= 0:
        return float(leads[-1] if enough > 0 else leads[0])
    i = int(advantage.argmax() + lost[0])
    return float(np.interp(-enough, -advantage[i - 1 : i + 1], leads[i - 1 : i + 1]))


@th.no_grad()
def coverage(policy: ProQPolicy, graph: HopGraph, dataset: GoalDataset, generator: th.Generator | None) -> Coverage:
    """
    How far held-out states are from the keypoints.

    :param policy: holds d and the keypoints
    :param graph: says which of them plans may use
    :param dataset: trajectories that it did not learn from
    :param generator: source of randomness
    """
    states = policy.embed_goals(dataset.achieved_goals[dataset.random_rows(N_PAIRS, generator)])
    there, back = _to_and_from(policy, graph, states)
    return Coverage(there.min(axis=1, initial=np.inf), back.min(axis=0, initial=np.inf))


@th.no_grad()
def routed_trips(
    policy: ProQPolicy,
    graph: HopGraph,
    dataset: GoalDataset,
    max_hop: float,
    generator: th.Generator | None,
) -> float | None:
    """
    Share of the logged trips, longer than a hop, for which the keypoints have a way of hops up to ``max_hop``.

    Of all pairs of keypoints some may be without one for a reason, as in a world with ways of no return; where somebody
    went there is a way.

    :param policy: holds d and the keypoints
    :param graph: of these
    :param dataset: trajectories that it did not learn from
    :param max_hop: τ
    :param generator: source of randomness
    :return: None if no trajectory is as long
    """
    components = graph.components(policy.n_keypoints)
    leads = [lead for lead in leads_up_to(dataset, 8.0 * max_hop) if lead > max_hop]
    shares = []
    for lead in leads:
        starts, ends = (
            policy.embed_goals(dataset.achieved_goals[rows]) for rows in pairs_apart(dataset, lead, generator)
        )
        onto = components.any(_to_and_from(policy, graph, starts)[0] <= max_hop)
        off = components.any(max_hop >= _to_and_from(policy, graph, ends)[1].T)
        direct = (policy.distances(starts, ends) <= max_hop).cpu().numpy()
        shares.append((direct | ((onto.astype(float) @ components.leads_to) * off).any(axis=1)).mean())
    return float(np.mean(shares)) if shares else None


def _to_and_from(policy: ProQPolicy, graph: HopGraph, states: th.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """d from states to the keypoints that plans may use ``[states, keypoints]``, and back ``[keypoints, states]``."""
    free = th.as_tensor(~graph.blocked[: policy.n_keypoints], device=states.device)
    keypoints = policy.embed_goals(policy.keypoints[free])
    both = policy.pairwise_distances(states, keypoints), policy.pairwise_distances(keypoints, states)
    return both[0].cpu().numpy(), both[1].cpu().numpy()
