"""A policy for one observation at a time, in NumPy: at this size PyTorch's calls cost more than its arithmetic."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch as th
from scipy.special import ndtr

from proq_agent.common.networks import MLP
from proq_agent.proq.policies import DIFFERENCE_GAIN, ProQPolicy
from proq_agent.quasimetric.iqe import cpu_kernels


class Ends(NamedTuple):
    """Where a single agent may go next: nodes of the graph and, last, its goal."""

    locations: np.ndarray  #: ``[nodes + 1, location_dim]``
    embeddings: np.ndarray  #: ``[nodes + 1, embedding_dim]``, contiguous, without the coordinates
    coordinates: np.ndarray  #: ``[nodes + 1, goal_dim]``, in units of the longest step


class RowPolicy:
    """
    The methods of :class:`ProQPolicy` that acting needs, for arrays with one row. Use :meth:`of` to make one.

    :param policy: on the CPU; its weights are shared, not copied
    """

    def __init__(self, policy: ProQPolicy) -> None:
        self.encoder, self.embedder, self.actor = map(_Layers, (policy.encoder, policy.embedder, policy.actor))
        self.n_components, self.latent_dim = policy.quasimetric.n_components, policy.latent_dim
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
    def of(cls, policy: ProQPolicy) -> RowPolicy | None:
        """One for this policy; None if it is another class, not on the CPU, or needs more than the kernels can do."""
        plain = type(policy) is ProQPolicy and policy.device.type == "cpu" and not policy.quasimetric.symmetric
        return cls(policy) if plain and cpu_kernels() is not None else None

    def locate(self, goals: np.ndarray) -> np.ndarray:
        """See :meth:`ProQPolicy.locate`."""
        standard = (goals - self.goal_mean) / self.goal_std
        inputs = standard
        if self.frequencies.size:
            phases = standard @ self.frequencies
            inputs = np.concatenate([standard, np.sin(phases), np.cos(phases)], axis=1)
        return np.concatenate([self.encoder(inputs), standard], axis=1)

    def embed(self, locations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Embeddings and coordinates, see :class:`Ends`."""
        return self.embedder(locations[:, : self.latent_dim]), locations[:, self.latent_dim :] / self.longest_step

    def distances(self, embedding: np.ndarray, coordinates: np.ndarray, ends: Ends) -> np.ndarray:
        """``[nodes + 1]``, as :meth:`ProQPolicy.distances`."""
        n = len(ends.embeddings)
        kernels = cpu_kernels()
        assert kernels is not None
        longest, mean, _ = out = *np.empty((2, n), dtype=np.float32), np.empty(n, dtype=np.int64)
        pairs = np.zeros(n, dtype=np.int64), np.arange(n)
        kernels.forward(embedding, ends.embeddings, *pairs, self.n_components, out, 1)
        longest -= mean
        longest *= self.alpha
        longest += mean
        return np.maximum(longest, np.abs(coordinates - ends.coordinates).max(axis=1))

    def act(
        self,
        observations: np.ndarray,
        here: np.ndarray,
        target: np.ndarray,
        deterministic: bool,
        generator: th.Generator | None,
    ) -> np.ndarray:
        """See :meth:`ProQPolicy.act`."""
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
