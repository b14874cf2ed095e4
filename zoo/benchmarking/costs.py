"""What things cost on this machine, each part against a named reference in the same run.

What is compared runs in turns on one thread, and the median of the ratios of CPU times counts, so that other load on
the machine cancels out. Updates a second are wall-clock time with as many threads as PyTorch has.
"""

from __future__ import annotations

import itertools
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch as th
from gymnasium import spaces
from scipy.sparse.csgraph import floyd_warshall
from stable_baselines3.common.utils import ConstantSchedule
from stable_baselines3.sac.policies import MultiInputPolicy
from torch import nn

import proq_agent.proq.proq
from proq_agent.common.dataset import GoalDataset
from proq_agent.common.evaluation import TaskResults, evaluate_tasks
from proq_agent.common.goal_sampling import GoalSampling
from proq_agent.common.settings import changed
from proq_agent.planning.graph import KeypointGraph
from proq_agent.proq.proq import ProQ
from proq_agent.quasimetric.iqe import iqe
from proq_agent.quasimetric.multipliers import Multipliers
from zoo.benchmarking.timing import Stopwatch, interleaved, ratio, shown
from zoo.cli import PRESETS, print_table
from zoo.config import load_hyperparams
from zoo.data.tasks import make_task_env, task_envs
from zoo.runs.agents import shipped_agent

HEADER = ("", "measured", "target")
Row = tuple[str, str, str]

# For tests: everything is done, nothing of it is worth a number.
QUICK = ("batch_size:16", "keypoints.n:8", "policy_kwargs.hidden_sizes:[16, 16]", "policy_kwargs.n_components:4")


def measure(names: Sequence[str], quick: bool = False) -> None:
    """
    Measure and print.

    :param names: of sections
    :param quick: tiny sizes: only to see that it runs
    """
    print(f"torch {th.__version__}, {th.get_num_threads()} threads")
    for name in names:
        title, section = SECTIONS[name]
        print_table(title, HEADER, section(quick))


# ---- the quasimetric -----------------------------------------------------------------------------------


def bench_quasimetric(quick: bool) -> list[Row]:
    """The implementations against the reference: 1024 pairs, 64 components of 8, one thread."""
    pairs, n_components, size = (8, 4, 4) if quick else (1024, 64, 8)
    generator = th.Generator().manual_seed(0)
    x, y = (th.randn(pairs, n_components * size, generator=generator, requires_grad=True) for _ in range(2))
    alpha = th.tensor(0.5, requires_grad=True)

    def forward(implementation: Any) -> th.Tensor:
        return iqe(x, y, alpha, n_components=n_components, implementation=implementation)

    def both(implementation: Any) -> None:
        th.autograd.grad(forward(implementation).sum(), (x, y, alpha))

    rows: list[Row] = []
    names = ("reference", "torch", "cpu")
    for label, function in (("forward", forward), ("forward + backward", both)):
        seconds = interleaved({name: partial(function, name) for name in names}, 2 if quick else 20)
        rows.append((f"{label}: reference", shown(seconds["reference"]), ""))
        for name in names[1:]:
            speed = f"{ratio(seconds, 'reference', name):.1f}x as fast"
            rows.append((f"{label}: {name}", speed, ">= 8x" if name == "cpu" else ""))
    return rows


# ---- training ------------------------------------------------------------------------------------------


def walks(quick: bool, seed: int = 0) -> GoalDataset:
    """Random walks in a square, as many rows as a PointMaze dataset has."""
    trajectories, rows = (10, 50) if quick else (1000, 1001)
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1.0, 1.0, size=(trajectories, rows, 2)).astype(np.float32)
    way = rng.uniform(-10.0, 10.0, size=(trajectories, 1, 2)) + 0.2 * np.cumsum(actions, axis=1)
    position = 20.0 - np.abs((way + 20.0) % 80.0 - 40.0)  # reflected at the walls
    terminals = np.tile(np.arange(rows) == rows - 1, trajectories)
    return GoalDataset(position.reshape(-1, 2), actions.reshape(-1, 2), terminals)


def build(preset: str, quick: bool, dataset: GoalDataset | None = None) -> ProQ:
    """An agent with a preset's settings, whose keypoints move from the first update on."""
    hyperparams, _ = load_hyperparams("default", preset, overrides=QUICK if quick else ())
    hyperparams = changed(hyperparams, {"keypoints": {"start": 0}, "stochastic": "ignore"})
    model = ProQ(dataset=dataset or walks(quick), seed=0, device="cpu", **hyperparams)
    model._total_timesteps = 10_000
    return model


