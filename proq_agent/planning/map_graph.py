"""The graph of a learned map: keypoints and chance edges as nodes, and what is closed or snagged on the map."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch as th

from proq_agent.chance.edges import ChanceEdge
from proq_agent.planning.chance_graph import ChanceGraph
from proq_agent.planning.regions import Corner
from proq_agent.planning.snags import Snags
from proq_agent.proq.policies import ProQPolicy

Box = tuple[Corner, Corner]
N_SAMPLES = 1 << 14  # points looked at to find places in a part of goal space; a sixteenth will do in a box
MAX_PLACES = 64  # of these that are kept: each makes every plan a little slower while it is blocked


class MapGraph(ChanceGraph):
    """
    A graph whose distances are those of a map. A box or region that is blocked also closes the hops that bend through
    it: straight lines between keypoints cut corners, and may miss it.

    :param policy: holds φ, d and the keypoints; must not change while the graph is in use
    :param max_hop: as for :class:`~proq_agent.planning.graph.KeypointGraph`
    :param reach: likewise; also how far beside a hop lies what hinders it
    :param caution: likewise
    :param chance_edges: lotteries; their entrances and exits become nodes, after the keypoints
    """

    points: np.ndarray

    @th.no_grad()
    def __init__(
        self,
        policy: ProQPolicy,
        max_hop: float,
        reach: float,
        caution: float = 0.0,
        chance_edges: Sequence[ChanceEdge] = (),
    ) -> None:
        self.policy = policy
        keypoints = policy.keypoints.cpu().numpy()
        entrances = [edge.entrance for edge in chance_edges]
        exits = [place for edge in chance_edges for place in edge.exits]
        points = np.array([*keypoints, *entrances, *exits], dtype=np.float32)
        self.locations = policy.locate(th.as_tensor(points, device=policy.device))
        self.embeddings = policy.embed(self.locations)
        # The barrier holds on average; a keypoint that ψ takes for unreachable is no place to send anyone, and one
        # in an entrance cannot be stood on.
        barred = ~self._reachable(self.locations[: len(keypoints)])
        for edge in chance_edges:
            barred |= edge.contains(keypoints)
        super().__init__(
            policy.pairwise_distances(self.embeddings, self.embeddings).cpu().numpy(),
            max_hop,
            reach,
            points,
            caution,
            np.flatnonzero(barred),
            entrances=len(keypoints) + np.arange(len(entrances)),
            outcomes=_outcomes(chance_edges, len(keypoints) + len(entrances)),
        )
        self._snags = Snags(self, policy.pairwise_distances, self.embeddings, slack=reach)

    def block(
        self,
        *,
        nodes: int | Sequence[int] | np.ndarray | None = None,
        edges: Sequence[tuple[int, int]] | np.ndarray | None = None,
        box: Box | None = None,
        region: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> int:
        """As :meth:`KeypointGraph.block`."""
        handle = super().block(nodes=nodes, edges=edges, box=box, region=region)
        change = self._changes[handle]
        if change.tests:
            within = box if region is None else None
            try:
                places = self._places(lambda x: np.any([test(x, x) for test in change.tests], axis=0), within)
            except BaseException:  # the caller's predicate failed
                self.unblock(handle)
                raise
            edges = np.concatenate([np.stack([change.sources, change.ends], axis=1), self._snags.edges_past(places)])
            self._changes[handle] = change._replace(sources=edges[:, 0], ends=edges[:, 1])
            self._snags.close(places, handle)
        return handle

    @th.no_grad()
    def avoid(self, place: np.ndarray, target: np.ndarray, cost: float) -> None:
        """
        Make hops more expensive that lead past a place in the direction of a target, see :class:`Snags`.

        :param place: ``[goal_dim]`` where an agent is stuck
        :param target: ``[goal_dim]`` where it was heading
        :param cost: added to each of these hops
        """
        embeddings = self.policy.embed(self.policy.locate(self.tensor(np.stack([place, target]))))
        self._snags.add(embeddings[0], embeddings[1], cost)

    def passable(
        self, distances: np.ndarray, starts: np.ndarray, ends: np.ndarray, from_: th.Tensor, to: th.Tensor
    ) -> tuple[np.ndarray, np.ndarray | float]:
        """
        Hops that are no edges: what is blocked or penalised in the graph holds for them too.

        :param distances: ``[...]`` their lengths
        :param starts: ``[..., goal_dim]`` points; with ``ends`` they broadcast to the shape of ``distances``
        :param ends: ``[..., goal_dim]`` points
        :param from_: ``[..., embedding_dim]`` the embeddings of ``starts``
        :param to: ``[..., embedding_dim]`` the embeddings of ``ends``
        :return: lengths, inf where there is no way, and penalties
        """
        penalties = self._snags.penalties(distances, from_, to)
        distances = self.mask_blocked(distances, starts, ends)
        if isinstance(penalties, float):
            return distances, penalties
        closed = np.isinf(penalties)
        return np.where(closed, np.inf, distances), np.where(closed, 0.0, penalties)

    def tensor(self, array: np.ndarray) -> th.Tensor:
        """An array on the device of the map."""
        return th.as_tensor(array, dtype=th.float32, device=self.embeddings.device)

    def _reachable(self, locations: th.Tensor) -> np.ndarray:
        return (self.policy.classifier(locations[:, : self.policy.latent_dim])[:, 0] >= 0).cpu().numpy()

    @th.no_grad()
    def _places(self, inside: Callable[[np.ndarray], np.ndarray], box: Box | None = None) -> th.Tensor:
        """
        Embeddings ``[P, embedding_dim]`` of places that the map takes for reachable, in a part of goal space.

        :param inside: which of the points ``[N, goal_dim]`` are in that part
        :param box: where to look for them besides the nodes; by default all over the map
        """
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        n = N_SAMPLES
        if box is not None:
            low, high, n = np.clip(box[0], low, high), np.clip(box[1], low, high), N_SAMPLES // 16
        samples = np.random.default_rng(0).uniform(low, high, (n, self.points.shape[1]))
        points = np.concatenate([self.points, samples])
        locations = self.policy.locate(self.tensor(points[inside(points)]))
        return self.policy.embed(locations[self._reachable(locations)][:MAX_PLACES])


def _outcomes(chance_edges: Sequence[ChanceEdge], first_exit: int) -> np.ndarray:
    """Where each entrance leads, ``[entrances, nodes]``: its own exits follow those of the entrances before it."""
    outcomes = np.zeros((len(chance_edges), first_exit + sum(len(edge.exits) for edge in chance_edges)))
    for row, edge in enumerate(chance_edges):
        outcomes[row, first_exit : first_exit + len(edge.exits)] = edge.probabilities
        first_exit += len(edge.exits)
    return outcomes
