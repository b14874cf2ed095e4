"""Weights & Biases: the logger's values, the map and the final table. Set ``WANDB_MODE=offline`` to work without it."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.logger import KVWriter


class WandbWriter(KVWriter):
    """
    A logger output that sends what it is given to a new run.

    :param folder: the run's local files go there
    :param kwargs: of ``wandb.init``: project, entity, tags, name, config
    :raises ValueError: if the run cannot be started
    """

    def __init__(self, folder: Path, **kwargs: Any) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ImportError("--track needs the package: pip install wandb") from error
        self._wandb = wandb
        try:
            self._run = wandb.init(dir=str(folder), **kwargs)
        except wandb.Error as error:
            raise ValueError(f"--track: {str(error).rstrip('.')}; or set WANDB_MODE=offline") from error

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        values = {key: value for key, value in key_values.items() if isinstance(value, numbers.Number | np.generic)}
        self._run.log(values, step=step)

    def log_table(self, name: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Send a table."""
        self._run.log({name: self._wandb.Table(columns=list(header), data=[list(row) for row in rows])})

    def log_image(self, name: str, path: Path) -> None:
        """Send a picture."""
        self._run.log({name: self._wandb.Image(str(path))})

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()
