"""An agent as a folder that needs no PyTorch: networks, one JSON file, and a runtime to read or to port."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from proq_agent.chance.hazards import STRAYING, Hazards
from proq_agent.common.files import write_text
from proq_agent.common.settings import to_dict
from proq_agent.common.spaces import GOAL_KEYS
from proq_agent.planning.closures import Box
from proq_agent.planning.planner import DENSE_NODES
from zoo.exporting.onnx_files import check_packages, write_networks
from zoo.figures.learned_map import has_map

FORMAT = 2
N_EXAMPLES = 100


def export_agent(agent: Any, folder: str | Path, boxes: Sequence[Box] = ()) -> None:
    """
    Write an agent as ONNX networks, ``agent.json`` and, if it plans, the runtime that does without PyTorch.

    :param agent: a trained one
    :param folder: where to; files in it are replaced
    :param boxes: ``(low, high)`` corners of what is blocked from the beginning, in ``agent`` from now on too
    :raises ValueError: if the agent is not on the CPU, cannot plan around boxes, or something else is blocked in it
    :raises ImportError: if the packages are missing
    """
    check_packages()
    folder = Path(folder)
    if agent.device.type != "cpu":
        raise ValueError(f"the agent is on {agent.device}; load it with device='cpu' to export it")
    if boxes and not has_map(agent):
        raise ValueError(f"{type(agent).__name__} has no map on which a box could be blocked")
    if has_map(agent):
        if agent.map_of in ("observations", "open goals"):
            raise ValueError(
                f"the agent's map is of {agent.map_of}, which the runtime does not know; train one of goals"
            )
        if agent.planner.n_nodes > DENSE_NODES:
            raise ValueError(
                f"the agent's map has {agent.planner.n_nodes} nodes, and the runtime keeps all distances between them, "
                f"of up to {DENSE_NODES}; train one with fewer keypoints (keypoints.n)"
            )
        if agent.planner.snapshot.closures.in_force:
            raise ValueError("the agent's map is partly closed; open it with planner.unblock() and give boxes=")
        for box in boxes:
            agent.planner.block(box=box)
    write_networks(agent, folder)
    description = describe(agent)
    if has_map(agent):
        corners = [[np.nan_to_num(np.asarray(corner, dtype=float)).tolist() for corner in box] for box in boxes]
        description |= describe_map(agent) | {"blocked_boxes": corners}
        for source in files("zoo").joinpath("portable").iterdir():
            if source.name.endswith(".py") and source.name != "__init__.py":
                text = source.read_text(encoding="utf-8")
                write_text(folder / source.name, text.replace("from zoo.portable.", "from "))  # side by side there
    description["examples"] = examples(agent)
    write_text(folder / "agent.json", json.dumps(description, allow_nan=False))


def describe(agent: Any) -> dict[str, Any]:
    """What goes in and out, and the statistics that the networks standardise it with."""
    mean, std = _statistics(agent)
    return {
        "format": FORMAT,
        "algorithm": type(agent).__name__,
        "normalisation": {key: {"mean": mean[key].tolist(), "std": std[key].tolist()} for key in mean},
        "action": {"low": agent.action_space.low.tolist(), "high": agent.action_space.high.tolist()},
    }


def describe_map(agent: Any) -> dict[str, Any]:
    """Distance, keypoints, graph and chance; null stands for infinity."""
    policy, planner, graph = agent.policy, agent.planner, agent.planner.graph
    nodes = planner.snapshot.chance.nodes
    return {
        "quasimetric": {
            "size": policy.embedder.output.out_features,
            "n_components": policy.quasimetric.n_components,
            "alpha": policy.quasimetric.alpha.item(),
            "symmetric": policy.quasimetric.symmetric,
        },
        "coordinates": policy.coordinates or [*range(planner.points.shape[1])],
        "planning": to_dict(agent.planner.settings),
        "graph": {
            "n_keypoints": policy.n_keypoints,
            "points": _plain(planner.points),
            "barred": planner.strays.tolist(),
            "trusted_hop": graph.trusted_hop,
            "distances": _plain(planner.distances),
            "costs": _plain(planner.costs),
        },
        "chance": {
            "entrances": nodes.entrances.tolist(),
            "waits": np.broadcast_to(nodes.waits, len(nodes.entrances)).tolist(),
            "outcomes": nodes.outcomes.tolist(),
        },
        "hazards": _describe_hazards(nodes.hazards),
    }


def _describe_hazards(hazards: Hazards) -> list[dict[str, Any]]:
    """Boxes in which chance strikes: the region itself, and one around it for the steps that stray into it."""
    return [
        {
            "entrance": number.item(),
            "rate": -share * np.log1p(-hazards.rates[i]).item(),
            "centre": hazards.centres[i].tolist(),
            "axes": axes[i].tolist(),
            "step": _plain(hazards.steps[i]),
        }
        for i, number in enumerate(hazards.numbers)
        for share, axes in ((1.0 - STRAYING, hazards.axes), (STRAYING, hazards.wider_axes))
    ]


def random_observations(agent: Any, n: int, seed: int) -> dict[str, np.ndarray]:
    """
    States and goals from all over the data or, of agents with a map, from all over that.

    :param n: number of them
    :param seed: of the choice
    :return: a batch
    """
    rng = np.random.default_rng(seed)
    mean, std = _statistics(agent)
    low, high = ({key: mean[key] + sign * np.sqrt(3.0) * std[key] for key in mean} for sign in (-1.0, 1.0))
    if has_map(agent):
        for key in GOAL_KEYS[1:]:
            low[key], high[key] = agent.planner.points.min(axis=0), agent.planner.points.max(axis=0)
    batch = {key: rng.uniform(low[key], high[key], (n, len(low[key]))).astype(np.float32) for key in GOAL_KEYS}
    if np.array_equal(mean["observation"], mean["achieved_goal"]):  # they are the same
        batch["observation"] = batch["achieved_goal"]
    if has_map(agent) and agent.policy.coordinates is not None:  # what else makes a goal is not asked for
        for key in GOAL_KEYS[1:]:
            places, batch[key] = batch[key], np.zeros((n, *agent.observation_space[key].shape), np.float32)
            batch[key][:, agent.policy.coordinates] = places
    return batch


def targets(agent: Any, batch: dict[str, np.ndarray]) -> np.ndarray:
    """The nodes that an agent heads for."""
    here, goals = (agent.policy.on_map(batch[key]) for key in GOAL_KEYS[1:])
    return agent.navigator.decide(here, goals)[0].hops.target


def examples(agent: Any) -> list[dict[str, Any]]:
    """States, goals and the actions that the agent takes: whoever ports the runtime can tell whether it is right."""
    batch = random_observations(agent, N_EXAMPLES, seed=1)
    columns = batch | {"action": agent.predict(batch, deterministic=True)[0]}
    if has_map(agent):
        columns["target"] = targets(agent, batch)
    rows = zip(*(array.tolist() for array in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _statistics(agent: Any) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Means and standard deviations of what an agent sees."""
    policy = agent.policy
    if has_map(agent):
        observation, goal = policy.observation_scaler, policy.goal_scaler
    else:
        observation, goal = policy.observation_features[0], policy.goal_features[0]
    of = dict(zip(GOAL_KEYS, (observation, goal, goal), strict=True))
    mean = {key: scaler.mean.double().numpy() for key, scaler in of.items()}
    return mean, {key: scaler.std.double().numpy() for key, scaler in of.items()}


def _plain(array: np.ndarray) -> Any:
    plain = array.astype(object)
    plain[~np.isfinite(array)] = None
    return plain.tolist()
