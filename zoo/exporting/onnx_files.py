"""The networks of an agent as ONNX files."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch as th
from torch import nn

from proq_agent.common.files import atomic_file
from proq_agent.common.spaces import GOAL_KEYS
from zoo.figures.learned_map import has_map

FAR = 1e30  # where what is no interval begins and ends; not every engine knows infinity
OPSET = 15  # the newest that every release of Unity's Sentis takes


def check_packages() -> None:
    """
    Find out early whether an agent can be exported, and the export be tried.

    :raises ImportError: if not
    """
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise ImportError("an export needs `pip install onnx onnxruntime`") from error


class _Function(nn.Module):
    """What a policy computes, as a module of its own."""

    def __init__(self, policy: nn.Module, function: Callable[..., th.Tensor]) -> None:
        super().__init__()
        self.policy, self.function = policy, function
        self.eval()  # the exporter restores the mode, of the policy too

    def forward(self, *inputs: th.Tensor) -> th.Tensor:
        return self.function(*inputs)


def write_networks(agent: Any, folder: Path) -> None:
    """
    Write ``actor.onnx``, and of ProQ ``encoder.onnx``, ``embedder.onnx`` and ``classifier.onnx`` too.

    Inputs are as the environment has them: what standardises them is part of the networks. An actor that makes no use
    of ``achieved_goal`` does not have that input.

    :param agent: on the CPU
    :param folder: where to
    """
    policy = agent.policy
    inputs = {key: agent.observation_space[key].shape[0] for key in GOAL_KEYS}
    if has_map(agent):  # it heads for points of the map
        inputs["desired_goal"] = agent.planner.points.shape[1]

    def act(*values: th.Tensor) -> th.Tensor:
        return policy._predict(dict(zip(inputs, values, strict=True)), deterministic=True)

    _write(folder / "actor.onnx", _Function(policy, act), inputs, "action")
    if not has_map(agent):
        return
    sizes = [policy.latent_dim, inputs["desired_goal"]]  # of a location

    def embed(location: th.Tensor) -> th.Tensor:
        latents, standard_goals = location.split(sizes, dim=-1)
        return policy.with_coordinates(policy.embedder(latents), standard_goals)

    def classify(location: th.Tensor) -> th.Tensor:
        return policy.classify(*location.split(sizes, dim=-1))

    _write(folder / "encoder.onnx", _Function(policy, policy.locate), {"goal": sizes[1]}, "location")
    _write(folder / "embedder.onnx", _Function(policy, embed), {"location": sum(sizes)}, "embedding")
    size, quasimetric = policy.embedder.output.out_features, policy.quasimetric

    def edges(embeddings: th.Tensor) -> th.Tensor:  # [rows, N, M]: N components have M numbers each
        shape = size // quasimetric.n_components, quasimetric.n_components
        return embeddings[:, :size].reshape(-1, *shape).transpose(1, 2)

    def measure(starts: th.Tensor, ends: th.Tensor) -> th.Tensor:
        x, y = edges(starts).unsqueeze(1), edges(ends).unsqueeze(0)
        there = _iqe(x, y, quasimetric.alpha)
        if quasimetric.symmetric:
            there = (there + _iqe(y, x, quasimetric.alpha)) / 2
        return th.maximum(there, (starts[:, None, size:] - ends[None, :, size:]).abs().amax(dim=2))

    _write(folder / "classifier.onnx", _Function(policy, classify), {"location": sum(sizes)}, "logit")
    embeddings = dict.fromkeys(("starts", "ends"), size + sizes[1])
    axes = {"starts": {0: "rows"}, "ends": {0: "columns"}, "distances": {0: "rows", 1: "columns"}}
    _write(folder / "distance.onnx", _Function(policy, measure), embeddings, "distances", axes)


def _iqe(x: th.Tensor, y: th.Tensor, alpha: th.Tensor) -> th.Tensor:
    """What :func:`~proq_agent.quasimetric.iqe.iqe` computes, in operators that can be exported."""
    active = y > x
    starts, ends = (th.where(active, edges, FAR).sort(dim=3).values for edges in (x, y))
    # Between one start and the next, the union is covered up to the end of the same rank.
    next_starts = th.cat([starts[:, :, :, 1:], starts[:, :, :, :1] * 0.0 + FAR], dim=3)
    lengths = (th.minimum(ends, next_starts) - starts).sum(dim=3)
    return alpha * lengths.amax(dim=2) + (1.0 - alpha) * lengths.mean(dim=2)


def _write(
    path: Path, module: nn.Module, inputs: dict[str, int], output: str, axes: dict[str, dict[int, str]] | None = None
) -> None:
    examples = tuple(th.zeros(2, size) for size in inputs.values())
    batch: dict[str, Any] = axes or {name: {0: "batch"} for name in (*inputs, output)}
    # Where shapes are asked for, they are always the same ones. The exporter is called old, but it writes plain
    # operators of this opset, and needs no further package.
    with warnings.catch_warnings(), atomic_file(path) as file, th.no_grad():
        warnings.filterwarnings("ignore", category=th.jit.TracerWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        th.onnx.export(
            module,
            examples,
            file.name,
            input_names=list(inputs),
            output_names=[output],
            dynamic_axes=batch,
            opset_version=OPSET,
            dynamo=False,
        )
