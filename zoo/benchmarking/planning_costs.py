"""What plans cost as keypoints grow in number: building the graph, a new goal, acting, a block, and memory."""

from __future__ import annotations

import itertools
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

import networkx as nx
import numpy as np
import torch as th
from scipy.sparse.csgraph import floyd_warshall
from torch import nn

from proq_agent.planning.graph import KeypointGraph
from zoo.benchmarking.timing import interleaved, ratio, shown
from zoo.benchmarking.update_costs import Row
from zoo.runs.agents import shipped_agent

if TYPE_CHECKING:
    from proq_agent.proq.proq import ProQ

ENV_ID = "pointmaze-giant-stitch-v0"
BOX = [20.0, 14.0], [24.0, 18.0]  # a cell of that maze
FLOYD_WARSHALL = 1000  # keypoints up to which it is run: with 10,000 it would take half an hour, and 800 MB


def bench_planning(quick: bool) -> list[Row]:
    """
    A trained agent with ever more keypoints: its graph with a first plan, a plan to a new goal beside networkx and
    scipy's Floyd-Warshall, an action on the way to the same goal, a block with the next plan, and the most memory that
    arrays take meanwhile.
    """
    few, places = _agent(20 if quick else 100)
    rows: list[Row] = []
    for k in (20, 1001) if quick else (100, 300, 1000, 3000, 10_000):
        rows += _curve(k, few, places, 1 if quick else 10)
    return rows


def _curve(k: int, few: ProQ, places: np.ndarray, repeats: int) -> list[Row]:
    model, _ = _agent(k)
    begun = time.process_time()
    model.plan(places[0], places[1])
    build = time.process_time() - begun

    observations = [{"observation": p, "achieved_goal": p, "desired_goal": places[0]} for p in places[1:]]
    goals = itertools.cycle(places)

    def act(agent: ProQ, states: itertools.cycle) -> None:
        agent.predict(next(states), deterministic=True)

    functions: dict[str, Callable[[], object]] = {"goal": lambda: model.plan(places[0], next(goals))}
    graph, goal = _networkx(model, places[1])
    functions["networkx"] = partial(nx.single_source_dijkstra_path_length, graph, goal)
    dense = model.planner.graph
    if isinstance(dense, KeypointGraph) and k <= FLOYD_WARSHALL:
        functions["scipy"] = partial(floyd_warshall, np.ma.masked_invalid(dense.weights))
    planned = interleaved(functions, repeats)
    agents = {"many": model, "few": few}
    acting = interleaved(
        {name: partial(act, agent, itertools.cycle(observations)) for name, agent in agents.items()}, 100 * repeats
    )
    blocked = interleaved({"": partial(_block, model, places)}, max(1, repeats // 3))[""]
    beside = ", ".join(
        [f"networkx {shown(planned['networkx'])}"]
        + ([f"Floyd-Warshall {shown(planned['scipy'])}"] if "scipy" in planned else [])
    )
    slower = f"{ratio(acting, 'many', 'few'):.2f}x ({shown(acting['many'])})"
    return [
        (f"K = {k}: build", shown([build]), ""),
        (f"K = {k}: a new goal", f"{shown(planned['goal'])} ({beside})", "< 10 ms"),
        (f"K = {k}: predict / K = {few.policy.n_keypoints}", slower, "<= 2x"),
        (f"K = {k}: block a box", shown(blocked), ""),
        (f"K = {k}: memory", f"{_memory(k, places) / 2**20:.0f} MB", "< 500 MB"),
    ]


def _agent(k: int) -> tuple[ProQ, np.ndarray]:
    """The shipped agent with so many keypoints all over its map, and some other places there."""
    model = cast("ProQ", shipped_agent(ENV_ID, device="cpu"))
    policy, generator = model.policy, th.Generator().manual_seed(0)
    low, high = (policy.goal_scaler.inverse(corner) for corner in (policy.keypoint_low, policy.keypoint_high))
    with th.no_grad():
        points = low + (high - low) * th.rand(4 * k + 1000, len(low), generator=generator)
        points = points[policy.classify_goals(points) > 0]
        policy.standard_keypoints = nn.Parameter(policy.goal_scaler(points[:k]), requires_grad=False)
    return model, points[-200:].numpy()


def _networkx(model: ProQ, goal: np.ndarray) -> tuple[nx.DiGraph, int]:
    """The same edges the other way round, and a goal from which to search."""
    planner, graph = model.planner, nx.DiGraph()
    starts, ends, lengths = planner.graph.open_hops
    costs = planner.graph.hop_costs(lengths)
    graph.add_weighted_edges_from(zip(ends.tolist(), starts.tolist(), costs.tolist(), strict=True))
    to_goal = planner.goal_map.pairwise(planner.nodes, planner.goal_map.place(goal[None]))[:, 0]
    near = np.flatnonzero((to_goal <= planner.max_hop) & ~planner.blocked)
    node = planner.n_nodes
    graph.add_weighted_edges_from((node, i, to_goal[i]) for i in near.tolist())
    return graph, node


def _block(model: ProQ, places: np.ndarray) -> None:
    handle = model.planner.block(box=BOX)
    model.plan(places[0], places[1])
    model.planner.unblock(handle)


def _memory(k: int, places: np.ndarray) -> int:
    """Bytes of all arrays at once, while a graph is built, plans and changes; measured apart, as it takes time."""
    model, _ = _agent(k)
    tracemalloc.start()
    try:
        model.plan(places[0], places[1])
        _block(model, places)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
