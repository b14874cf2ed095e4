"""What chance decided is set apart, and one line says so."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from chance_worlds import SIDE, STEP, Square, landing_at

from proq_agent import GoalDataset, ProQ
from proq_agent.chance.separation import separate_chance


def resets(rate: float) -> Square:
    return Square(lambda at: np.where(at[:, 0] > SIDE / 2, rate, 0.0), landing_at((2.0, 10.0)))


def test_the_summary_tells_how_many_and_where() -> None:
    data = resets(0.005).walks(20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apart = separate_chance(data, seed=0)
    jumps = np.linalg.norm(np.diff(data.observations.numpy(), axis=0), axis=1) > 3.0
    np.testing.assert_array_equal(apart.rows, data.transition_rows[jumps[data.transition_rows]])
    assert f"{len(apart.rows)} of 20000 transitions" in apart.summary
    assert "goal coordinates 0 (" in apart.summary and "0 portals, 1 regions of risk" in apart.summary
    assert "\n" not in apart.summary
    np.testing.assert_allclose(apart.edges[0].step, STEP, rtol=0.2)


def test_nothing_is_set_apart_where_nothing_jumps() -> None:
    apart = separate_chance(resets(0.0).walks(10_000), seed=0)
    assert not len(apart.rows) and apart.edges == ()
    assert apart.summary == "0 of 10000 transitions (0 %) were decided by chance and are set apart"


def test_much_chance_is_worth_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"That is much; .*stochastic='ignore'"):
        separate_chance(resets(0.05).walks(20_000), seed=0)


def test_so_are_trajectories_in_pieces() -> None:
    with pytest.warns(UserWarning, match=r"It leaves pieces of \d+ rows"):
        separate_chance(resets(0.01).walks(40_000, length=10_000), seed=0)


def test_jumps_are_looked_for_in_goal_space() -> None:
    data = resets(0.005).walks(20_000)
    rng = np.random.default_rng(0)
    hidden = np.where(rng.random((len(data), 1)) < 0.01, rng.normal(scale=50.0, size=(len(data), 1)), 0.0)
    ends = np.zeros(len(data), dtype=bool)
    ends[data.trajectory_ends] = True
    observations = np.hstack([data.observations.numpy(), hidden])  # it jumps as well, but is no part of goals
    wider = GoalDataset(observations, data.actions.numpy(), ends, data.observations.numpy())
    np.testing.assert_array_equal(separate_chance(wider, seed=0).rows, separate_chance(data, seed=0).rows)


@pytest.mark.parametrize("rate", [0.0, 0.005])
def test_an_agent_always_says_so_once(rate: float, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Also if nothing else is told and nothing was found; who loads it or goes on with it was told already."""
    data = resets(rate).walks(5_000)
    small = {"batch_size": 8, "policy_kwargs": {"hidden_sizes": [8]}, "keypoints": {"n": 5}, "device": "cpu"}
    agent = ProQ(dataset=data, seed=0, **small)
    (told,) = capsys.readouterr().out.splitlines()
    found, rest = told.split(" of ", 1)
    assert (int(found) > 0) == (rate > 0.0) and "decided by chance" in rest
    agent.learn(1, log_interval=None).save(tmp_path / "agent.zip")
    again = ProQ.load(tmp_path / "agent.zip", device="cpu")
    again.set_dataset(data)
    assert again.dataset.n_trajectories == agent.dataset.n_trajectories and capsys.readouterr().out == ""
