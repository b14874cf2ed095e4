"""The spaces of a goal environment, and observations that belong to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.common.row_file import Rows

GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")


def check_goal_spaces(observation_space: spaces.Space, action_space: spaces.Space) -> None:
    """
    :raises ValueError: if these are not the spaces of a goal environment with continuous, bounded actions
    """
    if not isinstance(observation_space, spaces.Dict) or not set(GOAL_KEYS) <= set(observation_space.spaces):
        raise ValueError(
            f"an agent for goals needs a Dict observation space with the keys {', '.join(GOAL_KEYS)}, "
            f"got {observation_space}; wrap the environment in wrappers.GoalDict"
        )
    for key in GOAL_KEYS:
        space = observation_space[key]
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise ValueError(f"an agent for goals needs a flat Box for {key!r}, got {space}; flatten it first")
    if observation_space["achieved_goal"].shape != observation_space["desired_goal"].shape:
        raise ValueError("achieved_goal and desired_goal must have the same shape: both are points in goal space")
    if not isinstance(action_space, spaces.Box) or len(action_space.shape) != 1:
        raise ValueError(f"an agent for goals needs a flat Box action space, got {action_space}")
    if not np.isfinite([action_space.low, action_space.high]).all() or not (action_space.low < action_space.high).all():
        raise ValueError(f"an agent for goals needs an action space with finite bounds, low < high, got {action_space}")


def observation_space_of(dataset: GoalDataset) -> spaces.Dict:
    """The space of a goal environment that the dataset could have come from, without bounds."""

    def box(array: Rows) -> spaces.Box:
        return spaces.Box(-np.inf, np.inf, (array.shape[1],), np.float32)

    goal = box(dataset.achieved_goals)
    return spaces.Dict(observation=box(dataset.observations), achieved_goal=goal, desired_goal=goal)


def action_space_of(dataset: GoalDataset) -> spaces.Box:
    """The range of the actions in the dataset; the last row of a trajectory has none."""
    low, high = (bound.cpu().numpy() for bound in dataset.action_bounds)
    if not (low < high).all():
        raise ValueError("an action dimension never changes in the dataset; give the action_space")
    return spaces.Box(low, high, dtype=np.float32)


def check_observation(observation: Any, space: spaces.Space) -> tuple[dict[str, np.ndarray], bool]:
    """
    Observations as float32 arrays with a batch axis, and whether there was none.

    :raises ValueError: if a key is missing, a shape is wrong or a value is not finite
    """
    if not isinstance(observation, dict):
        hint = "; from `obs, info = env.reset()` pass obs alone" if isinstance(observation, tuple) else ""
        raise ValueError(f"predict() needs a dict with {', '.join(GOAL_KEYS)}, got {type(observation).__name__}{hint}")
    missing = [key for key in GOAL_KEYS if key not in observation]
    if missing:
        raise ValueError(f"the observation has no {', '.join(missing)}; wrap the environment in wrappers.GoalDict")
    arrays = {key: _as_array(key, observation[key]) for key in GOAL_KEYS}
    single = arrays["observation"].ndim == 1
    if single:
        arrays = {key: array[None] for key, array in arrays.items()}
    n = len(arrays["observation"]) if arrays["observation"].ndim else 1
    if not n:
        raise ValueError("the observation's observation has no row")
    for key, array in arrays.items():
        expected = (n, *space[key].shape)  # type: ignore[index]
        if array.shape != expected:
            raise ValueError(f"the observation's {key} has shape {array.shape}, expected {expected}")
        if not np.isfinite(array).all():
            raise ValueError(f"the observation's {key} is not finite")
    return arrays, single


def _as_array(key: str, value: Any) -> np.ndarray:
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # what becomes infinite is named below
            array = np.asarray(value)
            if array.dtype.kind not in "fiub":
                raise TypeError(f"{array.dtype} is no type of real numbers")
            # A scalar stays one, with a shape that can be named.
            return np.ascontiguousarray(array, dtype=np.float32) if array.ndim else array.astype(np.float32)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # a tensor on a GPU raises the last
        raise ValueError(f"the observation's {key} is no array of numbers ({error})") from error


def check_actions(actions: np.ndarray) -> np.ndarray:
    """
    The last check before an action leaves an agent.

    :raises ValueError: if one is not finite, as far outside of what the agent was trained on
    """
    if not np.isfinite(actions).all():
        raise ValueError(
            "the agent's action is not finite: the observation is far from all it was trained on, or the agent's "
            "weights make no sense"
        )
    return actions
