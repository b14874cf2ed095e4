"""How many updates follow from the data."""

from __future__ import annotations

import numpy as np
import pytest

from proq_agent import GCBC, GoalDataset
from proq_agent.common.updates import LEAST_UPDATES, enough_updates


def logs(rows: int, observation_dim: int = 2, goal_dim: int = 2, action_dim: int = 2) -> GoalDataset:
    rng = np.random.default_rng(0)
    arrays = (rng.uniform(size=(rows, dim)) for dim in (observation_dim, action_dim))
    ends = np.arange(rows) % 10 == 9
    return GoalDataset(*arrays, ends, achieved_goals=rng.uniform(size=(rows, goal_dim)))


def test_more_numbers_take_more_updates_and_few_rows_take_fewer():
    many = logs(100_000)
    assert enough_updates(many, 256) == 10_000
    assert enough_updates(logs(100_000, 29, 29, 8), 256) == 33_200
    assert enough_updates(logs(5_000), 256) == 3_900
    assert enough_updates(logs(5_000), 64) == 10_000  # smaller batches see a row as often in more of them
    assert enough_updates(logs(20), 256) == LEAST_UPDATES


def test_learning_takes_them_unless_told(capsys: pytest.CaptureFixture[str]):
    model = GCBC(dataset=logs(20), batch_size=4, policy_kwargs={"hidden_sizes": [2]}, verbose=1)
    assert model.learn(3, log_interval=None).num_timesteps == 3
    assert "from the data" not in capsys.readouterr().out
    assert model.learn(log_interval=None).num_timesteps == LEAST_UPDATES
    assert f"from the data: {LEAST_UPDATES} updates" in capsys.readouterr().out