def update(model: ProQ, times: int = 1) -> None:
    """Updates without the callbacks and logs of ``learn``."""
    for _ in range(times):
        model.train()
        model.num_timesteps += 1


def bench_updates(quick: bool) -> list[Row]:
    """Updates a second, where the time goes, and the paper's update against its matrix products alone."""
    rows: list[Row] = []
    dataset = walks(quick)
    for preset in PRESETS:
        model = build(preset, quick, dataset)
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
            keypoints=(proq_agent.proq.proq, "move_keypoints"),
        ):
            update(model, times)
        total = time.perf_counter() - begun
        target = ">= 40 on two cores" if preset == "tuned" else ""
        rows.append((f"{preset}: updates a second (batch {model.batch_size})", f"{times / total:.3g}", target))
        shares = {"forward, losses and the rest": total - sum(watch.seconds.values())} | watch.seconds
        rows += [(f"  {name}", f"{share / total:.1%}", "") for name, share in shares.items()]
    model.num_timesteps, model._total_timesteps = 0, 10_000
    products = matrix_products(model)
    seconds = interleaved({"update": partial(update, model), "products": products}, 2 if quick else 5)
    slower = f"{ratio(seconds, 'update', 'products'):.2f}x"
    return [*rows, ("paper: an update / its matrix products alone", slower, "<= 1.3x")]


def matrix_products(model: ProQ) -> Callable[[], None]:
    """
    The matrix products of one update's linear layers, forward and backward, and nothing else.

    :param model: updated once, to see the shapes; its keypoints must move in that update
    """
    forward: list[tuple[th.Tensor, th.Tensor]] = []
    backward: list[tuple[th.Tensor, th.Tensor]] = []
    for_keypoints = False  # which differentiates by its inputs alone

    def see(layer: nn.Module, inputs: tuple[th.Tensor, ...], output: th.Tensor) -> None:
        assert isinstance(layer, nn.Linear)
        x, weight = inputs[0].detach().flatten(0, -2), layer.weight.detach()
        gradient = th.randn_like(output).flatten(0, -2).detach()
        forward.append((x, weight.T))
        if output.requires_grad and not for_keypoints:
            backward.append((gradient.T, x))
        if inputs[0].requires_grad:
            backward.append((gradient, weight))

    move = proq_agent.proq.proq.move_keypoints

    def moving(*args: Any, **kwargs: Any) -> Any:
        nonlocal for_keypoints
        for_keypoints = True
        try:
            return move(*args, **kwargs)
        finally:
            for_keypoints = False

    hooks = [m.register_forward_hook(see) for m in model.policy.modules() if isinstance(m, nn.Linear)]
    with patch.object(proq_agent.proq.proq, "move_keypoints", moving):
        update(model)
    for hook in hooks:
        hook.remove()

    def products() -> None:
        for a, b in (*forward, *backward):
            th.mm(a, b)

    return products


# ---- acting --------------------------------------------------------------------------------------------


