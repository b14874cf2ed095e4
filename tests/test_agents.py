"""The agents that are shipped load without running anyone's code, are small, and can do what they were trained for."""

from __future__ import annotations

from pathlib import Path

import pytest

import zoo
from proq_agent import ProQ
from proq_agent.common.archive import read_archive
from proq_agent.common.evaluation import evaluate_tasks
from wrappers import make_goal_env
from zoo.data.catalogue import POINTMAZE_IDS

AGENTS = sorted((Path(zoo.__file__).parent / "agents").glob("*/*.zip"))
EASIEST_TASK = {"medium": 3, "large": 3, "giant": 5, "teleport": 3}  # the one with the shortest route


def test_there_is_an_agent_for_every_dataset() -> None:
    assert {path.stem for path in AGENTS} == set(POINTMAZE_IDS)


@pytest.mark.parametrize("path", AGENTS, ids=lambda path: path.stem)
def test_a_shipped_agent_is_small_safe_and_solves_its_easiest_task(path: Path) -> None:
    assert path.stat().st_size <= 3_000_000
    assert read_archive(path).skipped == ()
    agent = ProQ.load(path, device="cpu")
    task = EASIEST_TASK[path.stem.split("-")[1]]
    results = evaluate_tasks(
        agent, lambda k: make_goal_env(path.stem, task_id=k), [task], episodes=3, deterministic=True, seed=0
    )
    assert results.success.all()
