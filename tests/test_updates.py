"""How many updates follow from the data."""

from __future__ import annotations

import numpy as np
import pytest

from proq_agent import GCBC, GCIQL, GoalDataset
from proq_agent.common.updates import LEAST_UPDATES, enough_updates
from zoo.config import load_hyperparams
from zoo.registry import ALGOS, algorithm


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
    model = GCIQL(dataset=logs(20), batch_size=4, policy_kwargs={"hidden_sizes": [2]}, verbose=1)
    assert model.learn(3, log_interval=None).num_timesteps == 3
    assert "from the data" not in capsys.readouterr().out
    assert model.learn(log_interval=None).num_timesteps == LEAST_UPDATES
    assert f"from the data: {LEAST_UPDATES} updates" in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name in ALGOS if name != "proq"])
def test_other_algorithms_take_the_time_of_proq(name: str):
    model = algorithm(name)(dataset=logs(100_000), policy_kwargs={"hidden_sizes": [2]})
    assert model.enough_updates() == round(10_000 * model.updates_at_equal_time)
    _, in_the_zoo = load_hyperparams("pointmaze-giant-stitch-v0", algo=name)
    assert in_the_zoo is None  # left to the data


def test_an_update_of_cloning_alone_is_the_cheapest():
    assert GCBC.updates_at_equal_time == max(algorithm(name).updates_at_equal_time for name in ALGOS) > 1.0
