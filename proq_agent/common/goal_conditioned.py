"""What the goal-conditioned algorithms share: one policy, one loss, one optimiser."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch as th
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule

from proq_agent.common.actor_losses import Metrics
from proq_agent.common.dataset import GoalDataset
from proq_agent.common.distributed import own_rows
from proq_agent.common.goal_policy import GoalPolicy
from proq_agent.common.goal_sampling import GoalMixture, GoalSampling
from proq_agent.common.offline import OfflineAlgorithm
from proq_agent.common.settings import is_finite_number
from proq_agent.common.tensor_cores import tensor_cores


@dataclass(frozen=True)
class HindsightGoals(GoalSampling):
    """
    Goals as OGBench draws them. Its shares ``p_curgoal``, ``p_trajgoal`` and ``p_randomgoal`` are ``current``,
    ``future`` (with ``geom_sample``, else ``future_uniform``) and ``uniform``. Two things differ: the shares of a batch
    are exact instead of drawn, and the last state of a trajectory may be a goal, which its loader leaves out.

    :param value: kinds of the goals that values are learned for; what is left of the batch is uniform
    :param actor: kinds of the goals that the actor is to reach; what is left lies anywhere in the future
    :param discount: of the values, and of the offsets of goals in the future
    """

    value: GoalMixture = field(default_factory=lambda: GoalMixture(current=0.2, future=0.5))

    def check(self) -> None:
        object.__setattr__(self, "actor", self.actor.filled("future_uniform"))
        super().check()


class GoalConditioned(OfflineAlgorithm):
    """
    A :class:`~proq_agent.common.goal_policy.GoalPolicy` that one optimiser moves down one loss.

    A subclass has a :meth:`loss`, and :meth:`update_targets` if it has slow copies of networks. Where several processes
    share a batch, networks see ``own_rows`` of it, and the loss is one of the ``whole`` of what they return.

    :param policy: as of :class:`~proq_agent.common.offline.OfflineAlgorithm`
    :param env: likewise
    :param learning_rate: likewise
    :param batch_size: likewise
    :param goals: how goals are drawn
    :param acting_std: standard deviation of sampled actions, on a scale from -1 to 1; the actor is learned with 1
    :param others: as of :class:`~proq_agent.common.offline.OfflineAlgorithm`
    """

    policy: GoalPolicy
    stateful: ClassVar[tuple[str, ...]] = ("optimizer",)
    shares_batches: ClassVar[bool] = True

    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: GymEnv | str | None,
        learning_rate: float | Schedule,
        batch_size: int,
        goals: GoalSampling,
        acting_std: float,
        **others: Any,
    ) -> None:
        super().__init__(policy, env, learning_rate, batch_size, **others)
        self.goals = goals
        self.acting_std = acting_std
        self.require_numbers("acting_std")
        self.require(acting_std >= 0.0, "acting_std", "not be negative")

    def require_numbers(self, *names: str) -> None:
        """
        :param names: of arguments
        :raises ValueError: if one of them is no finite number
        """
        for name in names:
            self.require(is_finite_number(getattr(self, name)), name, "be a finite number")

    def require(self, condition: bool, name: str, rule: str) -> None:
        """
        :param condition: whether the argument is as it should be
        :param name: of the argument
        :param rule: completes "it must ..."
        :raises ValueError: if it is not
        """
        if not condition:
            raise ValueError(f"{name} must {rule}, got {getattr(self, name)!r}")

    @classmethod
    def acting_settings(cls, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        return ("acting_std",)

    def _policy_arguments(self) -> dict[str, Any]:
        return {"acting_std": self.acting_std}

    def _setup_training(self) -> None:
        self.optimizer = self._adam(p for p in self.policy.parameters() if p.requires_grad)

    def _fit(self, dataset: GoalDataset) -> None:
        self.policy.fit(dataset)

    def draw(self, generator: th.Generator | None) -> Any:
        """
        Transitions and goals for them.

        :param generator: source of randomness
        """
        assert self.dataset is not None
        return self.goals.sample(self.dataset, self.batch_size, generator)

    def sample(self) -> Any:
        """The next batch, as the networks see it."""
        return self.policy.seen(self.next_batch())

    @abstractmethod
    def loss(self, batch: Any) -> tuple[th.Tensor, Metrics]:
        """
        What is descended on, and metrics for the log.

        :param batch: what :meth:`sample` returns
        """

    def update_targets(self) -> None:
        """Move slow copies of networks."""

    def train(self) -> None:
        """One gradient update."""
        self.policy.set_training_mode(True)
        batch = own_rows(self.sample())
        with tensor_cores(self.device):
            loss, metrics = self.loss(batch)
            self._differentiate(self.optimizer, loss)
            self.update_targets()  # before the step, as OGBench does: they follow one update later
            self._step(self.optimizer, metrics)
        self._n_updates += 1


def named(part: str, *metrics: Metrics) -> Metrics:
    """Metrics under the name of the part that they are of."""
    return {f"{part}/{name}": value for group in metrics for name, value in group.items()}
