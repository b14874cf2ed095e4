"""A policy that heads for ``desired_goal``: what the actors of the goal-conditioned algorithms share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch as th
from gymnasium import spaces
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import nn

from proq_agent.common.action_range import scale_actions
from proq_agent.common.goal_networks import GoalActor
from proq_agent.common.networks import FourierFeatures, Standardise
from proq_agent.common.policy_file import SavedPolicy
from proq_agent.common.spaces import check_goal_spaces

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset

Batch = TypeVar("Batch", bound=Any)


class GoalPolicy(SavedPolicy):
    """
    An actor μ(s, g). Subclasses add, in :meth:`build`, the values that it is learned from.

    :param observation_space: Dict with ``observation``, ``achieved_goal`` and ``desired_goal``
    :param action_space: bounded Box
    :param lr_schedule: not used here: the algorithm owns the optimiser
    :param acting_std: standard deviation of sampled actions, on a scale from -1 to 1
    :param hidden_sizes: hidden layers of every network
    :param standardise: shift and scale observations and goals by statistics of the data; OGBench does not
    :param n_fourier_features: random Fourier features appended to observations and to goals; 0 for none
    :param fourier_scale: standard deviation of their frequencies
    """

    constructor: ClassVar[tuple[str, ...]] = (
        "observation_space", "action_space", "acting_std", "hidden_sizes", "standardise", "n_fourier_features",
        "fourier_scale",
    )  # fmt: skip
    batch_observations: ClassVar[tuple[str, ...]] = ("observations", "next_observations")
    batch_goals: ClassVar[tuple[str, ...]] = ("achieved_goals", "next_achieved_goals", "value_goals", "actor_goals")
    action_low: th.Tensor
    action_high: th.Tensor

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Schedule | None = None,
        *,
        acting_std: float,
        hidden_sizes: Sequence[int] = (512, 512, 512),
        standardise: bool = False,
        n_fourier_features: int = 0,
        fourier_scale: float = 2.0,
    ) -> None:
        check_goal_spaces(observation_space, action_space)
        super().__init__(observation_space, action_space)
        assert isinstance(observation_space, spaces.Dict) and isinstance(action_space, spaces.Box)
        self.acting_std, self.hidden_sizes, self.standardise = acting_std, tuple(hidden_sizes), standardise
        self.n_fourier_features, self.fourier_scale = n_fourier_features, fourier_scale
        self.generator: th.Generator | None = None  #: of sampled actions; None for PyTorch's own

        def features(space: spaces.Space) -> nn.Sequential:
            (dim,) = space.shape  # type: ignore[misc]
            return nn.Sequential(Standardise(dim), FourierFeatures(dim, n_fourier_features, fourier_scale))

        self.observation_features = features(observation_space["observation"])
        self.goal_features = features(observation_space["achieved_goal"])
        self.register_buffer("action_low", th.tensor(action_space.low, dtype=th.float32))
        self.register_buffer("action_high", th.tensor(action_space.high, dtype=th.float32))
        # Of what the networks see.
        self.observation_dim: int = self.observation_features[-1].output_dim  # type: ignore[assignment]
        self.goal_dim: int = self.goal_features[-1].output_dim  # type: ignore[assignment]
        self.action_dim: int = action_space.shape[0]
        self.build()

    def build(self) -> None:
        """Make the networks."""
        self.actor = GoalActor(self.observation_dim, self.goal_dim, self.hidden_sizes, self.action_dim)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        """For ``save`` and ``load`` of a policy alone."""
        return {name: getattr(self, name) for name in self.constructor}

    def fit(self, dataset: GoalDataset) -> None:
        """Take the statistics that inputs are standardised with, if they are."""
        if self.standardise:
            for features, data in (
                (self.observation_features, dataset.observations),
                (self.goal_features, dataset.achieved_goals),
            ):
                features[0].fit(data)  # type: ignore[operator]

    def seen(self, batch: Batch) -> Batch:
        """
        A batch as the networks see it: features instead of observations and goals, actions scaled to [-1, 1].

        :param batch: a named tuple of tensors
        """
        return batch._replace(
            actions=scale_actions(batch.actions, self.action_low, self.action_high),
            **{name: self.observation_features(getattr(batch, name)) for name in self.batch_observations},
            **{name: self.goal_features(getattr(batch, name)) for name in self.batch_goals},
        )

    def act(self, observations: th.Tensor, goals: th.Tensor, deterministic: bool = False) -> th.Tensor:
        """
        Actions between -1 and 1.

        :param observations: as the networks see them
        :param goals: likewise
        :param deterministic: the mean instead of a sample
        """
        return self._draw(self.actor(observations, goals), deterministic).clamp(-1.0, 1.0)

    def _draw(self, mean: th.Tensor, deterministic: bool) -> th.Tensor:
        if deterministic:
            return mean
        return mean + self.acting_std * th.randn(mean.shape, generator=self.generator, device=mean.device)

    def forward(self, observation: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        return self._predict(observation, deterministic)

    def _predict(self, observation: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        assert isinstance(observation, dict)
        observations = self.observation_features(observation["observation"].float())
        goals = self.goal_features(observation["desired_goal"].float())
        actions = self.act(observations, goals, deterministic)
        return th.lerp(self.action_low, self.action_high, 0.5 * actions + 0.5)
