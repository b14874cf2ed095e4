"""How true a learned map is, by the maze's layout: for reports only, nothing that learns or acts may use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch as th

from zoo.figures.learned_map import has_map

if TYPE_CHECKING:
    from proq_agent.common.offline import OfflineAlgorithm
    from zoo.figures.maze_geometry import MazeGeometry


N_PAIRS = 150
SEED = 0  # every agent is asked about the same pairs


class MapQuality(NamedTuple):
    """Shares and correlation are None where there is no map, or the layout or the true distance is not known."""

    keypoints_free: float | None = None  #: share of the keypoints in free cells
    distance_correlation: float | None = None  #: of d with the steps of the shortest walk, over pairs of states


def map_quality(model: OfflineAlgorithm, maze: MazeGeometry | None, states: th.Tensor) -> MapQuality:
    """
    Compare an agent's map with the maze.

    :param model: a trained agent
    :param maze: where it was trained; None if that is no maze
    :param states: ``[rows, goal_dim]`` of its dataset, from which pairs are drawn
    """
    if not has_map(model) or maze is None or states.shape[1] != 2:
        return MapQuality()
    return MapQuality(_keypoints_free(model, maze), _distance_correlation(model, maze, states))


def _keypoints_free(model: Any, maze: MazeGeometry) -> float:
    x, y = model.policy.keypoints.cpu().numpy().T
    row = np.rint((y - maze.first[1]) / maze.row_step).astype(int)
    column = np.rint((x - maze.first[0]) / maze.unit).astype(int)
    inside = (row >= 0) & (row < maze.walls.shape[0]) & (column >= 0) & (column < maze.walls.shape[1])
    wall = np.ones(len(x), dtype=bool)
    wall[inside] = maze.walls[row[inside], column[inside]]
    return float(1.0 - wall.mean())


@th.no_grad()
def _distance_correlation(model: Any, maze: MazeGeometry, states: th.Tensor) -> float | None:
    if maze.step is None:
        return None
    rows = np.random.default_rng(SEED).integers(len(states), size=(2, N_PAIRS))
    points = [states[th.as_tensor(part, device=states.device)].to(model.device) for part in rows]
    embedded = [model.policy.embed(model.policy.locate(part)) for part in points]
    learned = model.policy.distances(*embedded).cpu().numpy()
    starts, goals = (part.cpu().numpy().astype(np.float64) for part in points)
    walks = [maze.shortest_steps(start, goal) for start, goal in zip(starts, goals, strict=True)]
    true = np.array(walks, dtype=np.float64)
    known = np.isfinite(true)  # a teleporter's sealed cell has no way out on foot
    return float(np.corrcoef(learned[known], true[known])[0, 1]) if known.sum() > 1 else None
