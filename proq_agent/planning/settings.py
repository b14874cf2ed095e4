"""What can be changed about an agent's plans without training it anew."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from proq_agent.common.settings import Settings

HOP = 45.0  # until it is known better
REACH = 0.22  # of a hop


@dataclass(frozen=True)
class PlanningSettings(Settings):
    """
    How plans are made and followed. What is None follows from the data when the training ends, see
    :func:`~proq_agent.proq.trust.choose_planning`.

    :param max_hop: τ, the longest distance that is trusted as a single hop
    :param reach: a keypoint nearer than this is left for its successor
    :param direct: head straight for the goal, whatever the map says: where it cannot be trusted. Who gets stuck so, see
        ``patience``, looks for a way over the keypoints
    :param caution: a hop of length ``max_hop`` counts 1 + caution times its length when ways are compared, shorter hops
        less; the paper counts all alike
    :param patience: steps without progress after which the way is taken for closed and another one is looked for, see
        :meth:`~proq_agent.planning.navigator.Navigator.decide`; None trusts the map for ever, as the paper does
    :param bridge_gaps: where hops of up to ``max_hop`` leave no way, plan with longer ones; the paper has no plan there
    :param bar_strays: plan without the keypoints that ψ takes for unreachable; the paper uses all
    """

    max_hop: float | None = None
    reach: float | None = None
    direct: bool | None = None
    caution: float = 0.0
    patience: int | None = None
    bridge_gaps: bool = True
    bar_strays: bool = True

    def check(self) -> None:
        self.require(self.max_hop is None or 0 < self.max_hop < math.inf, "max_hop", "be positive, or None")
        self.require(self.reach is None or 0 <= self.reach < math.inf, "reach", "be a distance, 0 or more, or None")
        self.require(0 <= self.caution < math.inf, "caution", "be 0 or more")
        self.require(
            self.patience is None or self.patience >= 1, "patience", "be a number of steps, at least 1, or None"
        )

    def known(self, max_hop: float = HOP, direct: bool = False) -> PlanningSettings:
        """
        With these values, and a reach that goes with them, for what is None.

        :param max_hop: τ
        :param direct: head straight for the goal
        """
        hop = max_hop if self.max_hop is None else self.max_hop
        reach = REACH * hop if self.reach is None else self.reach
        return replace(self, max_hop=hop, reach=reach, direct=direct if self.direct is None else self.direct)
