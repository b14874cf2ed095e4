"""Diagnose a trained agent by the trajectories of its dataset that it did not learn from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proq_agent.proq.acting_check import check_plan
from proq_agent.proq.hop_trials import check_hops
from zoo.data.tasks import task_envs
from zoo.figures.canvas import check_suffix
from zoo.figures.diagnosis import draw_diagnosis
from zoo.figures.learned_map import has_map

if TYPE_CHECKING:
    from proq_agent.proq.diagnosis import Diagnosis
    from zoo.data.source import DataSource
    from zoo.runs.agents import AgentChoice


def diagnose(agent: AgentChoice, data: DataSource, n_episodes: int = 0, plot: Path | None = None) -> Diagnosis:
    """
    Look for faults of an agent.

    :param agent: which one
    :param data: where its dataset comes from: of that, what was set aside when it was trained
    :param n_episodes: of each task in its environment: of logged hops, with and without a plan; 0 for none
    :param plot: picture to write
    :raises ValueError: if there is nothing to look at
    """
    if plot:
        check_suffix(plot)
    if agent.env is None and data.path is None:
        raise ValueError("by which trajectories? give --env ID or --dataset-path FILE")
    if agent.env is None and n_episodes:
        raise ValueError("where shall the agent act? give --env ID")
    model: Any = agent.load()
    if not has_map(model):
        raise ValueError(f"{agent.algo} has no map to diagnose")
    dataset, info = data.load(agent.env or str(data.path))
    print(info.describe())
    held_out = dataset.split(model.held_out, model.seed).held_out
    if held_out is None:
        print(
            "note: nothing was set aside; the agent has learned from the trajectories it is judged by", file=sys.stderr
        )
    found = model.diagnose(held_out or dataset, dataset)
    if n_episodes:
        assert agent.env is not None
        pool, tasks = task_envs(agent.env, agent.trust_dataset)
        try:
            found = found.with_check(check_hops(model, pool, tasks, n_episodes, held_out or dataset))
            found = found.with_check(check_plan(model, pool, tasks, n_episodes))
        finally:
            pool.close()
    print(found.summary())
    if plot:
        draw_diagnosis(found, plot)
        print(f"wrote {plot}")
    return found
