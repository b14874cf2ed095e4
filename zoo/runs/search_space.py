"""Where to look for hyperparameters, as an algorithm's file says it under ``search``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

from zoo.config import SEARCH, read_block

if TYPE_CHECKING:
    import optuna

FINAL_LEARNING_RATE = 0.05  # of the first one


@dataclass(frozen=True)
class Range:
    """
    Where to look for one hyperparameter, to three digits.

    :param low: smallest number
    :param high: largest number
    :param log: as much between 1 and 10 as between 10 and 100
    :param form: what the number means: itself; the first value of a learning rate that falls (``decay``); 1 / (1 - x)
        of the value x, as how many steps ahead the goals of a discount lie (``horizon``)
    :param choices: instead of numbers, what to choose from
    """

    low: float = math.nan
    high: float = math.nan
    log: bool = False
    form: Literal["number", "decay", "horizon"] = "number"
    choices: tuple[Any, ...] = ()

    def suggest(self, trial: optuna.Trial, name: str) -> Any:
        """The trial's value, as a hyperparameter file has it."""
        if self.choices:
            return trial.suggest_categorical(name, list(self.choices))
        number = float(f"{trial.suggest_float(name, self.low, self.high, log=self.log):.3g}")
        if self.form == "decay":
            return f"lin_{number}_{float(f'{FINAL_LEARNING_RATE * number:.3g}')}"
        return float(f"{1.0 - 1.0 / number:.4g}") if self.form == "horizon" else number


def read_space(algo: str, conf_file: Path | None = None) -> dict[str, Range]:
    """
    The search space of an algorithm: the few hyperparameters that matter, by their dotted names.

    :param algo: its name
    :param conf_file: see :func:`zoo.config.read_block`
    :raises ValueError: if there is none, or it makes no sense
    """
    space = {}
    for name, given in read_block(SEARCH, algo, conf_file).items():
        try:
            fields: dict[str, Any] = {**given, "choices": tuple(given.get("choices", ()))}
            range_ = Range(**fields)
        except (TypeError, AttributeError) as error:
            raise ValueError(f"the search space of {algo} says {name}: {given}; {error}") from error
        if not range_.choices and not range_.low < range_.high:
            raise ValueError(f"the search space of {algo} says {name}: {given}; give low < high, or choices")
        space[name] = range_
    return space


def sample_overrides(trial: optuna.Trial, space: Mapping[str, Range]) -> tuple[str, ...]:
    """
    Draw from a search space.

    :param trial: draws the values
    :param space: where from
    :return: in the form of ``-params``
    """
    values = {name: range_.suggest(trial, name) for name, range_ in space.items()}
    return tuple(f"{name}:{yaml.safe_dump(value).splitlines()[0]}" for name, value in values.items())
