"""
Goal environments that come with the package, registered with Gymnasium as ``proq/...-v0``; outside of the zoo's
commands, ``gymnasium.make("zoo.worlds:proq/SpiralMaze-v0")`` makes one.

The classic ones are Gymnasium's own, asked for states of theirs. Their tasks are goals by number:

- ``MountainCarPosition``: the left hill, its slope, the valley's right side, the right slope, the right hill; the car
  starts in the valley, and must gather speed to get out of it.
- ``MountainCarState``: the same, velocity included: through the valley to the right and to the left, at rest on the
  left, backwards down the right slope, at rest on the right.
- ``PendulumAngle``: hanging, horizontal on both sides, aslant, upright; as cosine and sine.
- ``ReacherFingertip``: the fingertip at a random place within reach; the target that Reacher shows is another.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from wrappers import GoalFromObservation
from zoo.data.catalogue import WORLDS

TEXT_MAZE_ID = "proq/TextMaze-v0"
PENDULUM_ANGLES = np.deg2rad((180.0, 90.0, -90.0, 45.0, 0.0))
REACH = (0.03, 0.2)  # of Reacher's arm


def _fingertips(rng: np.random.Generator) -> np.ndarray:
    """Uniform over the places that Reacher's arm gets to."""
    radius, angle = np.sqrt(rng.uniform(REACH[0] ** 2, REACH[1] ** 2)), rng.uniform(0.0, 2 * np.pi)
    return radius * np.array([np.cos(angle), np.sin(angle)])


def _register_with_goals(env_id: str, entry_point: str, max_steps: int, wrapper: dict, **kwargs: object) -> None:
    goal = GoalFromObservation.wrapper_spec(goal=WORLDS[env_id].goal, tolerance=None, period=None, **wrapper)
    gym.register(env_id, entry_point, max_episode_steps=max_steps, additional_wrappers=(goal,), kwargs=kwargs)


MOUNTAIN_CAR = "gymnasium.envs.classic_control:Continuous_MountainCarEnv"
# No car is so fast: episodes do not end at the top.
_register_with_goals(
    "proq/MountainCarPosition-v0",
    MOUNTAIN_CAR,
    300,
    {"goals": None, "tasks": [[-1.1], [-0.9], [-0.2], [0.2], [0.5]]},
    goal_velocity=1.0,
)
_register_with_goals(
    "proq/MountainCarState-v0",
    MOUNTAIN_CAR,
    300,
    {"goals": None, "tasks": [[-0.5, 0.05], [-0.5, -0.05], [-1.0, 0.0], [0.2, -0.02], [0.5, 0.0]]},
    goal_velocity=1.0,
)
_register_with_goals(
    "proq/PendulumAngle-v0",
    "gymnasium.envs.classic_control:PendulumEnv",
    200,
    {"goals": None, "tasks": np.stack([np.cos(PENDULUM_ANGLES), np.sin(PENDULUM_ANGLES)], axis=1).tolist()},
)
_register_with_goals(
    "proq/ReacherFingertip-v0", "gymnasium.envs.mujoco.reacher_v5:ReacherEnv", 100, {"goals": _fingertips, "tasks": ()}
)
gym.register("proq/Drone-v0", "zoo.worlds.drone:DroneReach", max_episode_steps=200)
for _env_id, _layout in (
    ("proq/SpiralMaze-v0", "spiral"),
    ("proq/ConveyorMaze-v0", "rooms"),
    ("proq/FieldMaze-v0", "field"),
    (TEXT_MAZE_ID, None),
):
    gym.register(
        _env_id,
        "zoo.worlds.text_maze:TextMaze",
        max_episode_steps=1000,
        kwargs={} if _layout is None else {"layout": _layout},
    )
