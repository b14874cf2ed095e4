"""What things cost on this machine, each part against a named reference in the same run.

What is compared runs in turns on one thread, and the median of the ratios of CPU times counts, so that other load on
the machine cancels out. Updates a second are wall-clock time with as many threads as PyTorch has.
"""

from __future__ import annotations

import itertools
import resource
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.utils import ConstantSchedule
from stable_baselines3.sac.policies import MultiInputPolicy

from proq_agent.common.evaluation import TaskResults, evaluate_tasks
from proq_agent.quasimetric.iqe import iqe
from zoo.benchmarking.disk_costs import bench_files
from zoo.benchmarking.planning_costs import bench_planning
from zoo.benchmarking.timing import interleaved, ratio, shown
from zoo.benchmarking.update_costs import Row, bench_algorithms, bench_updates, build_proq, update, walks
from zoo.cli import print_table
from zoo.data.tasks import make_task_env, task_envs
from zoo.runs.agents import shipped_agent

HEADER = ("", "measured", "target")


def measure(names: Sequence[str], quick: bool = False, rows: int = 1_000_000) -> None:
    """
    Measure and print.

    :param names: of sections
    :param quick: tiny sizes: only to see that it runs
    :param rows: of the files that are learned from
    """
    print(f"torch {th.__version__}, {th.get_num_threads()} threads")
    for name in names:
        title, section = SECTIONS[name]
        print_table(title, HEADER, section(quick, rows) if section is bench_files else section(quick))


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


# ---- acting --------------------------------------------------------------------------------------------


def bench_predict(quick: bool) -> list[Row]:
    """One observation with an unchanged goal against SB3's SAC policy; a batch against single calls."""
    model = build_proq("tuned", quick)
    update(model, 4 if quick else 300)  # distances as far apart as a trained map's
    assert isinstance(model.observation_space, spaces.Dict)
    sac = MultiInputPolicy(
        model.observation_space,
        model.action_space,
        ConstantSchedule(1e-3),
        net_arch=list(model.policy_kwargs["hidden_sizes"]),
    )
    sac.set_training_mode(False)
    assert model.dataset is not None
    goals = model.dataset.some_goals().numpy()
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


SECTIONS: dict[str, tuple[str, Callable[..., list[Row]]]] = {
    "quasimetric": ("Quasimetric", bench_quasimetric),
    "updates": ("Training", bench_updates),
    "algorithms": ("The other algorithms, at OGBench's sizes", bench_algorithms),
    "predict": ("Acting", bench_predict),
    "evaluation": ("Evaluation", bench_evaluation),
    "planning": ("Planning", bench_planning),
    "files": ("Files that do not fit into memory", bench_files),
    "memory": ("Memory", bench_memory),
}
