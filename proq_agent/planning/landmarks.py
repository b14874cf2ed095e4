"""Landmarks among many nodes: with a few distances and the triangle inequality most others need not be measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proq_agent.planning.goal_map import GoalMap, Places

# Learned distances obey the triangle inequality up to the rounding of float32: steps, and a share of the distance.
_ROUNDING = 1e-3, 1e-5


@dataclass(frozen=True, eq=False)
class Landmarks:
    """
    ``M`` of the nodes of a map, spread evenly, with their distances to all ``K``. Use :meth:`among` to choose them.
    """

    goal_map: GoalMap
    places: Places  #: of all nodes
    nodes: np.ndarray  #: ``[M]`` which of them are landmarks
    distances: np.ndarray  #: ``[M, K]`` float32, from each landmark to each node; inf to nodes that do not count
    nearest: np.ndarray  #: ``[K]`` which landmark (a row of ``distances``) is the nearest to each node
    points: np.ndarray  #: ``[M, goal_dim]`` in units of the nodes' spread
    squares: np.ndarray  #: ``[M]`` half the squares of their lengths
    spread: np.ndarray  #: ``[goal_dim]``

    @classmethod
    def among(cls, goal_map: GoalMap, places: Places, counts: np.ndarray, number: int) -> Landmarks:
        """
        Each is the node that is farthest from those before it.

        :param goal_map: measures distances
        :param places: of the nodes
        :param counts: ``[K]`` bool, nodes that do
        :param number: M, at most; fewer if nodes coincide
        """
        nodes: list[int] = []
        rows: list[np.ndarray] = []
        nearest, least = np.zeros(len(places), dtype=np.intp), np.where(counts, np.inf, 0.0)
        while len(nodes) < min(number, len(places)) and (not nodes or least.max() > 0.0):
            nodes.append(int(least.argmax()))
            row = goal_map.pairwise(places[np.array(nodes[-1:])], places)[0].astype(np.float32)
            closer = row < least
            nearest[closer], least[closer] = len(rows), row[closer]
            rows.append(np.where(counts, row, np.inf).astype(np.float32))
        spread = np.ptp(places.points, axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        points = places.points[nodes] / spread
        squares = np.square(points).sum(axis=1) / 2
        return cls(goal_map, places, np.array(nodes), np.stack(rows), nearest, points, squares, spread)

    def around(self, point: np.ndarray, number: int) -> np.ndarray:
        """``[number]`` landmarks (rows of ``distances``) that seem near a point of goal space."""
        apart = self.points @ (point / self.spread)
        apart = self.squares - apart  # half the squared distance, less what they have in common
        return np.argpartition(apart, number)[:number] if number < len(apart) else np.arange(len(apart))

    def lower_bounds(self, landmark: int, away: float) -> np.ndarray:
        """
        ``[K]`` no node is nearer to a place than this.

        :param landmark: a row of ``distances``
        :param away: distance from there to the place
        """
        steps, share = _ROUNDING
        bounds = self.distances[landmark] * np.float32(1.0 - share)
        bounds -= np.float32(away * (1.0 + share) + steps)
        return np.maximum(bounds, 0.0, out=bounds)

    def neighbours(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """
        The nearest others of each node that counts, exactly, and how far it is there and back.

        Nodes with a landmark in common are compared with the nodes around that, and with more of these until the
        triangle inequality says that none of the others is nearer.

        :param number: n, of neighbours
        :return: ``[N]`` nodes, and ``[N, n]`` their neighbours, the distances to them, and those from them
        """
        counts = np.isfinite(self.distances[0])
        n_counting = int(counts.sum())
        number = min(number, n_counting - 1)
        found: list[tuple[np.ndarray, ...]] = []
        for landmark, row in enumerate(self.distances):
            members = np.flatnonzero((self.nearest == landmark) & counts)
            order = np.argsort(row, kind="stable")[:n_counting]
            n_others = 4 * (number + len(members))
            while len(members) and number > 0:
                others = order[:n_others]
                apart = self.goal_map.pairwise(self.places[members], self.places[others])
                apart = np.where(members[:, None] == others, np.inf, apart)
                chosen = np.argpartition(apart, number - 1, axis=1)[:, :number]
                lengths = np.take_along_axis(apart, chosen, axis=1)
                beyond = row[order[n_others]] - row[members] if n_others < n_counting else np.inf
                if (lengths.max(axis=1) <= beyond).all():
                    back = self.goal_map.pairwise(self.places[others], self.places[members]).T
                    found.append((members, others[chosen], lengths, np.take_along_axis(back, chosen, axis=1)))
                    break
                n_others *= 2
        if not found:
            return np.zeros(0, dtype=np.intp), *np.zeros((3, 0, 0))
        members, others, lengths, back = (np.concatenate(part) for part in zip(*found, strict=True))
        return members, others, lengths, back
