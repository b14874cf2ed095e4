"""All that ProQ learns, as one module: the map of the goal space and the controller that follows it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import nn

from proq_agent.common.action_range import AT_LIMIT, scale_actions
from proq_agent.common.networks import MLP, FourierFeatures, Standardise
from proq_agent.common.orientations import OneSign
from proq_agent.common.policy_file import SavedPolicy
from proq_agent.common.spaces import check_goal_spaces
from proq_agent.proq.goal_states import GoalStates
from proq_agent.quasimetric.iqe import Quasimetric

GoalRows = TypeVar("GoalRows", np.ndarray, th.Tensor)

# Locations vary by about one over the whole map, but by far less over the short ways that the actor goes.
DIFFERENCE_GAIN = 5.0
N_TRIED = 1000  # keypoints of a file
NO_WAY = 1e-3  # standardised coordinates that are closer than about that have no direction


class ProQPolicy(SavedPolicy):
    """
    Encoder φ, quasimetric d, classifier ψ, actor π and keypoints p_k, with the statistics that standardise inputs.

    Called as a policy it is the controller alone: it heads straight for ``desired_goal``.

    :param observation_space: Dict with ``observation``, ``achieved_goal`` and ``desired_goal``
    :param action_space: bounded Box
    :param lr_schedule: not used here: the algorithm owns the optimisers
    :param n_keypoints: K
    :param acting_std: the most that the standard deviation of sampled actions may be, on a scale from -1 to 1; None for
        what was learned
    :param map_on_observation: make the map of whole observations, not of goals
    :param coordinates: those of states that the map is of; None for all
    :param open_goals: a goal may be several states, see :class:`~proq_agent.proq.goal_states.GoalStates`
    :param latent_dim: dimension of z = φ(s)
    :param n_components: number of components of the quasimetric
    :param component_size: number of intervals in each component
    :param symmetric: make the distance symmetric, for comparison
    :param hidden_sizes: hidden layers of the networks
    :param actor_hidden_sizes: those of the actor, if a body is harder to move than its world is to map
    :param dropout: of the actor
    :param standardise: shift and scale inputs by statistics of the data; the paper takes them as they are
    :param guided_actor: tell the actor the target's coordinates beside its latents, and both as seen from where it is;
        the paper tells it the target's latents alone
    :param directed_actor: tell a guided actor also in which direction the target lies, however far it is: what a body
        does to get somewhere depends on that alone, and to divide by the length is the hardest part to learn
    :param clipped_actions: an action at a limit of its range stands for all that were clipped there, so that the actor
        learns what whoever acted had in mind before noise took it beyond; its mean may lie beyond a limit, too
    :param quaternions: where orientations begin in observations, see :mod:`~proq_agent.common.orientations`: the actor
        is shown one sign of each
    :param n_fourier_features: random Fourier features appended to φ's input; 0 for none
    :param fourier_scale: standard deviation of their frequencies, on two standardised inputs; of more, each counts
        less, so that the phases vary as much: else states a little apart in many coordinates have nothing in common
    :param classifier_scale: let ψ see coordinates beside z, with as many Fourier features of its own, of this scale:
        φ keeps what distances need, and walls in z are only as sharp as that; None for z alone, as in the paper
    """

    # Of a coordinate that never changes, does not matter or does not repeat.
    may_be_infinite = ("longest_step", "tolerances", "periods")

    action_low: th.Tensor
    action_high: th.Tensor
    keypoint_low: th.Tensor
    keypoint_high: th.Tensor
    longest_step: th.Tensor

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Schedule | None = None,
        *,
        n_keypoints: int,
        acting_std: float | None = None,
        map_on_observation: bool = False,
        open_goals: bool = False,
        coordinates: Sequence[int] | None = None,
        latent_dim: int = 16,
        n_components: int = 64,
        component_size: int = 8,
        symmetric: bool = False,
        hidden_sizes: Sequence[int] = (512, 512, 512),
        actor_hidden_sizes: Sequence[int] | None = None,
        dropout: float = 0.1,
        standardise: bool = True,
        guided_actor: bool = True,
        directed_actor: bool = False,
        clipped_actions: bool = False,
        quaternions: Sequence[int] = (),
        n_fourier_features: int = 0,
        fourier_scale: float = 2.0,
        classifier_scale: float | None = None,
    ) -> None:
        check_goal_spaces(observation_space, action_space)
        super().__init__(observation_space, action_space)
        self._sizes = {
            "n_keypoints": n_keypoints,
            "acting_std": acting_std,
            "map_on_observation": map_on_observation,
            "open_goals": open_goals,
            "coordinates": None if coordinates is None else tuple(coordinates),
            "latent_dim": latent_dim,
            "n_components": n_components,
            "component_size": component_size,
            "symmetric": symmetric,
            "hidden_sizes": tuple(hidden_sizes),
            "actor_hidden_sizes": actor_hidden_sizes and tuple(actor_hidden_sizes),
            "dropout": dropout,
            "standardise": standardise,
            "guided_actor": guided_actor,
            "directed_actor": directed_actor,
            "clipped_actions": clipped_actions,
            "quaternions": tuple(quaternions),
            "n_fourier_features": n_fourier_features,
            "fourier_scale": fourier_scale,
            "classifier_scale": classifier_scale,
        }
        self.acting_std = acting_std
        self.generator: th.Generator | None = None  #: of sampled actions; None for PyTorch's own
        for name, value in (
            ("n_keypoints", n_keypoints),
            ("latent_dim", latent_dim),
            ("n_components", n_components),
            ("component_size", component_size),
        ):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        assert isinstance(observation_space, spaces.Dict) and isinstance(action_space, spaces.Box)
        observation_dim = observation_space["observation"].shape[0]  # type: ignore[index]
        self.map_key = "observation" if map_on_observation else "achieved_goal"
        goal_dim = observation_space[self.map_key].shape[0]  # type: ignore[index]
        self.coordinates: list[int] | None = None
        if coordinates is not None:
            self.coordinates, goal_dim = check_coordinates(coordinates, goal_dim), len(coordinates)
        self.goal_states: GoalStates | None = None
        if map_on_observation or open_goals:
            asked_dim = observation_space["desired_goal"].shape[0]  # type: ignore[index]
            self.goal_states = GoalStates(asked_dim, goal_dim, map_on_observation, self.coordinates)
        action_dim = action_space.shape[0]

        self.one_sign = OneSign(quaternions, observation_dim) if quaternions else None
        self.observation_scaler = Standardise(observation_dim)
        self.goal_scaler = Standardise(goal_dim)
        of_each = math.sqrt(2.0 / goal_dim)
        self.fourier = FourierFeatures(goal_dim, n_fourier_features, fourier_scale * of_each)
        self.encoder = MLP(self.fourier.output_dim, hidden_sizes, latent_dim, residual=True)
        self.embedder = MLP(latent_dim, hidden_sizes, n_components * component_size)
        self.quasimetric = Quasimetric(n_components, symmetric)
        sharp: FourierFeatures | None = None
        if classifier_scale is not None:
            sharp = FourierFeatures(goal_dim, n_fourier_features, classifier_scale * of_each)
        self.classifier_fourier = sharp
        beside = sharp.output_dim if sharp else 0
        self.classifier = MLP(latent_dim + beside, hidden_sizes, 1, residual=True, layer_norm=True)
        self.latent_dim = latent_dim
        if directed_actor and not guided_actor:
            raise ValueError("directed_actor is of a guided actor; leave guided_actor true")
        self.standardise, self.guided_actor, self.directed_actor = standardise, guided_actor, directed_actor
        self.clipped_actions = clipped_actions
        inputs = observation_dim + (2 * (latent_dim + goal_dim) if guided_actor else latent_dim)
        inputs += goal_dim if directed_actor else 0
        self.actor = MLP(inputs, actor_hidden_sizes or hidden_sizes, action_dim, residual=True, dropout=dropout)
        self.log_std = nn.Parameter(th.zeros(action_dim))
        # In standardised coordinates, so that one step size fits every axis; see `keypoints`.
        self.standard_keypoints = nn.Parameter(th.zeros(n_keypoints, goal_dim), requires_grad=False)
        self.register_buffer("keypoint_low", th.zeros(goal_dim))
        self.register_buffer("keypoint_high", th.zeros(goal_dim))
        self.register_buffer("longest_step", th.full((goal_dim,), th.inf))
        self.register_buffer("action_low", th.tensor(action_space.low, dtype=th.float32))
        self.register_buffer("action_high", th.tensor(action_space.high, dtype=th.float32))

    def _get_constructor_parameters(self) -> dict[str, Any]:
        """For ``save`` and ``load`` of a policy alone."""
        return {"observation_space": self.observation_space, "action_space": self.action_space, **self._sizes}

    def _is_sound(self) -> bool:
        """Also whether there are distances between keypoints, the first ones: loading must stay quick."""
        places = self.embed_goals(self.keypoints[:N_TRIED])
        return bool(places.isfinite().all() and (self.distances(places[:1], places) >= 0).all()) and super()._is_sound()

    @property
    def n_keypoints(self) -> int:
        return len(self.standard_keypoints)

    @property
    def keypoints(self) -> th.Tensor:
        """``[K, goal_dim]``, the keypoints p_k as points in goal space."""
        return self.goal_scaler.inverse(self.standard_keypoints.detach())

    def on_map(self, goals: GoalRows) -> GoalRows:
        """Achieved or desired goals of the environment as points of the map, which are returned as they are."""
        if self.coordinates is None or goals.shape[-1] == len(self.coordinates):
            return goals
        return goals[..., self.coordinates]

    def asked(self, goals: GoalRows) -> GoalRows:
        """Desired goals as plans take them: points of the map, or whole where several of its points satisfy one."""
        return self.on_map(goals) if self.goal_states is None else goals

    def shown(self, points: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """
        Points of the map as goals for others: what the map is not of stays as these goals have it.

        :param points: ``[n, map_dim]``
        :param goals: of the environment, ``[n, goal_dim]`` or one for all
        """
        if self.coordinates is None:
            return points
        shown = np.array(np.broadcast_to(goals, (len(points), goals.shape[-1])))
        shown[:, self.coordinates] = points
        return shown

    def encode(self, goals: th.Tensor) -> th.Tensor:
        """φ: points of goal space to latents."""
        return self.encode_standard(self.goal_scaler(goals))

    def encode_standard(self, standard_goals: th.Tensor) -> th.Tensor:
        """φ of points that are already standardised."""
        return self.encoder(self.fourier(standard_goals))

    def locate(self, goals: th.Tensor) -> th.Tensor:
        """
        Where points of goal space are, as the actor is told: their latents, then their standardised coordinates.

        The map may squeeze ways that hardly change the distance to anything else, as those across a dead end. Seen
        through the latents alone they would be lost on the actor; with the coordinates it imitates them.
        """
        standard_goals = self.goal_scaler(goals)
        return th.cat([self.encode_standard(standard_goals), standard_goals], dim=-1)

    def classify(self, latents: th.Tensor, standard_goals: th.Tensor) -> th.Tensor:
        """
        ψ before its sigmoid, ``[...]``: positive where the data are.

        :param latents: of some points, what :meth:`encode_standard` makes of them
        :param standard_goals: the points, standardised
        """
        if self.classifier_fourier is not None:
            latents = th.cat([latents, self.classifier_fourier(standard_goals)], dim=-1)
        return self.classifier(latents).squeeze(-1)

    def classify_goals(self, goals: th.Tensor) -> th.Tensor:
        """:meth:`classify` of points of goal space."""
        standard_goals = self.goal_scaler(goals)
        return self.classify(self.encode_standard(standard_goals), standard_goals)

    def embed(self, locations: th.Tensor) -> th.Tensor:
        """What :meth:`distances` compares, of what :meth:`locate` returns."""
        latents, standard_goals = locations.split([self.latent_dim, locations.shape[-1] - self.latent_dim], dim=-1)
        return self.with_coordinates(self.embedder(latents), standard_goals)

    def embed_goals(self, goals: th.Tensor) -> th.Tensor:
        """:meth:`embed` of points of goal space."""
        return self.embed(self.locate(goals))

    def with_coordinates(self, embeddings: th.Tensor, standard_goals: th.Tensor) -> th.Tensor:
        """Append the coordinates, in units of the longest step of the data."""
        return th.cat([embeddings, standard_goals / self.longest_step], dim=-1)

    def distances(self, x: th.Tensor, y: th.Tensor) -> th.Tensor:
        """
        The learned quasimetric d, but never less than what the straight way takes at the longest steps of the data.

        That floor is a quasimetric, too, in which no transition costs more than one step, and what is being learned is
        the largest of these: the floor only takes away what training has not put right yet, as places far apart that
        the map has folded onto each other. The map itself learns without it.

        :param x: ``[..., embedding_dim]`` what :meth:`embed` returns; leading dimensions broadcast
        :param y: likewise
        """
        n = self.embedder.output.out_features
        floor = (x[..., n:] - y[..., n:]).abs().amax(dim=-1)
        return th.maximum(self.quasimetric(x[..., :n], y[..., :n]), floor)

    def distances_between(
        self, x: th.Tensor, y: th.Tensor, x_standard_goals: th.Tensor, y_standard_goals: th.Tensor
    ) -> th.Tensor:
        """
        :meth:`distances` without the detour over :meth:`with_coordinates`.

        :param x: what the embedder makes of some points
        :param y: likewise
        :param x_standard_goals: the points, standardised
        :param y_standard_goals: likewise
        """
        floor = ((x_standard_goals - y_standard_goals) / self.longest_step).abs().amax(dim=-1)
        return th.maximum(self.quasimetric(x, y), floor)

    def pairwise_distances(self, x: th.Tensor, y: th.Tensor) -> th.Tensor:
        """:meth:`distances` from every row of ``x`` to every row of ``y``."""
        n = self.embedder.output.out_features
        return th.maximum(self.quasimetric.pairwise(x[:, :n], y[:, :n]), self.straight_distances(x, y))

    def straight_distances(self, x: th.Tensor, y: th.Tensor) -> th.Tensor:
        """The floor of :meth:`pairwise_distances` alone."""
        n = self.embedder.output.out_features
        return (x[:, None, n:] - y[:, n:]).abs().amax(dim=-1)

    def action_distribution(
        self, observations: th.Tensor, here: th.Tensor, target: th.Tensor, generator: th.Generator | None = None
    ) -> tuple[th.Tensor, th.Tensor]:
        """
        π(· | s, z): mean and standard deviation of a Gaussian over actions scaled to [-1, 1].

        :param here: location of s, which the observation implies; the way to go is in its difference to the target, and
            a network that is given the difference need not learn to subtract
        :param target: location of where to go
        :param generator: source of the dropout masks in training
        """
        if self.one_sign is not None:
            observations = self.one_sign(observations)
        standard = self.observation_scaler(observations)
        if self.guided_actor:
            way = target - here
            inputs = [standard, target, DIFFERENCE_GAIN * way]
            if self.directed_actor:
                way = way[..., self.latent_dim :]
                inputs.append(way / (way.norm(dim=-1, keepdim=True) + NO_WAY))
        else:
            inputs = [standard, target[..., : self.latent_dim]]
        mean = self.actor(th.cat(inputs, dim=-1), generator)
        return mean if self.clipped_actions else mean.tanh(), self.log_std.exp()

    def sampled_std(self, std: th.Tensor) -> th.Tensor:
        """
        The standard deviation of sampled actions, before they are clipped.

        :param std: of π
        """
        return std if self.acting_std is None else std.clamp_max(self.acting_std)

    def log_prob(
        self,
        actions: th.Tensor,
        observations: th.Tensor,
        here: th.Tensor,
        target: th.Tensor,
        generator: th.Generator | None = None,
    ) -> th.Tensor:
        """
        log π(a | s, z), see :meth:`action_distribution`.

        :param actions: ``[..., action_dim]`` of the action space; leading dimensions broadcast
        """
        mean, std = self.action_distribution(observations, here, target, generator)
        scaled = self.scale_actions(actions)
        log_probs = th.distributions.Normal(mean, std, validate_args=False).log_prob(scaled)
        if self.clipped_actions:
            beyond = th.special.log_ndtr((scaled.sign() * mean - 1.0) / std)
            log_probs = th.where(scaled.abs() >= AT_LIMIT, beyond, log_probs)
        return log_probs.sum(dim=-1)

    def scale_actions(self, actions: th.Tensor) -> th.Tensor:
        """From the action space to [-1, 1]."""
        return scale_actions(actions, self.action_low, self.action_high)

    def act(
        self,
        observations: th.Tensor,
        here: th.Tensor,
        target: th.Tensor,
        deterministic: bool = False,
        generator: th.Generator | None = None,
    ) -> th.Tensor:
        """
        An action of the action space for each observation.

        :param here: location of the agent
        :param target: location of where it should go
        :param deterministic: the mean instead of a sample
        :param generator: source of the samples
        """
        mean, std = self.action_distribution(observations, here, target)
        if not deterministic:
            noise = th.randn(mean.shape, generator=generator, device=mean.device)
            mean = th.addcmul(mean, self.sampled_std(std), noise)
        return th.lerp(self.action_low, self.action_high, 0.5 * mean.clamp(-1.0, 1.0) + 0.5)

    def forward(self, observation: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        return self._predict(observation, deterministic)

    def _predict(self, observation: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        assert isinstance(observation, dict)
        here = self.locate(self.on_map(observation[self.map_key].float()))
        goals = self.asked(observation["desired_goal"].float())
        target = self.locate(goals) if self.goal_states is None else self._nearest(here, self.goal_states(goals))
        return self.act(observation["observation"].float(), here, target, deterministic, self.generator)

    def _nearest(self, here: th.Tensor, states: th.Tensor) -> th.Tensor:
        """The locations of the nearest of the states ``[B, n, goal_dim]`` of each."""
        locations = self.locate(states)
        nearest = self.distances(self.embed(here)[:, None], self.embed(locations)).argmin(dim=1)
        return locations[th.arange(len(locations), device=nearest.device), nearest]


def check_coordinates(coordinates: Sequence[int], goal_dim: int) -> list[int]:
    """
    Numbers of coordinates, as a list.

    :param coordinates: the numbers
    :param goal_dim: how many there are
    :raises ValueError: if there are none, or they are not different ones of these
    """
    chosen = list(coordinates)
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(goal_dim)):
        raise ValueError(f"coordinates must be different numbers from 0 to {goal_dim - 1}, got {chosen}")
    return chosen


MultiInputPolicy = ProQPolicy
