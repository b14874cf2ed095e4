"""Short logs of the drone, whose goals are a part of its observations, for tests."""

from __future__ import annotations

from proq_agent import GoalDataset
from zoo.data.catalogue import WORLDS
from zoo.data.generation import generate

DRONE = "proq/Drone-v0"


def drone_logs(episodes: int | None = None) -> GoalDataset:
    """
    :param episodes: the world's own number by default
    """
    arrays = generate(DRONE, episodes=episodes)["train"]
    return GoalDataset(arrays["observations"], arrays["actions"], arrays["terminals"], goal=WORLDS[DRONE].goal)
