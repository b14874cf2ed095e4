"""How a training is watched."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.cli import MAX_UPDATES, check_counts

# Of each task and way of acting: while training a coarse curve that takes hardly any time.
EPISODES_WHILE_TRAINING, EPISODES_AT_THE_END = 5, 50
EVALUATIONS, CHECKPOINTS, LOGS = 4, 4, 50  # how often in a training, by default


@dataclass(frozen=True)
class TrainingOptions:
    """
    How a training is watched; none of it changes what is learned.

    :param eval_freq: updates between evaluations, -1 for none; None for ``EVALUATIONS`` of them once they are useful
    :param eval_episodes: of each task; None for few while training and more at the end
    :param n_eval_envs: episodes that run at once
    :param save_freq: updates between checkpoints, -1 for none; None for ``CHECKPOINTS`` of them
    :param log_interval: updates between log entries; None for ``LOGS`` of them
    :param tensorboard_log: folder; None for one in the run's folder
    :param progress: a progress bar instead of printed logs; None for one in a terminal
    :param verbose: 0 for no output
    :param wandb: arguments of ``wandb.init``; None not to track the run
    :raises ValueError: if one of them makes no sense
    """

    eval_freq: int | None = None
    eval_episodes: int | None = None
    n_eval_envs: int | None = None
    save_freq: int | None = None
    log_interval: int | None = None
    tensorboard_log: Path | None = None
    progress: bool | None = None
    verbose: int = 1
    wandb: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_counts(eval_episodes=self.eval_episodes, n_eval_envs=self.n_eval_envs, log_interval=self.log_interval)
        for name in ("eval_freq", "save_freq"):
            value = getattr(self, name)
            if value is not None and not (value == -1 or 1 <= value <= MAX_UPDATES):
                raise ValueError(f"--{name.replace('_', '-')} must be at least 1, or -1 for never, got {value}")

    @property
    def shows_bar(self) -> bool:
        return self.verbose > 0 and (sys.stderr.isatty() if self.progress is None else self.progress)