def bench_predict(quick: bool) -> list[Row]:
    """One observation with an unchanged goal against SB3's SAC policy; a batch against single calls."""
    model = build("tuned", quick)
    update(model, 4 if quick else 300)  # distances as far apart as a trained map's
    assert isinstance(model.observation_space, spaces.Dict)
    sac = MultiInputPolicy(
        model.observation_space,
        model.action_space,  # type: ignore[arg-type]
        ConstantSchedule(1e-3),
        net_arch=list(model.policy_kwargs["hidden_sizes"]),
    )
    sac.set_training_mode(False)
    assert model.dataset is not None
    goals = model.dataset.achieved_goals.numpy()
    n = 8 if quick else 256
    states, wanted = goals[:: len(goals) // n][:n], goals[7 :: len(goals) // n][:n]
    batch = {"observation": states, "achieved_goal": states, "desired_goal": wanted}
    single = [{key: values[k] for key, values in batch.items()} for k in range(n)]
    same_goal = [observation | {"desired_goal": wanted[0]} for observation in single]

    rows: list[Row] = []
    turns = 5 if quick else 1500
    for label, deterministic in (("sampled", False), ("deterministic", True)):
        calls = {
            name: partial(_act, act, itertools.cycle(same_goal), deterministic)
            for name, act in (("ProQ", model.predict), ("SAC", sac.predict))
        }
        seconds = interleaved(calls, turns)
        rows.append((f"one observation, {label}: SB3's SAC", shown(seconds["SAC"]), ""))
        rows.append((f"one observation, {label}: ProQ", f"{ratio(seconds, 'ProQ', 'SAC'):.2f}x", "<= 1.5x"))

    def one_by_one() -> None:
        for observation in same_goal:
            model.predict(observation)

    # Alternating between one row and many would make each plan anew, which is not what is compared.
    singles = interleaved({"": one_by_one}, 2 if quick else 7)[""]
    together = interleaved({"": partial(model.predict, batch)}, 2 if quick else 50)[""]
    faster = statistics.median(singles) / statistics.median(together)
    rows.append((f"{n} observations at once / {n} calls", f"{faster:.1f}x as fast", ""))
    return rows


def _act(predict: Callable[..., Any], observations: Iterator[dict[str, np.ndarray]], deterministic: bool) -> None:
    predict(next(observations), deterministic=deterministic)


def bench_evaluation(quick: bool) -> list[Row]:
    """Evaluating the shipped agent of the giant maze against as many steps of its environment without any agent."""
    env_id = "pointmaze-giant-navigate-v0"
    model = shipped_agent(env_id, device="cpu")
    assert model is not None
    episodes = 1 if quick else 50
    pool, tasks = task_envs(env_id)
    env = make_task_env(env_id)
    results: list[TaskResults] = []

    def evaluate() -> None:
        results.append(evaluate_tasks(model, pool, tasks, episodes, deterministic=False, seed=0))

    def step() -> None:
        env.reset(seed=0)
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    try:
        evaluate()  # also builds the environments, which is no part of the comparison
        steps = int(results[0].lengths.sum())
        actions = np.random.default_rng(0).uniform(-1.0, 1.0, size=(steps, *model.action_space.shape))  # type: ignore[misc]
        seconds = interleaved({"agent": evaluate, "bare": step}, 1)
    finally:
        pool.close()
        env.close()
    name = f"{len(tasks)} tasks x {episodes} episodes, {steps} steps"
    return [(f"{name} / stepping alone", f"{ratio(seconds, 'agent', 'bare'):.2f}x", "<= 2x")]


def bench_goals(quick: bool) -> list[Row]:
    """A new goal on a graph of K keypoints against all shortest paths anew."""
    rows: list[Row] = []
    rng = np.random.default_rng(0)
    for k, repeats in ((10, 2), (20, 2)) if quick else ((100, 20), (1000, 2), (4000, 0)):
        points = rng.uniform(0.0, 1.0, size=(k + 1, 2))
        distances = np.hypot(*(points[:, None] - points).transpose(2, 0, 1))
        graph = KeypointGraph(distances[:k, :k], max_hop=float(3.0 / np.sqrt(k)))
        begun = time.process_time()
        graph.costs  # noqa: B018
        full = [time.process_time() - begun]
        weights = np.ma.masked_invalid(graph.weights)
        to_goal = distances[:k, k][None]
        functions: dict[str, Callable[[], object]] = {"goal": partial(graph.routes, to_goal)}
        if repeats:  # at K = 4000 all shortest paths take a minute: once must do
            functions["full"] = partial(floyd_warshall, weights)
        seconds = interleaved(functions, repeats or 3)
        seconds.setdefault("full", full * (repeats or 3))
        times = f"{ratio(seconds, 'full', 'goal'):.0f}x as fast ({shown(seconds['goal'])})"
        rows.append((f"a new goal, K = {k} / Floyd-Warshall", times, ""))
    return rows


def bench_memory(quick: bool) -> list[Row]:
    """Of this process so far, and of a dataset."""
    dataset = walks(quick)
    tensors = {id(t): t for t in vars(dataset).values() if isinstance(t, th.Tensor)}.values()
    size = sum(t.numel() * t.element_size() for t in tensors)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return [
        (f"dataset of {len(dataset)} rows, on the device", f"{size / 2**20:.1f} MB", ""),
        ("peak memory of this process", f"{peak / 2**20:.0f} MB", ""),
    ]


SECTIONS: dict[str, tuple[str, Callable[[bool], list[Row]]]] = {
    "quasimetric": ("Quasimetric", bench_quasimetric),
    "updates": ("Training", bench_updates),
    "predict": ("Acting", bench_predict),
    "evaluation": ("Evaluation", bench_evaluation),
    "goals": ("Planning", bench_goals),
    "memory": ("Memory", bench_memory),
}
