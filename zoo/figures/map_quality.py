"""How true a learned map is, by the maze's layout: for reports only, nothing that learns or acts may use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch as th
from scipy.spatial import KDTree

from zoo.figures.canvas import grid_points
from zoo.figures.learned_map import LearnedMap, has_map

if TYPE_CHECKING:
    from proq_agent.common.offline import OfflineAlgorithm
    from zoo.figures.maze_geometry import MazeGeometry


N_GOALS, N_STARTS = 50, 100  # pairs: every goal from starts of its own; 2,000 even if half of them have no way
N_PIXELS = 400  # along the longer side of the maze, for areas
SEED = 0  # every agent is asked about the same pairs


class MapQuality(NamedTuple):
    """
    All are None where there is no map or the layout is not known, all but the first where the agent's moves are not.

    A map cannot be expected to know more than its data do, and data may leave whole corners out: compare ``psi_iou``
    with ``data_iou``.
    """

    keypoints_free: float | None = None  #: share of the keypoints in free cells
    distance_correlation: float | None = None  #: of the learned d with the steps of the shortest walk
    distance_ratio: float | None = None  #: median of d divided by that walk
    false_shortcuts: float | None = None  #: share of the pairs whose d is less than half of that walk
    psi_iou: float | None = None  #: of the places where ψ > 0.5 with those where the agent can be
    psi_data_iou: float | None = None  #: of the places where ψ > 0.5 with those within a step of a state of the data
    data_iou: float | None = None  #: of the places within a step of a state of the data with those where it can be


def map_quality(model: OfflineAlgorithm, maze: MazeGeometry | None, states: th.Tensor) -> MapQuality:
    """
    Compare an agent's map with the maze.

    :param model: a trained agent
    :param maze: where it was trained; None if that is no maze
    :param states: ``[rows, goal_dim]`` of its dataset
    """
    if not has_map(model) or maze is None or states.shape[1] != 2:
        return MapQuality()
    free = _keypoints_free(model, maze)
    if maze.step is None:
        return MapQuality(free)
    return MapQuality(free, **_distances(model, maze, states), **_overlaps(model, maze, states))


def _keypoints_free(model: Any, maze: MazeGeometry) -> float:
    x, y = model.policy.keypoints.cpu().numpy().T
    row = np.rint((y - maze.first[1]) / maze.row_step).astype(int)
    column = np.rint((x - maze.first[0]) / maze.unit).astype(int)
    inside = (row >= 0) & (row < maze.walls.shape[0]) & (column >= 0) & (column < maze.walls.shape[1])
    wall = np.ones(len(x), dtype=bool)
    wall[inside] = maze.walls[row[inside], column[inside]]
    return float(1.0 - wall.mean())


def _distances(model: Any, maze: MazeGeometry, states: th.Tensor) -> dict[str, float]:
    """Correlation, median ratio and share of false shortcuts of d as it was learned, without the planner's floor."""
    rows = np.random.default_rng(SEED).integers(len(states), size=(N_GOALS, 1 + N_STARTS))
    points = states[th.as_tensor(rows, device=states.device)].to(model.device)
    learned = learned_distances(model, points[:, 1:], points[:, :1]).cpu().numpy()
    places = points.cpu().numpy().astype(np.float64)
    true = np.stack([maze.walks(starts, goal) for goal, *starts in places])
    known = np.isfinite(true)  # a teleporter's sealed cell has no way out on foot
    if known.sum() < 2:
        return {}
    learned, true = learned[known], true[known]
    return {
        "distance_correlation": float(np.corrcoef(learned, true)[0, 1]),
        "distance_ratio": float(np.median(learned / true)),
        "false_shortcuts": float((learned < 0.5 * true).mean()),
    }


@th.no_grad()
def learned_distances(model: Any, starts: th.Tensor, goals: th.Tensor) -> th.Tensor:
    """d as the quasimetric alone says, of points ``[..., goal_dim]`` whose leading dimensions broadcast."""
    policy = model.policy
    return policy.quasimetric(*(policy.embedder(policy.encode(points)) for points in (starts, goals)))


def _overlaps(model: Any, maze: MazeGeometry, states: th.Tensor) -> dict[str, float]:
    """Intersection over union of what ψ takes for reachable, what is, and what the data show; on a fine grid."""
    assert maze.step is not None
    points, _ = grid_points(maze.bounds, N_PIXELS)
    taken = LearnedMap(model).reachability(points) > 0.5
    free = maze.fits(points)
    nearest, _ = KDTree(states.cpu().numpy()).query(points, p=np.inf, distance_upper_bound=maze.step)
    shown = np.isfinite(nearest)
    return {
        "psi_iou": _overlap(taken, free),
        "psi_data_iou": _overlap(taken, shown),
        "data_iou": _overlap(shown, free),
    }


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    return float((a & b).sum() / max((a | b).sum(), 1))
