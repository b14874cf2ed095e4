"""What the page draws, as plain values: the map of an agent in a plane, plans, distance fields, where the data are."""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.colors import to_hex

from zoo.exploring.prospects import look_ahead
from zoo.figures.canvas import BLUE, COLOURS, GREEN, OUTLINE, PURPLE, VERMILLION, WALL, grid_points, padded
from zoo.figures.learned_map import LearnedMap
from zoo.figures.maps import AMOUNT, HOP, REACHABILITY, map_bounds

if TYPE_CHECKING:
    from proq_agent.planning.navigator import Navigator
    from zoo.figures.maze_geometry import MazeGeometry

PIXELS = 160  # along the longer side of a picture: distances to all of them take a few hundredths of a second
STYLE = {
    "colours": {
        "start": BLUE, "keypoint": VERMILLION, "goal": GREEN, "portal": PURPLE, "wall": WALL, "outline": OUTLINE,
        "hop": HOP, "chance": COLOURS,
    },
    "ramps": {
        "psi": [to_hex(colour) for colour in REACHABILITY(np.linspace(0, 1, 33))],
        "amount": [to_hex(colour) for colour in AMOUNT(np.linspace(0, 1, 33))],
    },
}  # fmt: skip


class MapView:
    """
    An agent's map in the plane of two goal dimensions.

    :param model: the agent
    :param axes: the goal dimensions
    :param maze: whose walls are drawn
    """

    def __init__(self, model: Any, axes: tuple[int, int], maze: MazeGeometry | None) -> None:
        self.learned = LearnedMap(model, axes)
        self.maze = maze if axes == (0, 1) else None
        self.bounds = map_bounds(self.learned, self.maze) if self.maze else padded(self.learned.bounds)
        points, self._shape = grid_points(self.bounds, PIXELS)
        self._psi = self.learned.reachability(points)
        known = points[self._psi >= 0.5]  # elsewhere distances mean nothing
        self._known = self.learned.graph.goal_map.place(self.learned.to_goals(known))

    def map(self) -> dict[str, Any]:
        """All that does not depend on start and goal."""
        learned, planner = self.learned, self.learned.graph
        n = len(learned.keypoints)
        return {
            "axes": learned.axes,
            "goal_dim": learned.goal_dim,
            "bounds": self.bounds,
            "lengths": self.maze is not None,
            "max_hop": planner.max_hop,
            "reach": planner.reach,
            "keypoints": learned.keypoints,
            "barred": planner.blocked[:n],
            "hops": list(zip(*(part.tolist() for part in planner.graph.open_hops.among(n)), strict=True)),
            "chance": [
                {
                    "entrance": edge.entrance,
                    "radius": edge.radius,
                    "exits": edge.exits,
                    "odds": edge.probabilities,
                    "rate": edge.rate,
                }
                for edge in learned.model.chance_edges
            ],
            "walls": [] if self.maze is None else self.maze.wall_centres(),
            "unit": 0.0 if self.maze is None else self.maze.unit,
            "outline": [] if self.maze is None else self.maze.outline(),
            "psi": self._picture(self._psi, 0.0, 1.0),
        }

    def plan(self, navigator: Navigator, start: np.ndarray, goal: np.ndarray) -> dict[str, Any]:
        """
        A plan with its prospects, and how far every keypoint is.

        :param navigator: knows what is blocked
        :param start: ``[goal_dim]``
        :param goal: ``[goal_dim]``
        """
        prospect = look_ahead(navigator, start, goal)
        plan, goal_map = prospect.plan, self.learned.graph.goal_map
        ends, n = goal_map.place(np.stack([start, goal])), len(self.learned.keypoints)
        keypoints = self.learned.graph.nodes[:n]
        return {
            "start": start,
            "goal": goal,
            "reachable": goal_map.reachable(np.stack([start, goal])),
            "legs": [
                {"points": leg.points, "odds": leg.odds, "trusted": leg.trusted, "chance": leg.entrance}
                for leg in prospect.legs
            ],
            "nodes": [node for node in plan.nodes if node < n],
            "hops": len(plan.nodes),
            "cost": plan.cost,
            "steps": prospect.steps,
            "odds": plan.probability,
            "fallback": plan.fallback,
            "arrived": plan.arrived,
            "direct": goal_map.pairwise(ends, ends)[0, 1],
            "from_start": goal_map.pairwise(ends[:1], keypoints)[0],
            "to_goal": goal_map.pairwise(keypoints, ends[1:])[:, 0],
        }

    def field(self, place: np.ndarray, towards: bool) -> dict[str, Any]:
        """
        Learned distances between a place and everywhere that ψ takes for reachable.

        :param place: ``[goal_dim]``
        :param towards: to the place, d(·, g); else from it, d(s, ·)
        """
        goal_map = self.learned.graph.goal_map
        one, many = goal_map.place(place[None]), self._known
        found = goal_map.pairwise(many, one)[:, 0] if towards else goal_map.pairwise(one, many)[0]
        values = np.full(self._psi.shape, np.nan)
        values[self._psi >= 0.5] = found
        return self._picture(values, 0.0, float(found.max(initial=1.0)))

    def density(self, goals: np.ndarray) -> dict[str, Any]:
        """
        How often each pixel was visited.

        :param goals: ``[n, goal_dim]``
        """
        x, y = (goals[:, axis] if axis < goals.shape[1] else np.zeros(len(goals)) for axis in self.learned.axes)
        left, right, bottom, top = self.bounds
        counts, _, _ = np.histogram2d(y, x, self._shape, ((bottom, top), (left, right)))
        logs = np.log10(np.where(counts > 0, counts, np.nan)).ravel()
        return self._picture(logs, 0.0, float(np.log10(max(counts.max(), 10.0))))

    def _picture(self, values: np.ndarray, low: float, high: float) -> dict[str, Any]:
        """Pixels from the bottom up, as bytes: 1 to 255 from low to high, 0 for nothing (NaN)."""
        scaled = 1 + np.rint(254 * (np.nan_to_num(values, nan=low) - low) / (high - low)).clip(0, 254)
        pixels = np.where(np.isnan(values), 0, scaled).astype(np.uint8)
        rows, columns = self._shape
        data = base64.b64encode(pixels.tobytes()).decode("ascii")
        return {"rows": rows, "columns": columns, "low": low, "high": high, "pixels": data}


def plain(value: Any) -> Any:
    """Arrays and tuples as lists, numbers with five digits; what is not finite becomes null, as JSON has no word."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value
