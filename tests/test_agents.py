"""The agents that are shipped load without running anyone's code, are small, and can do what they were trained for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import zoo
from proq_agent import ProQ
from proq_agent.common.archive import read_archive
from proq_agent.common.evaluation import evaluate_tasks
from wrappers import make_goal_env
from zoo.data.catalogue import POINTMAZE_IDS

AGENTS = sorted((Path(zoo.__file__).parent / "agents").glob("*/*.zip"))
SOLVED_BY_ANTS = (
    *("medium-navigate", "large-navigate", "giant-navigate", "teleport-navigate"),
    *("medium-stitch", "large-stitch", "giant-stitch", "teleport-stitch"),
    *("medium-explore", "large-explore", "teleport-explore"),
)
EASIEST_TASK = {"medium": 3, "large": 3, "giant": 5, "teleport": 3}  # the one with the shortest route


def test_there_is_an_agent_for_every_dataset_of_the_point_and_for_those_of_the_ant_that_are_solved() -> None:
    assert {path.stem for path in AGENTS} == {*POINTMAZE_IDS, *(f"antmaze-{name}-v0" for name in SOLVED_BY_ANTS)}


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


def test_an_agent_of_the_first_format_acts_as_its_successor(tmp_path: Path) -> None:
    """Saved by version 0.1: another container, flat names of settings."""
    with pytest.warns(FutureWarning, match=r"max_hop is planning\.max_hop now") as warned:
        old = ProQ.load(Path(__file__).parent / "data" / "agent_format_1.zip", device="cpu")
    assert len([warning for warning in warned if warning.category is FutureWarning]) == 1
    old.save(tmp_path / "agent.zip")
    new = ProQ.load(tmp_path / "agent.zip", device="cpu")
    goals = new.policy.keypoints.numpy()
    batch = {"observation": goals, "achieved_goal": goals, "desired_goal": goals[::-1].copy()}
    for deterministic in (True, False):
        actions = []
        for agent in (old, new):
            agent.set_random_seed(3)
            actions.append(agent.predict(batch, deterministic=deterministic)[0])
        np.testing.assert_array_equal(*actions)
    assert old.planning == new.planning and old.goals == new.goals
