"""Started by torchrun in ``test_distributed.py``: trains every algorithm, writes what each process has in the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch as th
from grid_maze import GridMaze
from stable_baselines3.common.logger import KVWriter, Logger
from tiny_algorithm import TinyCloning

from proq_agent import CRL, GCBC, GCIQL, GCIVL, HIQL, QRL, GoalDataset, ProQ
from proq_agent.common.distributed import is_main
from proq_agent.common.offline import OfflineAlgorithm
from proq_agent.common.torchrun import processes

N_UPDATES = 50
SMALL: dict[str, Any] = {"batch_size": 32, "seed": 0, "device": "cpu"}
NETWORKS = {"hidden_sizes": [16, 16], "latent_dim": 8}
PROQ = NETWORKS | {"n_components": 4, "component_size": 4, "n_fourier_features": 4}
RIVAL = {"policy_kwargs": {"hidden_sizes": [16, 16]}}
LATENT = {"policy_kwargs": NETWORKS}
KEYPOINTS = {"n": 8, "start": 2, "freq": 2}
# Everything that a batch is used for: goals on the map, weights of far pairs, both phases, dropout.
PHASES = {
    "goals": {"value": {"on_map": 0.3, "near": 0.2}, "actor": {"on_map": 0.3}},
    "distance": {"far_focus": 10.0},
    "planning": {"max_hop": 5.0},
    "map_fraction": 0.7,
    "actor_fraction": 0.8,
}
AGENTS: dict[str, Callable[..., OfflineAlgorithm]] = {
    "proq": partial(ProQ, held_out=0.0, policy_kwargs=PROQ, keypoints=KEYPOINTS),
    "proq-phases": partial(ProQ, held_out=0.0, policy_kwargs=PROQ | {"dropout": 0.1}, keypoints=KEYPOINTS, **PHASES),
    "gcbc": partial(GCBC, **RIVAL),
    "gcivl": partial(GCIVL, **RIVAL),
    "gciql": partial(GCIQL, **RIVAL),
    "gciql-awr": partial(GCIQL, actor_loss="awr", **RIVAL),
    "qrl": partial(QRL, **LATENT),
    "qrl-awr": partial(QRL, actor_loss="awr", **LATENT),
    "crl": partial(CRL, **LATENT),
    "crl-awr": partial(CRL, actor_loss="awr", **LATENT),
    "hiql": partial(HIQL, subgoal_steps=5, **RIVAL),
}


class Remember(KVWriter):
    """What a training logs."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = {}

    def write(self, key_values: dict[str, Any], key_excluded: Any, step: int = 0) -> None:
        for name, value in key_values.items():
            if name.startswith("train/"):
                self.values.setdefault(name, []).append(float(value))

    def close(self) -> None:
        pass


def trained(name: str, dataset: GoalDataset) -> dict[str, Any]:
    """Weights, generator and log of an agent after its training."""
    model, log = AGENTS[name](dataset=dataset, **SMALL), Remember()
    model.set_logger(Logger(None, [log]))
    model.learn(N_UPDATES, log_interval=10)
    assert model.generator is not None
    return {"policy": model.policy.state_dict(), "generator": model.generator.get_state(), "log": log.values}


def refusal(model: OfflineAlgorithm) -> str:
    try:
        model.learn(1)
    except ValueError as error:
        return str(error)
    return ""


def main(folder: Path) -> None:
    th.set_num_threads(1)
    walks = GridMaze().random_walks(20, 30)
    with processes("cpu"):
        main_process = is_main()
        results: dict[str, Any] = {name: trained(name, walks) for name in AGENTS}
        others = GridMaze().random_walks(20, 30, seed=1)
        results["refused"] = {
            "odd": refusal(AGENTS["gcbc"](dataset=walks, **SMALL | {"batch_size": 31})),
            "seed": refusal(AGENTS["gcbc"](dataset=walks, **SMALL | {"seed": int(main_process)})),
            "data": refusal(AGENTS["gcbc"](dataset=walks if main_process else others, **SMALL)),
            "algorithm": refusal(TinyCloning(dataset=walks, **SMALL)),
        }
        th.save(results, folder / f"{int(not main_process)}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
