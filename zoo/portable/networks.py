"""The networks of an exported agent, and the distance d that it has learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime


class Networks:
    """
    :param folder: of the networks, ``*.onnx``
    :param quasimetric: that part of agent.json
    """

    def __init__(self, folder: Path, quasimetric: dict[str, Any]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # the networks are too small for more
        # What is fused further is less exact.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        self.networks = {
            path.stem: onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            for path in folder.glob("*.onnx")
        }
        self.quasimetric = quasimetric

    def run(self, network: str, **inputs: Any) -> np.ndarray:
        """The output of a network for a batch of inputs."""
        return self.networks[network].run(None, {name: np.float32(array) for name, array in inputs.items()})[0]

    def embed(self, points: np.ndarray) -> np.ndarray:
        """What distances are computed from, of points ``[N, goal_dim]``."""
        return self.run("embedder", location=self.run("encoder", goal=points))

    def reachable(self, points: np.ndarray) -> np.ndarray:
        """``[N]`` bool, which points are like those of the data."""
        return self.run("classifier", location=self.run("encoder", goal=points)) >= 0

    def act(self, observation: dict[str, Any]) -> np.ndarray:
        """The action that leads towards ``desired_goal``. Some actors need not be told ``achieved_goal``."""
        names = [each.name for each in self.networks["actor"].get_inputs()]
        return self.run("actor", **{name: [observation[name]] for name in names})[0]

    def distances(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """``[A, B]`` the steps from each of A embeddings to each of B."""
        n = self.quasimetric["size"]
        x, y = x[:, None], y[None]
        there = self._unions(x[..., :n], y[..., :n])
        if self.quasimetric["symmetric"]:
            there = (there + self._unions(y[..., :n], x[..., :n])) / 2
        # The rest are coordinates, in units of the longest step: no way is shorter than the straight one.
        return np.maximum(there, np.abs(x[..., n:] - y[..., n:]).max(axis=-1)).astype(np.float64)

    @np.errstate(invalid="ignore")
    def _unions(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """
        Numbers m·N + n of an embedding are M edges of component n. The lengths of the union of the M intervals from
        x to y, those that are not empty, in each of N components: alpha of the longest, and the rest of their mean.
        """
        n_components, alpha = self.quasimetric["n_components"], self.quasimetric["alpha"]
        shape = self.quasimetric["size"] // n_components, n_components
        x, y = (array.reshape(*array.shape[:-1], *shape).swapaxes(-1, -2) for array in (x, y))
        starts, ends = (np.sort(np.where(y > x, edge, np.inf), axis=-1) for edge in (x, y))
        # Between one start and the next, the union is covered up to the end of the same rank.
        next_starts = np.concatenate([starts[..., 1:], np.full_like(starts[..., :1], np.inf)], axis=-1)
        lengths = np.where(starts < np.inf, np.minimum(ends, next_starts) - starts, 0.0).sum(axis=-1)
        return alpha * lengths.max(axis=-1) + (1.0 - alpha) * lengths.mean(axis=-1)
