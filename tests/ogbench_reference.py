"""
What OGBench's own implementations computed, and its weights under our names.

The file holds for several configurations the weights, one batch for all, and the loss, metrics, gradients and actions
that follow from them. Its names are Flax's. Our networks have the same weights in the same layout but for two things:
every weight has a leading axis of heads, and the intervals of an IQE component lie apart instead of side by side.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces

from proq_agent.common.goal_conditioned import GoalConditioned
from proq_agent.crl import CRL
from proq_agent.gcbc import GCBC
from proq_agent.gciql import GCIQL
from proq_agent.gcivl import GCIVL
from proq_agent.hiql import HIQL
from proq_agent.hiql.subgoals import SubgoalBatch
from proq_agent.qrl import QRL

PATH = Path(__file__).parent / "data" / "ogbench_losses.npz"
ALGORITHMS: dict[str, type[GoalConditioned]] = {
    "gcbc": GCBC,
    "gcivl": GCIVL,
    "gciql": GCIQL,
    "qrl": QRL,
    "crl": CRL,
    "hiql": HIQL,
}
COMPONENT_SIZE = 8  # intervals in a component of IQE, a constant there

# Our names of its modules, where they differ.
MODULES = {
    "qrl": {"value/phi": "encoder", "value/alpha": "distance", "lam": "log_multiplier"},
    "hiql": {"goal_rep/layers_0": "representation", "low_actor": "actor"},
}
NETWORKS = {"actor_net": "net", "mean_net": "net", "value_net": "net"}
# Arguments of ours that it has under another name, or not at all.
ARGUMENTS = {"lr": "learning_rate", "eps": "margin"}
POLICY_ARGUMENTS = {
    "actor_hidden_dims": "hidden_sizes",
    "latent_dim": "latent_dim",
    "quasimetric_type": "quasimetric",
    "rep_dim": "representation_dim",
}


class Batch(NamedTuple):
    """What :class:`~proq_agent.common.goal_sampling.GoalBatch` offers, with rewards and masks of their own."""

    observations: th.Tensor
    next_observations: th.Tensor
    actions: th.Tensor
    achieved_goals: th.Tensor
    next_achieved_goals: th.Tensor
    value_goals: th.Tensor
    actor_goals: th.Tensor
    rewards: th.Tensor
    masks: th.Tensor


class Reference:
    """
    One configuration of the file.

    :param name: as ``"gciql-awr"``
    :param arrays: of the file
    """

    def __init__(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        self.name = name
        self.config: dict[str, Any] = json.loads(arrays["config"].tobytes())[name]
        self.algo: str = self.config["agent_name"]
        self._arrays = arrays

    def _part(self, part: str) -> dict[str, np.ndarray]:
        prefix = f"{self.name}/{part}/"
        return {key.removeprefix(prefix): value for key, value in self._arrays.items() if key.startswith(prefix)}

    @property
    def loss(self) -> float:
        return float(self._arrays[f"{self.name}/loss"])

    @property
    def metrics(self) -> dict[str, float]:
        return {name: float(value) for name, value in self._part("info").items()}

    @property
    def actions(self) -> np.ndarray:
        return self._arrays[f"{self.name}/action_mode"]

    @property
    def observations(self) -> dict[str, np.ndarray]:
        state, goal = self._arrays["batch/observations"], self._arrays["batch/actor_goals"]
        return {"observation": state, "achieved_goal": state, "desired_goal": goal}

    def weights(self) -> dict[str, th.Tensor]:
        """By our names."""
        return self._ours("param")

    def gradients(self) -> dict[str, th.Tensor]:
        """By our names."""
        return self._ours("grad")

    def _ours(self, part: str) -> dict[str, th.Tensor]:
        arrays = self._part(part)
        depth = len(self.config["actor_hidden_dims"])
        return {self._our_name(key, depth): th.tensor(self._our_layout(key, array)) for key, array in arrays.items()}

    def _our_name(self, key: str, depth: int) -> str:
        key = key.removeprefix("modules_")
        for theirs, ours in MODULES.get(self.algo, {}).items():
            key = re.sub(f"^{theirs}(?=/)", ours, key)
        *modules, leaf = (NETWORKS.get(part, part) for part in key.split("/"))
        if leaf in ("value", "log_value"):  # scalars
            return {"distance": "distance.alpha_logit", "log_multiplier": "log_multiplier"}[modules[0]]
        layer = re.fullmatch(r"(Dense|LayerNorm)_(\d+)", modules[-1])
        kind, number = (layer[1], layer[2]) if layer else ("Dense", depth)  # the mean of an actor is its last layer
        lists = {"kernel": "weights", "bias": "biases" if kind == "Dense" else "shifts", "scale": "gains"}
        return ".".join([*(modules[:-1] if layer else modules), lists[leaf], str(number)])

    def _our_layout(self, key: str, array: np.ndarray) -> np.ndarray:
        is_iqe = self.config.get("quasimetric_type") == "iqe"
        if is_iqe and key.endswith("alpha/value"):
            return -array  # its share is that of the mean, ours that of the longest component
        if is_iqe and "Dense" in key and not key.startswith("modules_actor"):
            latent, depth = self.config["latent_dim"], len(self.config["value_hidden_dims"])
            order = np.arange(latent).reshape(-1, COMPONENT_SIZE).T.ravel()
            if f"Dense_{depth}/" in key:  # latents go out
                array = array[..., order]
            if key.startswith("modules_dynamics/Dense_0/kernel"):  # latents, then actions, come in
                array = np.concatenate([array[order], array[latent:]])
        if key.endswith("kernel"):
            return array.reshape(-1, *array.shape[-2:])
        heads = len(array) if array.ndim == 2 else 1
        return array.reshape(heads, 1, -1) if array.ndim else array

    def model(self) -> GoalConditioned:
        """Ours, with the weights of the file."""
        config = self.config
        own = {ARGUMENTS.get(name, name): value for name, value in config.items()}
        model_class = ALGORITHMS[self.algo]
        known = set(model_class._hyperparameter_names()) - {"goals"}
        box = spaces.Box(-np.inf, np.inf, (self._arrays["batch/observations"].shape[1],), np.float32)
        model = model_class(
            **{name: value for name, value in own.items() if name in known},
            goals={"discount": config["discount"]},
            policy_kwargs={ours: config[theirs] for theirs, ours in POLICY_ARGUMENTS.items() if theirs in config},
            observation_space=spaces.Dict(observation=box, achieved_goal=box, desired_goal=box),
            action_space=spaces.Box(-1.0, 1.0, (self._arrays["batch/actions"].shape[1],), np.float32),
            device="cpu",
            seed=0,
        )
        buffers = dict(model.policy.named_buffers())
        model.policy.load_state_dict(self.weights() | buffers, strict=True)
        return model

    def batch(self) -> Batch | SubgoalBatch:
        """As the algorithm samples it."""
        own = {name: th.tensor(self._arrays[f"batch/{name}"]) for name in ("observations", "next_observations")}
        own |= {name: th.tensor(self._arrays[f"batch/{name}"]) for name in ("actions", "value_goals")}
        own |= {name: th.tensor(self._arrays[f"batch/{name}"]) for name in ("rewards", "masks")}
        if self.algo == "hiql":
            low, high, targets = (
                th.tensor(self._arrays[f"batch/{name}"])
                for name in ("low_actor_goals", "high_actor_goals", "high_actor_targets")
            )
            return SubgoalBatch(
                **own, actor_goals=high, low_actor_goals=low, target_observations=targets, target_goals=targets
            )
        return Batch(
            **own,
            achieved_goals=own["observations"],
            next_achieved_goals=own["next_observations"],
            actor_goals=th.tensor(self._arrays["batch/actor_goals"]),
        )


def load_references() -> dict[str, Reference]:
    """All configurations of the file, by name."""
    with np.load(PATH, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    return {name: Reference(name, arrays) for name in json.loads(arrays["config"].tobytes())}
