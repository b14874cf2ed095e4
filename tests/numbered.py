"""Trajectories whose states say where they come from, for tests."""

from __future__ import annotations

import numpy as np

from proq_agent import GoalDataset


def numbered(lengths: list[int], **kwargs) -> GoalDataset:
    """Trajectories whose observation is (trajectory, step) and whose action is the step."""
    trajectory = np.repeat(np.arange(len(lengths)), lengths)
    step = np.concatenate([np.arange(n) for n in lengths])
    terminals = np.concatenate([np.arange(n) == n - 1 for n in lengths])
    return GoalDataset(np.stack([trajectory, step], 1).astype(np.float32), step[:, None] * 1.0, terminals, **kwargs)
