"""The oracles that made OGBench's cube and scene play datasets: planned motions with noise, task after task."""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import ogbench  # noqa: F401  (registers the environments)
from ogbench.manipspace.oracles.plan.button_plan import ButtonPlanOracle
from ogbench.manipspace.oracles.plan.cube_plan import CubePlanOracle
from ogbench.manipspace.oracles.plan.drawer_plan import DrawerPlanOracle
from ogbench.manipspace.oracles.plan.window_plan import WindowPlanOracle

from wrappers.goal_dict import PrivateGlobalRandom

ORACLES = {"cube": CubePlanOracle, "button": ButtonPlanOracle, "drawer": DrawerPlanOracle, "window": WindowPlanOracle}
# Official: how far the cube may go to the sides outside of the drawer, which keeps it at these heights.
CUBE = slice(14, 17)  # in qpos
RIGHT, LEFT, DRAWER_HEIGHTS = 0.29, -0.3, (0.06, 0.08)


@cache
def get_env(name: str) -> Any:
    """Make an environment once a process."""
    return gym.make(f"{name}-v0", terminate_at_goal=False, mode="data_collection", max_episode_steps=-1)


def play(dataset_id: str, rows: int, noise: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """
    Play one episode.

    :param dataset_id: ``cube-single-play-v0`` or ``scene-play-v0``
    :param rows: length of the episode in rows
    :param noise: of the plans
    :param rng: source of every random number of the episode
    :return: the rows of the episode under the official file's keys
    """
    name = dataset_id.removesuffix("-play-v0")
    global_random = PrivateGlobalRandom()  # the oracles' source
    while True:
        global_random.seed(int(rng.integers(2**32)))
        with global_random:
            episode = _rollout(get_env(name), rows, noise, int(rng.integers(2**31)))
        if name != "scene" or _is_healthy(episode["qpos"]):
            return episode


def _rollout(env: Any, rows: int, noise: float, seed: int) -> dict[str, np.ndarray]:
    observation, info = env.reset(seed=seed)
    oracles = {task: oracle(env=env, noise=noise, noise_smoothing=0.5) for task, oracle in ORACLES.items()}
    oracle = oracles[info["privileged/target_task"]]
    oracle.reset(observation, info)
    columns: dict[str, list[np.ndarray]] = {"observations": [], "actions": [], "qpos": [], "qvel": []}
    if "button_states" in info:
        columns["button_states"] = []
    for _ in range(rows):
        action = np.clip(oracle.select_action(observation, info), -1.0, 1.0)
        columns["observations"].append(observation)
        columns["actions"].append(action)
        observation, _, _, _, info = env.step(action)
        for key in columns.keys() - {"observations", "actions"}:
            columns[key].append(info[f"prev_{key}"])
        if oracle.done:
            # No stack of cubes where there is one: OGBench's share of stacks does not matter.
            new_observation, new_info = env.unwrapped.set_new_target()
            oracle = oracles[new_info["privileged/target_task"]]
            oracle.reset(new_observation, new_info)
    episode = {key: np.array(values, dtype=np.float32) for key, values in columns.items() if key != "button_states"}
    if "button_states" in columns:
        episode["button_states"] = np.array(columns["button_states"], dtype=np.int64)
    return episode | {"terminals": np.arange(rows) == rows - 1}


def _is_healthy(qpos: np.ndarray) -> bool:
    """Official: the cube stays in sight unless it is in the drawer."""
    _, y, z = qpos[:, CUBE].T
    in_drawer = (z >= DRAWER_HEIGHTS[0]) & (z <= DRAWER_HEIGHTS[1])
    return bool((y < RIGHT).all() and ((y > LEFT) | in_drawer).all())
