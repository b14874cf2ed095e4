from __future__ import annotations

from itertools import chain

import numpy as np

from proq_agent import ProQ
from zoo.data.tasks import make_task_env
from zoo.exploring.agent import ExploredAgent
from zoo.exploring.offers import SHIPPED
from zoo.exploring.walks import WalkOptions, walk

MAZE = "pointmaze-medium-navigate-v0"


def test_what_one_walk_finds_out_stays_with_it() -> None:
    """An agent with patience learns where it got stuck; the next visitor's plans know nothing of it."""
    model = ProQ.load(SHIPPED / f"{MAZE}.zip", device="cpu", planning={"patience": 1})
    env = make_task_env(MAZE)
    agent = ExploredAgent(MAZE, model, env, lambda: env, lambda: np.empty((0, 2)))
    before = agent.navigator(()).planner.version
    options = WalkOptions(task=None, deterministic=True, seed=0, rate=5000.0)
    lines = walk(agent, np.zeros(2, np.float32), np.full(2, 20.0, np.float32), (), options)
    happened = chain.from_iterable(line.get("happened", []) for line in lines)
    assert "looks for another way" in next(happened)
    assert agent.navigator(()).planner.version == before and model.planner.version == 0
    agent.close()
