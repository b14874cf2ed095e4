"""Places that cannot be passed as the map says, and what they cost the hops that lead past them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from proq_agent.planning.goal_map import GoalMap, Places

if TYPE_CHECKING:
    from proq_agent.planning.hops import EdgeList

_CHUNK = 1 << 18  # elements of one temporary: 2 MB of doubles, about a core's cache


class Ahead(NamedTuple):
    """Where the ends of ``N`` hops lie, seen from ``P`` snags."""

    onward: np.ndarray  #: ``[N, P]`` distance from the snag to the end
    towards: np.ndarray  #: ``[N, P]`` bool: in the direction in which the agent was heading


@dataclass(frozen=True, eq=False)
class Snags:
    """
    ``P`` places where an agent was stuck, and what they cost the hops that lead past them.

    A hop from a to b leads past the place s, where the agent was stuck on its way to t, if s lies on it,
    d(a, s) + d(s, b) <= d(a, b) + slack, and b lies in the direction of t: one of b and t is nearer to the other than
    s is. So one bump into a wall tells about all hops through it, however long, from either keypoints or states,
    while the way back and the ways beyond the wall stay what they were. Neither does it tell about what is beside s: by
    a keypoint there, less than half as far away as t, the agent may get round what it was stuck at.

    A place that is known to be closed is a snag of infinite cost for hops in any direction, but for those that begin or
    end beside it; as it is one of many, it need not catch what passes at a distance.

    Use :meth:`at` to make some.
    """

    goal_map: GoalMap
    slack: float  #: by how much a hop may be longer by way of the place
    places: Places
    targets: Places  #: where the agents were heading
    costs: np.ndarray  #: ``[P]``, inf: closed, in all directions
    planned: np.ndarray  #: ``[P]`` distance from place to target
    from_nodes: np.ndarray  #: ``[K, P]`` distance from each node of the graph to the place
    to_nodes: Ahead  #: of each node of the graph

    @classmethod
    def at(
        cls, goal_map: GoalMap, nodes: Places, slack: float, places: Places, targets: Places, cost: float = np.inf
    ) -> Snags:
        """
        :param goal_map: measures distances
        :param nodes: ``K`` nodes of a graph
        :param slack: by how much a hop may be longer by way of a place that lies on it
        :param places: s, where agents were stuck
        :param targets: t, where they were heading
        :param cost: of a hop that leads past one; inf if nobody can pass
        """
        planned, from_nodes = goal_map.pairwise(places, targets).diagonal(), goal_map.pairwise(nodes, places)
        to_nodes = _ahead(goal_map, places, targets, planned, nodes)
        return cls(goal_map, slack, places, targets, np.full(len(places), cost), planned, from_nodes, to_nodes)

    @classmethod
    def joined(cls, parts: Sequence[Snags]) -> Snags:
        """The snags of all parts, which must be of the same nodes."""
        first = parts[0]
        if len(parts) == 1:
            return first
        return cls(
            first.goal_map,
            first.slack,
            first.goal_map.join([part.places for part in parts]),
            first.goal_map.join([part.targets for part in parts]),
            np.concatenate([part.costs for part in parts]),
            np.concatenate([part.planned for part in parts]),
            np.concatenate([part.from_nodes for part in parts], axis=1),
            Ahead(*(np.concatenate(arrays, axis=1) for arrays in zip(*(part.to_nodes for part in parts), strict=True))),
        )

    def __len__(self) -> int:
        return len(self.costs)

    def leaving(self, starts: Places) -> np.ndarray:
        """``[N, P]`` distance from each start to each snag."""
        return self.goal_map.pairwise(starts, self.places) if len(self) else np.empty((len(starts), 0))

    def ahead(self, ends: Places) -> Ahead:
        """Where the ends of hops lie."""
        if not len(self):
            return Ahead(np.empty((len(ends), 0)), np.empty((len(ends), 0), dtype=bool))
        return _ahead(self.goal_map, self.places, self.targets, self.planned, ends)

    def penalties(self, lengths: np.ndarray, leaving: np.ndarray, ahead: Ahead) -> np.ndarray:
        """
        What hops cost beyond their lengths, inf if they are closed.

        :param lengths: ``[...]`` of the hops
        :param leaving: ``[..., P]`` what :meth:`leaving` says of their starts
        :param ahead: ``[..., P]`` what :meth:`ahead` says of their ends
        """
        lengths, closed = lengths[..., None], np.isinf(self.costs)
        past = leaving + ahead.onward <= lengths + np.where(closed, self.slack / 4, self.slack)
        between = (leaving > self.slack) & (leaving < lengths)
        beyond = ahead.towards & (ahead.onward > np.minimum(self.slack, self.planned / 2))
        return np.where(past & np.where(closed, between, beyond), self.costs, 0.0).sum(axis=-1)

    def edges_past(self, edges: EdgeList) -> np.ndarray:
        """
        ``[n, 2]`` edges of the graph that lead past a snag.

        :param edges: all of them
        """
        found = [np.empty((0, 2), dtype=np.intp)]
        chunk = max(1, _CHUNK // max(1, len(self)))
        for i in range(0, len(edges.lengths), chunk):
            starts, ends, lengths = (part[i : i + chunk] for part in edges)
            ahead = Ahead(*(part[ends] for part in self.to_nodes))
            past = self.penalties(lengths, self.from_nodes[starts], ahead) > 0
            found.append(np.stack([starts[past], ends[past]], axis=1))
        return np.concatenate(found)


def _ahead(goal_map: GoalMap, places: Places, targets: Places, planned: np.ndarray, ends: Places) -> Ahead:
    onward = goal_map.pairwise(places, ends).T
    towards = onward > goal_map.pairwise(targets, ends).T
    return Ahead(onward, towards | (goal_map.pairwise(ends, targets) < planned))
