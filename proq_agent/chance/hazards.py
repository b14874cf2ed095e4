"""What hops risk that lead through regions where chance strikes now and then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proq_agent.chance.edges import ChanceEdge

WANDER = 3.0  # steps that one strays from a straight line
STRAYING = 0.1  # share of the steps in that margin of a region that stray into it


class Risks(NamedTuple):
    """Of hops of any shape ``[...]``."""

    survival: NDArray[np.floating]  #: ``[...]`` probability of arriving
    losses: NDArray[np.floating]  #: ``[..., E]`` probability of being taken away by each chance edge instead


class Hazards:
    """
    Regions that can be crossed with luck: of the steps taken there a share is a jump.

    Portals are none. Whoever logged the data never crossed them, so the learned distances lead around.

    :param edges: those that are not portals count, with their numbers among all of these
    """

    def __init__(self, edges: Sequence[ChanceEdge]) -> None:
        self.n_edges = len(edges)
        self.numbers = np.array([i for i, edge in enumerate(edges) if not edge.is_portal], dtype=np.intp)
        of = [edges[i] for i in self.numbers]
        self.rates = np.array([edge.rate for edge in of])
        self.axes = np.array([_box_axes(edge) for edge in of])
        self.centres = np.array([edge.entrance for edge in of])
        # How far a step leads in each coordinate; infinitely far if it is not known.
        steps = np.array([np.full_like(edge.entrance, np.inf) if edge.step is None else edge.step for edge in of])
        self.steps = np.array([edge.pace * step for edge, step in zip(of, steps, strict=True)])
        strays = np.where(np.isinf(steps), 0.0, WANDER * steps)
        margins = _norm(self.axes * strays[:, None]) if of else 0.0  # in half-widths of the box, along each of its axes
        self.wider_axes = self.axes / (1.0 + margins)

    def __len__(self) -> int:
        return len(self.numbers)

    def risks(
        self,
        starts: NDArray[np.floating],
        ends: NDArray[np.floating],
        lengths: NDArray[np.floating],
    ) -> Risks:
        """
        The risks of hops along straight lines in goal space, at a constant pace.

        :param starts: ``[..., goal_dim]`` points; with ``ends`` they broadcast to the shape of ``lengths``
        :param ends: ``[..., goal_dim]`` points
        :param lengths: ``[...]`` of the hops, in steps, as far as regions do not tell how far a step leads; infinite
            ones are no hops and risk nothing
        """
        shape, dim = np.shape(lengths), np.shape(ends)[-1]
        looked_at = np.flatnonzero(np.isfinite(np.ravel(lengths)))
        starts, ends = (np.broadcast_to(points, (*shape, dim)).reshape(-1, dim)[looked_at] for points in (starts, ends))
        inside, around = (_shares(starts, ends, self.centres, axes) for axes in (self.axes, self.wider_axes))
        # Learned distances are too long where chance made the data scarce, the more the nearer one comes.
        straight = _norm((ends - starts)[:, None] / self.steps)[..., 0]
        steps = np.where(np.isinf(self.steps[:, 0]), np.ravel(lengths)[looked_at, None], straight)
        steps = (inside + STRAYING * (around - inside)) * steps
        strikes = -np.log1p(-self.rates) * steps  # expected, of each region
        total = strikes.sum(axis=1)
        survival, losses = np.ones(np.size(lengths)), np.zeros((np.size(lengths), self.n_edges))
        survival[looked_at] = np.exp(-total)
        lost = -np.expm1(-total) / np.where(total > 0, total, 1.0)
        losses[looked_at[:, None], self.numbers] = strikes * lost[:, None]
        return Risks(survival.reshape(shape), losses.reshape(*shape, self.n_edges))


def _shares(
    starts: NDArray[np.floating], ends: NDArray[np.floating], centres: NDArray[np.floating], axes: NDArray[np.floating]
) -> NDArray[np.floating]:
    """``[N, regions]`` the part of each segment that lies in each box: clip it against the slab of every axis."""
    at = np.einsum("rkd,nrd->nrk", axes, starts[:, None] - centres)  # in half-widths
    way = np.einsum("rkd,nd->nrk", axes, ends - starts)
    way = np.where(np.abs(way) < 1e-12, 1e-12, way)
    one, other = (-1.0 - at) / way, (1.0 - at) / way
    enter, leave = np.minimum(one, other).max(axis=2), np.maximum(one, other).min(axis=2)
    return np.maximum(np.minimum(leave, 1.0) - np.maximum(enter, 0.0), 0.0)


def _norm(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.linalg.norm(vectors, axis=-1, keepdims=True)


def _box_axes(edge: ChanceEdge) -> NDArray[np.floating]:
    return np.eye(len(edge.entrance)) / edge.radius if edge.axes is None else edge.axes
