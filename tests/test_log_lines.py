"""Printed logs: a line an entry outside a terminal."""

from __future__ import annotations

import pytest
from stable_baselines3.common.logger import Logger

from zoo.runs.log_lines import LogLines


def test_an_entry_is_one_line_of_losses(capsys: pytest.CaptureFixture[str]) -> None:
    logger = Logger(None, [LogLines()])
    for name, value in {"loss": 0.123456, "actor_loss": 2.0, "lambda_dist": 3.0, "n_updates": 10}.items():
        logger.record(f"train/{name}", value)
    logger.record("time/fps", 56)
    logger.dump(10)
    logger.record("eval/success_rate", 0.5)  # printed by the evaluation itself
    logger.dump(20)
    assert capsys.readouterr().out == "10 updates (56 a second): actor_loss 2, loss 0.1235\n"
