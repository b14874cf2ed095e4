"""What an update of an algorithm costs, against its matrix products alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch as th
from torch.utils._python_dispatch import TorchDispatchMode

from proq_agent.common.dataset import GoalDataset
from proq_agent.common.goal_sampling import GoalSampling
from proq_agent.common.settings import changed
from proq_agent.quasimetric.multipliers import Multipliers
from zoo.benchmarking.timing import Stopwatch, interleaved, ratio
from zoo.config import load_hyperparams
from zoo.registry import ALGOS, DEFAULT_ALGO, PRESETS, algorithm

if TYPE_CHECKING:
    from proq_agent.common.offline import OfflineAlgorithm

Row = tuple[str, str, str]

# For tests: everything is done, nothing of it is worth a number.
QUICK_SIZES = {"batch_size": 16, "policy_kwargs": {"hidden_sizes": [16, 16]}}
QUICK_PROQ = {"keypoints": {"n": 8}, "policy_kwargs": {"n_components": 4}}
UPDATE_TARGETS = {"tuned": "<= 2x", "paper": "<= 1.3x"}  # of its matrix products alone
_PRODUCTS = {
    th.ops.aten.mm: slice(0, 2),
    th.ops.aten.bmm: slice(0, 2),
    th.ops.aten.addmm: slice(1, 3),
    th.ops.aten.baddbmm: slice(1, 3),
}  # where their factors are among their arguments


def _proq() -> ModuleType:
    """The module whose functions are watched."""
    return sys.modules[algorithm(DEFAULT_ALGO).__module__]


def walks(quick: bool, seed: int = 0) -> GoalDataset:
    """Random walks in a square, as many rows as a PointMaze dataset has."""
    trajectories, rows = (10, 50) if quick else (1000, 1001)
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1.0, 1.0, size=(trajectories, rows, 2)).astype(np.float32)
    way = rng.uniform(-10.0, 10.0, size=(trajectories, 1, 2)) + 0.2 * np.cumsum(actions, axis=1)
    position = 20.0 - np.abs((way + 20.0) % 80.0 - 40.0)  # reflected at the walls
    terminals = np.tile(np.arange(rows) == rows - 1, trajectories)
    return GoalDataset(position.reshape(-1, 2), actions.reshape(-1, 2), terminals)


def build(
    algo: str, preset: str, quick: bool, dataset: GoalDataset | None = None, own: Mapping[str, Any] | None = None
) -> OfflineAlgorithm:
    """
    An agent with a preset's settings.

    :param algo: name of the algorithm
    :param preset: ``tuned`` or ``paper``
    :param quick: tiny networks and batches
    :param dataset: to learn from; :func:`walks` by default
    :param own: changes to the settings
    """
    hyperparams, _ = load_hyperparams("default", preset, algo=algo)
    hyperparams = changed(changed(hyperparams, QUICK_SIZES if quick else {}), own or {})
    model = algorithm(algo)(dataset=dataset or walks(quick), seed=0, device="cpu", **hyperparams)
    model._total_timesteps = 10_000
    return model


def build_proq(preset: str, quick: bool, dataset: GoalDataset | None = None) -> Any:
    """A ProQ agent whose keypoints move from the first update on."""
    own = changed(QUICK_PROQ if quick else {}, {"keypoints": {"start": 0}, "stochastic": "ignore"})
    return build(DEFAULT_ALGO, preset, quick, dataset, own)


def update(model: OfflineAlgorithm, times: int = 1) -> None:
    """Updates without the callbacks and logs of ``learn``."""
    for _ in range(times):
        model.train()
        model.num_timesteps += 1


class _Products(TorchDispatchMode):
    """Takes note of the factors of every matrix product, those of gradients too."""

    def __init__(self) -> None:
        super().__init__()
        self.factors: list[tuple[th.Tensor, ...]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        which = _PRODUCTS.get(function.overloadpacket)
        if which is not None:
            self.factors.append(tuple(factor.detach() for factor in args[which]))
        return function(*args, **(kwargs or {}))


def matrix_products(model: OfflineAlgorithm) -> Callable[[], None]:
    """
    The matrix products of one update, forward and backward, and nothing else.

    :param model: updated once, to see them
    """
    with _Products() as seen:
        update(model)

    def products() -> None:
        for a, b in seen.factors:
            th.matmul(a, b)

    return products


def bench_updates(quick: bool) -> list[Row]:
    """ProQ's updates a second, where the time goes, and an update against its matrix products alone."""
    rows: list[Row] = []
    dataset = walks(quick)
    for preset in PRESETS:
        model = build_proq(preset, quick, dataset)
        times = 4 if quick else {"tuned": 200, "paper": 4}[preset]
        update(model, model.keypoints.freq)
        model.num_timesteps, model._total_timesteps = 0, times  # a whole training, in which map and actor take turns
        watch = Stopwatch()
        begun = time.perf_counter()
        with watch.watching(
            sampling=(GoalSampling, "sample"),
            backward=(th.Tensor, "backward"),
            optimiser=(th.optim.Adam, "step"),
            multipliers=(Multipliers, "update"),
            keypoints=(_proq(), "move_keypoints"),
        ):
            update(model, times)
        total = time.perf_counter() - begun
        target = ">= 40 on two cores" if preset == "tuned" else ""
        rows.append((f"{preset}: updates a second (batch {model.batch_size})", f"{times / total:.3g}", target))
        shares = {"forward, losses and the rest": total - sum(watch.seconds.values())} | watch.seconds
        rows += [(f"  {name}", f"{share / total:.1%}", "") for name, share in shares.items()]
        model._total_timesteps = 10_000
        phases = {"an update": 1}
        if preset == "tuned":  # the map first, then the actor
            phases = {"an update of the map": 1, "one of the actor": round(model.map_fraction * 10_000)}
        for what, model.num_timesteps in phases.items():
            label = f"{preset}: {what} / its matrix products alone"
            rows.append((label, _against_products(model, quick), UPDATE_TARGETS[preset]))
    return rows


def bench_algorithms(quick: bool) -> list[Row]:
    """The other algorithms at OGBench's sizes: updates a second, and against their matrix products alone."""
    rows: list[Row] = []
    dataset = walks(quick)
    for algo in (name for name in ALGOS if name != DEFAULT_ALGO):
        model = build(algo, "paper", quick, dataset)
        update(model)
        times = 2 if quick else 5
        begun = time.perf_counter()
        update(model, times)
        speed = times / (time.perf_counter() - begun)
        rows.append((f"{algo}: updates a second (batch {model.batch_size})", f"{speed:.3g}", ""))
        rows.append(("  an update / its matrix products alone", _against_products(model, quick), "<= 1.4x"))
    return rows


def _against_products(model: OfflineAlgorithm, quick: bool) -> str:
    functions: dict[str, Callable[[], object]] = {"update": partial(update, model), "products": matrix_products(model)}
    return f"{ratio(interleaved(functions, 2 if quick else 5), 'update', 'products'):.2f}x"
