"""Begin an episode where somebody points to, in the kinds of environments that allow it."""

from __future__ import annotations

from typing import Any

import numpy as np

from wrappers.goal_dict import GoalDict
from zoo.figures.maze_geometry import MazeGeometry


def reset_at(env: GoalDict, start: np.ndarray, goal: np.ndarray, task: int | None, seed: int) -> dict[str, np.ndarray]:
    """
    Begin an episode with a start and a goal as near to these as the environment can be told; see
    :func:`begins_where_told`.

    :param env: where
    :param start: ``[goal_dim]``
    :param goal: ``[goal_dim]``
    :param task: whose start and goal to take instead, if not None
    :param seed: of the episode
    :return: the first observation
    :raises ValueError: if nothing fits there
    """
    if task is not None:
        return env.reset(seed=seed, options={"task_id": task})[0]
    base: Any = env.unwrapped
    maze = MazeGeometry.of_env(env)
    if maze is not None:
        for name, place in (("start", start), ("goal", goal)):
            if not maze.fits(place[:2]):
                raise ValueError(f"the agent does not fit there: the {name} is in a wall, too near to one, or a portal")
    if hasattr(base, "maze_map"):  # OGBench; its cells may be fractions
        if not begins_where_told(env):
            return env.reset(seed=seed)[0]
        assert maze is not None
        cells = [tuple(((place[:2] - maze.first) / maze.unit)[::-1]) for place in (start, goal)]
        noise, base._noise = base._noise, 0
        try:
            return env.reset(seed=seed, options={"task_info": {"init_ij": cells[0], "goal_ij": cells[1]}})[0]
        finally:
            base._noise = noise
    if hasattr(base, "maze"):  # Gymnasium-Robotics knows whole cells alone
        options = {
            name: base.maze.cell_xy_to_rowcol(place[:2]) for name, place in (("reset_cell", start), ("goal_cell", goal))
        }
    elif begins_where_told(env):
        options = {"start": start, "goal": goal}
    elif env.has_wrapper_attr("goal_spec"):  # GoalFromObservation
        options = {"goal": goal}
    else:
        options = {}
    return env.reset(seed=seed, options=options or None)[0]


def begins_where_told(env: GoalDict) -> bool:
    """Whether episodes of this environment can begin anywhere; others have starts, some also goals, of their own."""
    base: Any = env.unwrapped
    if hasattr(base, "task_infos"):
        return bool(env._is_maze and base._reward_task_id is None)
    return hasattr(base, "maze") or type(base).__module__.startswith("zoo.worlds.")
