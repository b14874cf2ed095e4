"""Orientations as unit quaternions: q and -q are the same, but a network that has seen the one does not know the other.

A simulator that integrates rotations changes from one to the other when a body has turned once around, which short
trajectories never show, and long episodes do.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch as th
from torch import nn

from proq_agent.common.row_file import some_rows

if TYPE_CHECKING:
    from proq_agent.common.dataset import GoalDataset
    from proq_agent.common.row_file import Rows

SIZE = 4
TOLERANCE = 1e-3  # of the length, and what varies less than that is constant
UNIT = 0.95  # share of the rows that are of length one: simulators begin with a quaternion and noise on it


def find_quaternions(dataset: GoalDataset) -> tuple[int, ...]:
    """
    Where orientations begin in observations: four coordinates in a row, all of which vary, and whose length does not.

    A sine and a cosine beside two constants are of length one, too, and are none.

    :param dataset: shows what observations are like
    """
    if dataset.device.type == "meta" or dataset.observations.shape[1] < SIZE:
        return ()
    rows = some_rows(dataset.observations).double()
    off = (rows.unfold(1, SIZE, 1).square().sum(dim=-1) - 1.0).abs() > TOLERANCE
    unit = off.double().mean(dim=0) <= 1.0 - UNIT
    varies = (rows.std(dim=0) > TOLERANCE).unfold(0, SIZE, 1).all(dim=-1)
    found: list[int] = []
    for start in th.nonzero(unit & varies)[:, 0].tolist():
        if not found or start >= found[-1] + SIZE:
            found.append(start)
    return tuple(found)


class OneSign(nn.Module):
    """
    Of q and -q, the one that is nearer to most orientations of the data.

    :param starts: where quaternions begin in an observation
    :param dim: number of coordinates of an observation
    """

    references: th.Tensor

    def __init__(self, starts: Sequence[int], dim: int) -> None:
        super().__init__()
        self.starts = list(starts)
        whole_numbers = all(type(start) is int and start >= 0 for start in self.starts)
        if not whole_numbers or any(b - a < SIZE for a, b in itertools.pairwise([*self.starts, dim])):
            got = f"got {self.starts!r:.100}"
            raise ValueError(f"quaternions begin at rising numbers of the {dim} coordinates, {SIZE} for each, {got}")
        self.register_buffer("references", th.zeros(len(self.starts), SIZE))

    def fit(self, data: Rows) -> None:
        """Find the axis along which the data lie; for it, too, both signs are the same."""
        for start, reference in zip(self.starts, self.references, strict=True):
            quaternions = some_rows(data)[:, start : start + SIZE].double()
            axis = th.linalg.eigh(quaternions.T @ quaternions).eigenvectors[:, -1]
            reference.copy_(axis * axis[axis.abs().argmax()].sign())

    def forward(self, x: th.Tensor) -> th.Tensor:
        """
        :param x: ``[..., dim]`` observations
        """
        for start, reference in zip(self.starts, self.references, strict=True):
            before, quaternions, after = x.split([start, SIZE, x.shape[-1] - start - SIZE], dim=-1)
            turned = (quaternions * reference).sum(dim=-1, keepdim=True) < 0.0
            x = th.cat([before, th.where(turned, -quaternions, quaternions), after], dim=-1)
        return x
