"""The result of a diagnosis: checks, each with a verdict in words and what to do, and a summary of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from proq_agent.proq.hop_evidence import Coverage, Likelihood
from proq_agent.proq.map_evidence import Calibration, Separation
from proq_agent.proq.promises import Promises


@dataclass(frozen=True)
class Check:
    """
    One thing that may be wrong with an agent.

    :param name: what was looked at
    :param value: what was found; NaN if nothing could be
    :param threshold: what it is compared with
    :param ok: whether that is fine; None if it could not be checked
    :param verdict: what it means
    :param advice: what to do; empty where nothing is to be done
    """

    name: str
    value: float
    threshold: float
    ok: bool | None
    verdict: str
    advice: str = ""


@dataclass(frozen=True)
class Measured:
    """What the checks are based on, for pictures and closer looks."""

    max_hop: float
    calibration: Calibration
    promises: Promises
    separation: Separation
    likelihood: Likelihood
    coverage: Coverage


class Diagnosis(Mapping[str, float]):
    """
    The checks of an agent. As a mapping: every number by its name, those of the checks and those about keypoints.

    :param checks: in the order in which they matter
    :param numbers: others that help to understand them
    :param measured: what they are based on; None if there were no trajectories to look at
    """

    def __init__(
        self, checks: Sequence[Check], numbers: Mapping[str, float] | None = None, measured: Measured | None = None
    ) -> None:
        self.checks = tuple(checks)
        self.measured = measured
        self._numbers = {**(numbers or {}), **{check.name: check.value for check in checks}}

    def with_check(self, check: Check) -> Diagnosis:
        """The same and one check more."""
        return Diagnosis((*self.checks, check), self._numbers, self.measured)

    @property
    def ok(self) -> bool:
        """Whether no check found a fault."""
        return not self.faults

    @property
    def faults(self) -> tuple[Check, ...]:
        """The checks that found one."""
        return tuple(check for check in self.checks if check.ok is False)

    def summary(self) -> str:
        """A line for each check, and below them what to do."""
        width = max((len(check.name) for check in self.checks), default=0)
        words = {True: "fine", False: "WRONG", None: "-"}
        lines = [f"{words[check.ok]:<6}{check.name:<{width}}  {check.verdict}" for check in self.checks]
        if not self.checks:
            return "nothing was checked: give trajectories that the agent did not learn from"
        if self.ok:
            return "\n".join([*lines, "no fault was found"])
        return "\n".join([*lines, "", *(f"{check.name}: {check.advice}" for check in self.faults)])

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        faults = ", ".join(check.name for check in self.faults)
        return f"Diagnosis({len(self.checks)} checks, {f'faults: {faults}' if faults else 'no fault'})"

    def __getitem__(self, name: str) -> float:
        return self._numbers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def at_most(name: str, value: float, threshold: float, verdict: str, advice: str) -> Check:
    ok = bool(value <= threshold)  # not if it is NaN
    return Check(name, value, threshold, ok, verdict, "" if ok else advice)


def at_least(name: str, value: float, threshold: float, verdict: str, advice: str) -> Check:
    ok = bool(value >= threshold)
    return Check(name, value, threshold, ok, verdict, "" if ok else advice)


def unknown(name: str, threshold: float, why: str) -> Check:
    return Check(name, float("nan"), threshold, None, f"not checked: {why}")
