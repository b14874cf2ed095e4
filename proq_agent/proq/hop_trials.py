"""Whether the controller can do what the log did: hops of held-out trajectories, tried in an environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch as th

from proq_agent.common.evaluation import EnvPool, evaluate_tasks
from proq_agent.common.logged_pairs import pairs_apart
from proq_agent.common.spaces import check_observation
from proq_agent.proq.diagnosis import Check, at_least, unknown
from proq_agent.proq.map_evidence import without_jumps

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.proq.proq import ProQ

MIN_MADE = 0.8  # share of logged hops
PATIENCE = 2  # times as long as the log took
N_NEAREST = 10  # logged hops that begin nearest, of which one is tried


def check_hops(
    model: ProQ, pool: EnvPool, tasks: Sequence[int], episodes: int, dataset: GoalDataset, seed: int = 0
) -> Check:
    """
    From wherever an agent is, its controller heads for where the log was half a hop later, and on from there.

    :param model: the agent
    :param pool: its environments
    :param tasks: their numbers, see :func:`~proq_agent.common.evaluation.evaluate_tasks`
    :param episodes: of each task
    :param dataset: trajectories that it did not learn from
    :param seed: of episodes, hops and actions
    """
    planner = model.planner
    lead = max(1, round(planner.max_hop / 2))
    hops = HopTrials(model, dataset, lead, planner.reach, seed)
    if len(hops.ends):
        evaluate_tasks(hops, pool, tasks, episodes, deterministic=False, seed=seed)
    if not hops.made:
        return unknown("hops", MIN_MADE, f"no trajectory goes on for {lead} steps, or no episode for so many")
    value = float(np.mean(hops.made))
    verdict = f"{value:.1%} of {len(hops.made)} logged hops of {lead} steps are made in {PATIENCE * lead}"
    advice = (
        "the controller is not up to its hops: train longer, plan with shorter ones (planning.max_hop), or log more"
    )
    return at_least("hops", value, MIN_MADE, verdict, advice)


class HopTrials:
    """
    An agent without a goal of its own: one logged hop after the other.

    :param model: whose controller acts
    :param dataset: the log
    :param lead: how many steps a hop took there
    :param reach: a state at most this far is reached
    :param seed: of the hops
    """

    def __init__(self, model: ProQ, dataset: GoalDataset, lead: int, reach: float, seed: int) -> None:
        self.model, self.lead, self.reach = model, lead, reach
        self.made: list[bool] = []  #: of the hops that were tried
        self.acting_generator = model.acting_generator
        self._generator = np.random.default_rng(seed)
        policy = model.policy
        dataset = without_jumps(policy, model.on_map(dataset).to(policy.device))
        pairs = pairs_apart(dataset, lead, th.Generator(policy.device).manual_seed(seed))
        starts, ends = (self._located(dataset.achieved_goals[rows]) for rows in pairs)
        far = policy.distances(*(policy.embed(place) for place in (starts, ends))) > reach  # others are no hops
        self.starts, self.ends = policy.embed(starts[far]), ends[far]

    @th.no_grad()
    def predict(
        self,
        observation: np.ndarray | dict[str, np.ndarray],
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """As SB3's; the state is which hop each row is at, and how many steps it has left."""
        policy, space = self.model.policy, self.model.observation_space
        arrays, _ = check_observation(observation, space)
        here = self._located(policy.on_map(arrays[policy.map_key]))
        hop, left = state or np.zeros((2, len(here)), dtype=np.int64)
        begins = np.ones(len(here), dtype=bool) if state is None else np.asarray(episode_start)
        away = policy.distances(policy.embed(here), policy.embed(self.ends[hop])).cpu().numpy()
        arrived = away <= self.reach
        ended = ~begins & (arrived | (left == 0))
        self.made += arrived[ended].tolist()
        new = begins | ended
        hop, left = np.where(new, self._hops_near(here), hop), np.where(new, PATIENCE * self.lead, left)
        observations = th.as_tensor(arrays["observation"], device=policy.device)
        actions = policy.act(observations, here, self.ends[hop], deterministic, self.acting_generator)
        return actions.cpu().numpy(), (hop, left - 1)

    def _located(self, points: Any) -> th.Tensor:
        policy = self.model.policy
        return policy.locate(th.as_tensor(points, dtype=th.float32, device=policy.device))

    def _hops_near(self, here: th.Tensor) -> np.ndarray:
        """One of the hops that begin nearest to each state, there and back."""
        policy, at = self.model.policy, self.model.policy.embed(here)
        apart = policy.pairwise_distances(at, self.starts) + policy.pairwise_distances(self.starts, at).T
        nearest = apart.topk(min(N_NEAREST, apart.shape[1]), largest=False).indices.cpu().numpy()
        return nearest[np.arange(len(nearest)), self._generator.integers(nearest.shape[1], size=len(nearest))]
