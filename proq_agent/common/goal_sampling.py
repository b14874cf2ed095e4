"""The goals that are drawn for a batch of transitions: a mixture of kinds for the value, another for the actor."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple

import torch as th

from proq_agent.common.settings import Settings

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset


class GoalBatch(NamedTuple):
    """Transitions and the goals drawn for them, all on the dataset's device."""

    observations: th.Tensor
    next_observations: th.Tensor
    actions: th.Tensor
    achieved_goals: th.Tensor
    next_achieved_goals: th.Tensor
    value_goals: th.Tensor
    actor_goals: th.Tensor
    rows: th.Tensor  #: of the states in the dataset
    value_rows: th.Tensor  #: of the value goals' states
    actor_rows: th.Tensor  #: of the actor goals' states

    @property
    def masks(self) -> th.Tensor:
        """``[batch]``, 0 where the value goal is the state itself, where an episode would end, and 1 elsewhere."""
        return (self.rows != self.value_rows).float()

    @property
    def rewards(self) -> th.Tensor:
        """``[batch]``, -1 a step until the value goal is reached, where it is 0."""
        return -self.masks


@dataclass(frozen=True)
class GoalMixture(Settings):
    """
    Shares of a batch whose goals are drawn in a certain way; they are of different rows and add up to one at most.

    :param uniform: any state of the dataset
    :param future: a later state of the same trajectory, at a geometric offset
    :param future_uniform: a later state of the same trajectory, any one
    :param current: the state itself
    :param near: the closest, in standardised coordinates, of some random states: uniform goals are hardly ever close to
        the state, so that without near ones nothing holds the short distances in place
    :param near_in_time: a few steps before or after on the same trajectory: near also across transitions that jump far
    :param on_map: chosen by the learned map, by algorithms that have one
    """

    uniform: float = 0.0
    future: float = 0.0
    future_uniform: float = 0.0
    current: float = 0.0
    near: float = 0.0
    near_in_time: float = 0.0
    on_map: float = 0.0

    def check(self) -> None:
        for field in fields(self):
            self.require(0.0 <= getattr(self, field.name) <= 1.0, field.name, "be a share, from 0 to 1")
        if self.total > 1.0 + 1e-6:
            given = ", ".join(f"{kind} {share:g}" for kind, share in self.shares.items())
            raise ValueError(f"the shares of goals must add up to 1 at most, got {given}")

    @property
    def shares(self) -> dict[str, float]:
        """Those above zero, by kind."""
        return {field.name: share for field in fields(self) if (share := getattr(self, field.name)) > 0.0}

    @property
    def total(self) -> float:
        return sum(self.shares.values())

    def filled(self, kind: str) -> GoalMixture:
        """The same mixture, whose remaining rows are of this kind."""
        return replace(self, **{kind: getattr(self, kind) + max(0.0, 1.0 - self.total)})

    def parts(self, batch_size: int) -> dict[str, slice]:
        """The rows of a batch that are drawn in each way; the first kind has those that the others leave."""
        first, *others = self.shares.items()
        parts, share = {}, 0.0
        for kind, own in others:
            parts[kind] = slice(round(share * batch_size), round((share + own) * batch_size))
            share += own
        return {first[0]: slice(round(share * batch_size), batch_size), **parts}


@dataclass(frozen=True)
class GoalSampling(Settings):
    """
    How goals are drawn for a batch of transitions.

    :param value: kinds of the goals that values or distances are learned for; what is left of the batch is uniform
    :param actor: kinds of the goals that the actor is to reach; what is left lies in the future (HER)
    :param discount: goals in the future lie 1 / (1 - discount) steps ahead on average
    """

    value: GoalMixture = GoalMixture()
    actor: GoalMixture = GoalMixture()
    discount: float = 0.99

    def check(self) -> None:
        self.require(0.0 < self.discount < 1.0, "discount", "lie strictly between 0 and 1")
        object.__setattr__(self, "value", self.value.filled("uniform"))
        object.__setattr__(self, "actor", self.actor.filled("future"))

    def sample(self, dataset: GoalDataset, batch_size: int, generator: th.Generator | None = None) -> GoalBatch:
        """
        Draw transitions uniformly and goals for them, without leaving the device.

        :param dataset: what to draw from
        :param batch_size: number of transitions
        :param generator: source of randomness, on the dataset's device
        """
        rows = dataset.random_transitions(batch_size, generator)
        actor_rows = self._draw(self.actor, dataset, rows, generator)
        value_rows = self._draw(self.value, dataset, rows, generator)
        steps = th.stack([rows, rows + 1])
        observations, next_observations = dataset.observations[steps]
        goals, next_goals, value_goals, actor_goals = dataset.achieved_goals[
            th.cat([steps, value_rows[None], actor_rows[None]])
        ]
        return GoalBatch(
            observations,
            next_observations,
            dataset.actions[rows],
            goals,
            next_goals,
            value_goals,
            actor_goals,
            rows,
            value_rows,
            actor_rows,
        )

    def _draw(
        self, mixture: GoalMixture, dataset: GoalDataset, rows: th.Tensor, generator: th.Generator | None
    ) -> th.Tensor:
        """Rows of the goals. Transitions are in random order, so that any part of a batch is as good as any other."""
        (first, _), *others = mixture.parts(len(rows)).items()
        goals = self._rows_of(first, dataset, rows, generator)  # for all; the others replace theirs
        for kind, part in others:
            if kind != "on_map":  # stays what it is until the map has chosen
                goals[part] = self._rows_of(kind, dataset, rows[part], generator)
        return goals

    def _rows_of(self, kind: str, dataset: GoalDataset, rows: th.Tensor, generator: th.Generator | None) -> th.Tensor:
        if kind == "uniform":
            return dataset.random_rows(len(rows), generator)
        if kind == "current":
            return rows.clone()
        if kind == "near":
            return dataset.nearest_of_random(rows, generator)
        if kind == "near_in_time":
            return dataset.near_in_time(rows, generator)
        uniform = th.rand(len(rows), generator=generator, device=rows.device)
        if kind == "future_uniform":
            return dataset.between_next_and_end(rows, uniform)
        offsets = (uniform.clamp_min(1e-30).log() / math.log(self.discount)).long() + 1
        return dataset.ahead(rows, offsets)  # also until the map has chosen
