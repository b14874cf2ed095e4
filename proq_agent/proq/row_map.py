"""A policy's controller for one agent at a time, in NumPy: at this size PyTorch's calls cost more than arithmetic."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch as th
from scipy.special import ndtr

from proq_agent.common.networks import MLP
from proq_agent.planning.goal_map import Places
from proq_agent.proq.policies import DIFFERENCE_GAIN, ProQPolicy
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
        self.alpha = policy.quasimetric.alpha.item()
        self.std = policy.log_std.detach().exp().numpy()
        scalers = policy.goal_scaler, policy.observation_scaler
        (self.goal_mean, self.goal_std), (self.observation_mean, self.observation_std) = (
            (scaler.mean.numpy(), scaler.std.numpy()) for scaler in scalers
        )
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

    def distances(
        self, states: Places, targets: RowTargets, nodes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """See :meth:`ProQPolicy.distances`."""
        rows, coordinates = np.arange(len(targets.embeddings)), targets.coordinates
        if nodes is not None:
            rows = np.append(nodes, rows[-1:])
            coordinates = coordinates[rows]
        embedding, here = np.split(states.embeddings, [self.embedding_dim], axis=1)
        longest = self._lengths(embedding, targets.embeddings, np.zeros(len(rows), dtype=np.int64), rows)
        distances = np.maximum(longest, np.abs(here - coordinates).max(axis=1))[None]
        return distances[:, :-1], distances[:, -1]

    def distances_from(self, nodes: np.ndarray, states: Places, targets: RowTargets) -> np.ndarray:
        """See :meth:`distances`."""
        embedding, here = np.split(states.embeddings, [self.embedding_dim], axis=1)
        longest = self._lengths(targets.embeddings, embedding, nodes, np.zeros(len(nodes), dtype=np.int64))
        return np.maximum(longest, np.abs(here - targets.coordinates[nodes]).max(axis=1))[:, None]

    def _lengths(self, starts: np.ndarray, ends: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The quasimetric of pairs of rows of embeddings."""
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
        here, target = states.locations, targets.locations[chosen]
        standard = (observations - self.observation_mean) / self.observation_std
        mean = np.tanh(self.actor(np.concatenate([standard, target, DIFFERENCE_GAIN * (target - here)], axis=1)))
        if not deterministic:
            mean += self.std * th.randn(mean.shape, generator=generator).numpy()
        return (self.action_centre + self.action_scale * mean).clip(self.action_low, self.action_high)


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
