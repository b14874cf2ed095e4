"""Whether plans help: the agent beside its own controller, which heads straight for the goal, in an environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from proq_agent.common.evaluation import EnvPool, evaluate_tasks
from proq_agent.proq.diagnosis import Check, at_least

if TYPE_CHECKING:
    from proq_agent.proq.proq import ProQ

SPREAD = 2.0  # standard errors that are put down to chance


def check_plan(model: ProQ, pool: EnvPool, tasks: Sequence[int], episodes: int, seed: int = 0) -> Check:
    """
    Play the same episodes with and without a plan.

    :param model: the agent
    :param pool: its environments
    :param tasks: their numbers, see :func:`~proq_agent.common.evaluation.evaluate_tasks`
    :param episodes: of each task
    :param seed: of episodes and actions
    :return: the value is by how much plans raise the share of goals reached
    """
    planned, direct = (
        evaluate_tasks(actor, pool, tasks, episodes, deterministic=False, seed=seed).success_rate
        for actor in (model, model.controller)
    )
    n = len(tasks) * episodes
    error = ((planned * (1.0 - planned) + direct * (1.0 - direct)) / n) ** 0.5
    verdict = f"{planned:.1%} of {n} goals are reached with a plan, {direct:.1%} without"
    advice = "act without a plan (model.controller), and see what else is wrong with the map"
    return at_least("plan", planned - direct, -SPREAD * error, verdict, advice)
