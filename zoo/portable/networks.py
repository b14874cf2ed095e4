"""The networks of an exported agent, and the numbers beside them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import onnxruntime


class Places(NamedTuple):
    points: np.ndarray  #: ``[N, goal_dim]``
    embeddings: np.ndarray  #: ``[N, n]``, which distances are computed from


class Networks:
    """
    All that a folder holds.

    :param folder: where ``agent.json`` and the networks are
    """

    def __init__(self, folder: str | Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # they are too small for more
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC  # more is less exact
        files = Path(folder).glob("*.onnx")
        self.networks = {path.stem: onnxruntime.InferenceSession(str(path), options) for path in files}
        self.data = json.loads((Path(folder) / "agent.json").read_text("utf-8"))

    def run(self, network: str, **inputs: Any) -> np.ndarray:
        """What a network makes of a batch of inputs; those that it has no use for may be left out or not."""
        names = [each.name for each in self.networks[network].get_inputs()]
        return np.array(self.networks[network].run(None, {name: np.float32(inputs[name]) for name in names})[0])

    def head(self, observation: dict[str, Any]) -> np.ndarray:
        """The action that leads straight to ``desired_goal``."""
        return self.run("actor", **{name: [values] for name, values in observation.items()})[0]

    def place(self, points: np.ndarray) -> Places:
        """Where points ``[N, goal_dim]`` are on the map."""
        return Places(points, self.run("embedder", location=self.run("encoder", goal=points)))

    def distances(self, starts: Places, ends: Places) -> np.ndarray:
        """``[A, B]`` steps from each of A places to each of B."""
        return self.run("distance", starts=starts.embeddings, ends=ends.embeddings).astype(float)

    def on_map(self, goal: Any) -> np.ndarray:
        """Those coordinates of a goal that the map is of; no more exact than the agent's own."""
        return np.array(goal, np.float32)[self.data["coordinates"]].astype(float)


def arrays(part: dict[str, Any]) -> SimpleNamespace:
    """From JSON, which has no infinity: null stands for it."""
    found = {name: np.array(values, dtype=float) for name, values in part.items()}
    return SimpleNamespace(**{name: np.nan_to_num(array, nan=np.inf, posinf=np.inf) for name, array in found.items()})
