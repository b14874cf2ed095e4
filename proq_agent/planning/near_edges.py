"""Which edges a graph of many nodes has: a few near ones of each, and what it takes to keep together what is linked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proq_agent.planning.components import Components
from proq_agent.planning.goal_map import GoalMap, Places
from proq_agent.planning.hops import EdgeList
from proq_agent.planning.landmarks import Landmarks

N_NEIGHBOURS = 16
_BLOCK = 1 << 20  # distances that are held at once

_Edges = tuple[np.ndarray, np.ndarray, np.ndarray]  # starts, ends, lengths


def near_edges(landmarks: Landmarks, max_hop: float, bridges: bool) -> EdgeList:
    """
    Edges of every node to its nearest ones under the learned distance, and back.

    These may fall apart where hops of up to ``max_hop`` would not. So every node outside the largest strongly connected
    component also has edges to and from the nearest node of each other component within ``max_hop``: whatever such hops
    connect is connected. To bridge gaps, if ``bridges``, it has longer ones to and from the nearest few components and
    the largest, so that no node is without a way.

    :param landmarks: among the nodes
    :param max_hop: longest hop that is trusted
    :param bridges: whether longer hops may bridge gaps
    """
    n_nodes = len(landmarks.places)
    nodes, neighbours, there, back = landmarks.neighbours(N_NEIGHBOURS)
    starts, ends = np.repeat(nodes, neighbours.shape[1]), neighbours.ravel().astype(np.intp)
    edges = _ordered(n_nodes, [(starts, ends, there.ravel()), (ends, starts, back.ravel())])
    trusted = edges.lengths <= max_hop
    components = Components.of(np.sort(nodes), edges.starts[trusted], edges.ends[trusted])
    if components.number <= 1:
        return edges
    between = _between(landmarks.goal_map, landmarks.places, components, max_hop, bridges)
    return _ordered(n_nodes, [edges, *between])


def _between(
    goal_map: GoalMap, places: Places, components: Components, max_hop: float, bridges: bool
) -> Iterator[_Edges]:
    """The shortest hops between each node outside the largest component and the other components, both ways."""
    order = np.argsort(components.labels, kind="stable")  # the nodes of one component after those of another
    nodes, labels = components.nodes[order], components.labels[order]
    first = np.flatnonzero(np.diff(labels, prepend=-1))
    largest = int(np.bincount(labels).argmax())
    few = min(N_NEIGHBOURS, components.number) - 1
    outside, rows = np.flatnonzero(labels != largest), max(1, _BLOCK // len(nodes))
    everybody = places[nodes]
    for some in np.split(outside, range(rows, len(outside), rows)):
        here = places[nodes[some]]
        for apart, outward in (
            (goal_map.pairwise(here, everybody), True),
            (goal_map.pairwise(everybody, here).T, False),
        ):
            least = np.minimum.reduceat(apart, first, axis=1)  # [some, components]
            least[np.arange(len(some)), labels[some]] = np.inf
            kept = least <= max_hop
            if bridges:
                kept |= least <= np.partition(least, few, axis=1)[:, [few]]
                kept[:, largest] = True
            least[~kept] = np.nan
            row, column = np.nonzero(apart == least[:, labels])  # all of the nearest, if several are
            found = nodes[some[row]], nodes[column]
            yield (*(found if outward else found[::-1]), apart[row, column])


def _ordered(n_nodes: int, parts: list[_Edges]) -> EdgeList:
    """As one list, each once and only if it is finite."""
    starts, ends, lengths = (np.concatenate(part) for part in zip(*parts, strict=True))
    keys, first = np.unique(starts.astype(np.int64) * n_nodes + ends, return_index=True)
    keys, first = (part[np.isfinite(lengths[first])] for part in (keys, first))
    return EdgeList((keys // n_nodes).astype(np.int32), (keys % n_nodes).astype(np.int32), lengths[first].astype(float))
