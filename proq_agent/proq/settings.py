"""The groups of ProQ's settings that concern learning, and where the names of earlier versions have gone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from proq_agent.common.settings import Renamed, Settings

MAX_KEYPOINTS = 2**20  # more than the memory of today holds the neighbours of
FIRST_KEYPOINTS = 100  # until it is known how many it takes


@dataclass(frozen=True)
class DistanceSettings(Settings):
    """
    The losses of the map: distance d and classifier ψ. What is None follows from the data before the first update, see
    :func:`~proq_agent.proq.time_scale.choose_distance`.

    :param close_margin: ε, by how much the cost of a step may exceed one
    :param far_offset: μ, distances beyond this are no longer pushed up
    :param far_scale: softness of that offset
    :param far_focus: distance at which a pair counts half in that push; infinite counts all alike
    :param floor: no distance is shorter than the straight way at the longest steps of the data; the paper has no floor
    :param compliance: δ; ψ is to be 1 - δ on the data and on the keypoints
    :param bounded_ood: divide ψ's loss by λ_ood where that exceeds one: for a given φ the best ψ is the same, and φ
        feels it as much as the other losses; the paper does not
    :param multiplier_learning_rate: of log λ
    :param max_multiplier: upper bound of every λ
    """

    close_margin: float = 0.25
    far_offset: float | None = 500.0
    far_scale: float | None = 0.01
    far_focus: float | None = math.inf
    floor: bool = True
    compliance: float = 0.05
    bounded_ood: bool = True
    multiplier_learning_rate: float = 1e-2
    max_multiplier: float = 1e5

    def check(self) -> None:
        self.require(0 <= self.close_margin < math.inf, "close_margin", "be 0 or more")
        for name in ("far_offset", "far_scale"):
            value = getattr(self, name)
            self.require(value is None or 0 < value < math.inf, name, "be positive, or None")
        self.require(self.far_focus is None or self.far_focus > 0, "far_focus", "be positive, or None")
        self.require(0 < self.multiplier_learning_rate < math.inf, "multiplier_learning_rate", "be positive")
        self.require(0 < self.compliance < 1, "compliance", "lie strictly between 0 and 1")
        self.require(1 < self.max_multiplier < math.inf, "max_multiplier", "be greater than 1, where multipliers start")

    @property
    def is_known(self) -> bool:
        """Whether nothing is left to the data."""
        return None not in (self.far_offset, self.far_scale, self.far_focus)

    def known(self, far_offset: float, far_focus: float, softness: float) -> DistanceSettings:
        """
        With these values for what is None.

        :param far_offset: μ
        :param far_focus: distance at which a pair counts half
        :param softness: of the offset, in its own units: ``far_scale`` times ``far_offset``
        """
        offset = far_offset if self.far_offset is None else self.far_offset
        scale = softness / offset if self.far_scale is None else self.far_scale
        focus = far_focus if self.far_focus is None else self.far_focus
        return replace(self, far_offset=offset, far_scale=scale, far_focus=focus)


@dataclass(frozen=True)
class KeypointSettings(Settings):
    """
    The keypoints, and how they spread.

    :param n: K, their number; None begins with :data:`FIRST_KEYPOINTS` and adds, when the training ends, as many as it
        takes for states to have one within half a hop, see :func:`~proq_agent.proq.keypoints.cover_with_keypoints`
    :param start: when they begin to move: below 1 a share of the updates in which the map is learned, from 1 on a
        number of updates
    :param freq: they move every so many updates
    :param learning_rate: of their positions, in standardised coordinates
    :param repel_strength: weight of their repulsion
    :param repel_range: distance beyond which they do not feel each other; None for that at which pairs count half in
        the push apart, see :class:`DistanceSettings`: whoever feels all others is pressed to the rims
    :param bounded: keep them within the bounding box of the data; the paper has the barrier alone
    :param barrier: hold them where the data is; without it they drift, as the paper's ablation shows
    :param density: how much closer they stand where ways bend or branch, see :mod:`~proq_agent.proq.difficulty`; 0 for
        evenly spread, as in the paper
    :param centred: when the map is finished, move them from the rims, where their repulsion presses them, to the middle
        of the states nearest to them, see :func:`~proq_agent.proq.centring.centre_keypoints`
    """

    n: int | None = 100
    start: float = 0.1
    freq: int = 1
    learning_rate: float = 3e-4
    repel_strength: float = 100.0
    repel_range: float | None = 100.0
    bounded: bool = True
    barrier: bool = True
    density: float = 0.0
    centred: bool = False

    def check(self) -> None:
        self.require(self.n is None or 1 <= self.n <= MAX_KEYPOINTS, "n", f"be 1 to {MAX_KEYPOINTS}, or None")
        self.require(self.freq >= 1, "freq", "be at least 1")
        for name in ("start", "repel_strength", "density"):
            self.require(0 <= getattr(self, name) < math.inf, name, "be 0 or more")
        self.require(
            self.repel_range is None or 0 <= self.repel_range < math.inf, "repel_range", "be 0 or more, or None"
        )
        self.require(0 < self.learning_rate < math.inf, "learning_rate", "be positive")

    def first_update(self, map_updates: int) -> int:
        """
        The update in which they begin to move.

        :param map_updates: number of updates in which the map is learned
        """
        return round(self.start * map_updates) if self.start < 1 else round(self.start)


RENAMED = Renamed(
    places={
        "n_keypoints": "keypoints.n",
        "keypoint_start": "keypoints.start",
        "keypoint_freq": "keypoints.freq",
        "keypoint_learning_rate": "keypoints.learning_rate",
        "max_hop": "planning.max_hop",
        "reach": "planning.reach",
        "caution": "planning.caution",
        "patience": "planning.patience",
        "discount": "goals.discount",
        "value_near_share": "goals.value.near",
        "value_time_share": "goals.value.near_in_time",
        "value_map_share": "goals.value.on_map",
        "actor_map_share": "goals.actor.on_map",
        **{name: f"keypoints.{name}" for name in ("repel_strength", "repel_range", "barrier")},
        **{name: f"distance.{name}" for name in ("close_margin", "far_offset", "far_scale", "far_focus", "compliance")},
        **{name: f"distance.{name}" for name in ("multiplier_learning_rate", "max_multiplier")},
    },
    gone={"actor_near_share": 0.0, "near_candidates": 256},
)
