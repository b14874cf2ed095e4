"""A policy's controller for one agent at a time, in NumPy: at this size PyTorch's calls cost more than arithmetic."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch as th
from scipy.special import ndtr

from proq_agent.common.networks import MLP
from proq_agent.common.orientations import SIZE
from proq_agent.planning.goal_map import Places
from proq_agent.proq.policies import DIFFERENCE_GAIN, NO_WAY, ProQPolicy
from proq_agent.quasimetric.max_mean import cpu_kernels


class RowTargets(NamedTuple):
    """Where a single agent may go next: nodes of the graph and, last, its goal."""

    locations: np.ndarray  #: ``[nodes + 1, location_dim]``
    embeddings: np.ndarray  #: ``[nodes + 1, embedding_dim]``, contiguous, without the coordinates
    coordinates: np.ndarray  #: ``[nodes + 1, goal_dim]``, in units of the longest step


class RowMap:
    """
    A :class:`~proq_agent.planning.goal_map.Controller` of one agent. Use :meth:`of` to make one.

    :param policy: on the CPU; its weights are shared, not copied
    """

    def __init__(self, policy: ProQPolicy) -> None:
        self.encoder, self.embedder, self.actor = map(_Layers, (policy.encoder, policy.embedder, policy.actor))
        self.n_components, self.embedding_dim = policy.quasimetric.n_components, policy.embedder.output.out_features
        self.latent_dim, self.directed_actor = policy.latent_dim, policy.directed_actor
        self.clipped_actions = policy.clipped_actions
        self.alpha = policy.quasimetric.alpha.item()
        self.std = policy.sampled_std(policy.log_std.detach().exp()).numpy()
        scalers = policy.goal_scaler, policy.observation_scaler
        (self.goal_mean, self.goal_std), (self.observation_mean, self.observation_std) = (
            (scaler.mean.numpy(), scaler.std.numpy()) for scaler in scalers
        )
        signs = policy.one_sign
        self.quaternions = list(zip(signs.starts, signs.references.numpy(), strict=True)) if signs else []
        self.frequencies = policy.fourier.frequencies.numpy()
        self.longest_step = policy.longest_step.numpy()
        low, high = policy.action_low.numpy(), policy.action_high.numpy()
        self.action_centre, self.action_scale = (low + high) / 2, (high - low) / 2
        self.action_low, self.action_high = low, high

    @classmethod
    def of(cls, policy: ProQPolicy) -> RowMap | None:
        """One for this policy; None if it is another class, not on the CPU, or needs more than the kernels can do."""
        known = type(policy) is ProQPolicy and policy.guided_actor and not policy.quasimetric.symmetric
        plain = known and policy.device.type == "cpu"
        return cls(policy) if plain and cpu_kernels() is not None else None

    def place(self, points: np.ndarray) -> Places:
        """See :meth:`ProQPolicy.locate` and :meth:`ProQPolicy.embed`."""
        standard = (points - self.goal_mean) / self.goal_std
        inputs = standard
        if self.frequencies.size:
            phases = standard @ self.frequencies
            inputs = np.concatenate([standard, np.sin(phases), np.cos(phases)], axis=1)
        latents = self.encoder(inputs)
        embeddings = np.concatenate([self.embedder(latents), standard / self.longest_step], axis=1)
        return Places(points, np.concatenate([latents, standard], axis=1), embeddings)

    def targets(self, nodes: Places, goals: Places) -> RowTargets:
        """From the tensors of a :class:`~proq_agent.proq.batch_map.BatchMap` of the same policy."""
        locations, embeddings = (
            th.cat(parts).numpy()
            for parts in ((nodes.locations, goals.locations), (nodes.embeddings, goals.embeddings))
        )
        n = self.embedding_dim
        return RowTargets(locations, *map(np.ascontiguousarray, (embeddings[:, :n], embeddings[:, n:])))

    def distances(self, states: Places, targets: RowTargets) -> tuple[np.ndarray, np.ndarray]:
        """See :meth:`ProQPolicy.distances`."""
        n = len(targets.embeddings)
        embedding, coordinates = states.embeddings[:, : self.embedding_dim], states.embeddings[:, self.embedding_dim :]
        pairs = np.zeros(n, dtype=np.int64), np.arange(n)
        longest = self._quasimetric(embedding, targets.embeddings, *pairs)
        distances = np.maximum(longest, np.abs(coordinates - targets.coordinates).max(axis=1))[None]
        return distances[:, :-1], distances[:, -1]

    def _quasimetric(self, starts: np.ndarray, ends: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """From some rows of embeddings to others, without the floor."""
        n, kernels = len(rows), cpu_kernels()
        assert kernels is not None
        longest, mean, _ = out = *np.empty((2, n), dtype=np.float32), np.empty(n, dtype=np.int64)
        kernels.forward(starts, ends, rows, columns, self.n_components, out, 1)
        longest -= mean
        longest *= self.alpha
        longest += mean
        return longest

    def act(
        self,
        observations: np.ndarray,
        states: Places,
        targets: RowTargets,
        chosen: np.ndarray,
        deterministic: bool,
        generator: th.Generator | None,
    ) -> np.ndarray:
        """See :meth:`ProQPolicy.act`."""
        return self._act_towards(targets.locations[chosen], observations, states, deterministic, generator)

    def _act_towards(
        self,
        target: np.ndarray,
        observations: np.ndarray,
        states: Places,
        deterministic: bool,
        generator: th.Generator | None,
    ) -> np.ndarray:
        here = states.locations
        for start, reference in self.quaternions:
            orientation = observations[:, start : start + SIZE]
            if (orientation @ reference).item() < 0.0:
                observations = observations.copy()
                observations[:, start : start + SIZE] = -orientation
        standard = (observations - self.observation_mean) / self.observation_std
        way = target - here
        inputs = [standard, target, DIFFERENCE_GAIN * way]
        if self.directed_actor:
            way = way[:, self.latent_dim :]
            inputs.append(way / (np.linalg.norm(way, axis=1, keepdims=True) + NO_WAY))
        mean = self.actor(np.concatenate(inputs, axis=1))
        if not self.clipped_actions:
            mean = np.tanh(mean)
        if not deterministic:
            mean += self.std * th.randn(mean.shape, generator=generator).numpy()
        return (self.action_centre + self.action_scale * mean).clip(self.action_low, self.action_high)


class ManyRowTargets(NamedTuple):
    """Where a single agent may go next, apart: to copy many nodes for every goal takes longer than to plan."""

    nodes: RowTargets  #: without the goal
    goal: RowTargets  #: nothing else


class ManyRowMap(RowMap):
    """
    A :class:`~proq_agent.planning.goal_map.NearController`: :class:`RowMap` among many nodes.

    :param policy: on the CPU; its weights are shared, not copied
    """

    def __init__(self, policy: ProQPolicy) -> None:
        super().__init__(policy)
        self._known: tuple[Places, RowTargets] | None = None  # the nodes of the last goal

    def targets(self, nodes: Places, goals: Places) -> ManyRowTargets:  # type: ignore[override]
        """See :meth:`RowMap.targets`."""
        known = self._known
        if known is None or known[0] is not nodes:
            known = self._known = nodes, super().targets(nodes, nodes[:0])
        return ManyRowTargets(known[1], super().targets(nodes[:0], goals))

    def distances(self, states: Places, targets: ManyRowTargets) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[override]
        """See :meth:`RowMap.distances`."""
        nodes = np.arange(len(targets.nodes.embeddings))
        return self.distances_to(nodes, states, targets), self.distance_to_goal(states, targets)

    def distances_to(self, nodes: np.ndarray, state: Places, targets: ManyRowTargets) -> np.ndarray:
        """``[1, nodes]``"""
        return self._measured(nodes, state, targets.nodes)[None]

    def distances_from(self, nodes: np.ndarray, state: Places, targets: ManyRowTargets) -> np.ndarray:
        """``[nodes]``"""
        return self._measured(nodes, state, targets.nodes, back=True)

    def distance_to_goal(self, state: Places, targets: ManyRowTargets) -> np.ndarray:
        """``[1]``"""
        return self._measured(np.zeros(1, dtype=np.int64), state, targets.goal)

    def _measured(self, rows: np.ndarray, state: Places, targets: RowTargets, back: bool = False) -> np.ndarray:
        n, here = self.embedding_dim, np.zeros(len(rows), dtype=np.int64)
        embedding, coordinates = state.embeddings[:, :n], state.embeddings[:, n:]
        ends = (targets.embeddings, embedding, rows, here) if back else (embedding, targets.embeddings, here, rows)
        return np.maximum(self._quasimetric(*ends), np.abs(coordinates - targets.coordinates[rows]).max(axis=1))

    def act(
        self,
        observations: np.ndarray,
        states: Places,
        targets: ManyRowTargets,  # type: ignore[override]
        chosen: np.ndarray,
        deterministic: bool,
        generator: th.Generator | None,
    ) -> np.ndarray:
        """See :meth:`RowMap.act`."""
        nodes, goal = targets.nodes.locations, targets.goal.locations
        target = goal if chosen[0] == len(nodes) else nodes[chosen]
        return self._act_towards(target, observations, states, deterministic, generator)


class _Layers:
    """An MLP without layer norm, whose dropout is over."""

    def __init__(self, network: MLP) -> None:
        layers = [(layer.weight.detach().numpy().T, layer.bias.detach().numpy()) for layer in network.layers()]
        *hidden, self.output = layers
        self.hidden = [(*layer, skip) for layer, skip in zip(hidden, network.skips, strict=True)]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        for weight, bias, skip in self.hidden:
            h = x @ weight
            h += bias
            h *= ndtr(h)  # GELU
            x = x + h if skip else h
        weight, bias = self.output
        return x @ weight + bias
