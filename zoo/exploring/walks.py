"""An agent at work in its simulator, told frame by frame while it happens."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch as th

from zoo.exploring.agent import Block, ExploredAgent
from zoo.exploring.placing import reset_at

if TYPE_CHECKING:
    from proq_agent.chance.edges import ChanceEdge

FRAMES_A_SECOND = 25
MAX_STEPS = 5000  # of a walk in a world that never ends one

# The environments draw from NumPy's global state: one of them at a time.
_STEPPING = threading.Lock()


class WalkOptions(NamedTuple):
    """
    How to walk.

    :param task: of the environment, instead of start and goal
    :param deterministic: the mean action instead of a sample
    :param seed: of the episode and the samples
    :param rate: steps a second, if the machine can
    """

    task: int | None
    deterministic: bool
    seed: int
    rate: float


def begin_episode(agent: ExploredAgent, task: int | None, seed: int) -> dict[str, Any]:
    """
    Start and goal that the environment has.

    :param agent: in its environment
    :param task: its number; None where there are none
    :param seed: of the episode
    """
    with agent.env() as env, _STEPPING:
        observation, _ = env.reset(seed=seed, options=None if task is None else {"task_id": task})
    start, goal = _ends(agent, observation)
    return {"start": start, "goal": goal}


def _ends(agent: ExploredAgent, observation: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Where the agent is and wants to be, on its map."""
    return [agent.model.policy.on_map(observation[key]) for key in ("achieved_goal", "desired_goal")]


def walk(
    agent: ExploredAgent, start: np.ndarray, goal: np.ndarray, blocks: tuple[Block, ...], options: WalkOptions
) -> Iterator[dict[str, Any]]:
    """
    Walk from the start to the goal, around what is blocked.

    :param agent: who walks
    :param start: ``[goal_dim]``, see :func:`~zoo.exploring.placing.reset_at`
    :param goal: ``[goal_dim]``
    :param blocks: parts of the map to keep out of; in the simulator nothing stands there
    :param options: how
    :return: ``begin`` with start and goal as the environment has them; frames with new ``points``, the rest of the
        plan and what ``happened``; ``end`` with success and a sentence
    :raises ValueError: if it cannot begin there
    """
    navigator = agent.navigator(blocks).fork()
    generator = th.Generator(device=agent.model.device).manual_seed(options.seed)
    per_frame = max(1, round(options.rate / FRAMES_A_SECOND))
    with agent.env() as env:
        with _STEPPING:
            observation = reset_at(env, start, goal, options.task, options.seed)
        here, goal = _ends(agent, observation)
        shortest = agent.maze.shortest_steps(here[:2], goal[:2]) if agent.maze else None
        yield {"kind": "begin", "start": here, "goal": goal}
        begun, progress, steps, success, done = time.monotonic(), None, 0, False, False
        while not done:
            points: list[np.ndarray] = []
            happened: list[str] = []
            while not done and len(points) < per_frame:
                known = 0 if progress is None else progress[-1].size
                decision, progress = navigator.decide(here[None], goal[None], progress)
                if progress is not None and progress[-1].size > known:  # places where it was stuck
                    happened.append(f"Step {steps}: it got no closer and looks for another way.")
                row = observation["observation"][None]
                action = navigator.act(row, decision, options.deterministic, generator)[0]
                with _STEPPING:
                    observation, _, terminated, truncated, info = env.step(action)
                before, here, success = here, _ends(agent, observation)[0], bool(info["is_success"])
                points.append(here)
                steps += 1
                if jump := describe_jump(agent.model.chance_edges, before, here):
                    happened.append(f"Step {steps}: {jump}.")
                done = success or terminated or truncated or steps >= MAX_STEPS
            plan, _ = navigator.follow(here, goal, progress)
            yield {"kind": "frame", "steps": steps, "points": points, "plan": plan.points, "happened": happened}
            if not done:
                time.sleep(max(0.0, begun + steps / options.rate - time.monotonic()))
        yield {"kind": "end", "success": success, "steps": steps, "says": _describe_end(success, steps, shortest)}


def _describe_end(success: bool, steps: int, shortest: float | None) -> str:
    if not success:
        return f"It did not reach the goal within {steps} steps."
    known = f"; the shortest possible are {shortest:.0f}" if shortest is not None and np.isfinite(shortest) else ""
    return f"It reached the goal after {steps} steps{known}."


def describe_jump(edges: Sequence[ChanceEdge], before: np.ndarray, after: np.ndarray) -> str | None:
    """What chance did in a step, if it did anything: whoever was nearest to an entrance is nearest to an exit."""
    for edge in edges:
        ends = np.concatenate([edge.entrance[None], edge.exits])
        was, is_ = np.linalg.norm(ends[:, None] - np.stack([before, after]), axis=-1).argmin(axis=0)
        if was == 0 and is_ > 0 and np.linalg.norm(after - before) > edge.radius:
            place = ", ".join(f"{x:.1f}" for x in after)
            return f"chance took it to ({place}), for which the odds were {edge.probabilities[is_ - 1]:.0%}"
    return None
