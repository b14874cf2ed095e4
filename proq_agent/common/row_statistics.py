"""Statistics of rows, in memory or on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch as th

if TYPE_CHECKING:
    from proq_agent.common.row_file import Rows


def std_mean(rows: Rows) -> tuple[th.Tensor, th.Tensor]:
    """``[features]`` each, of float64: standard deviation and mean of all rows."""
    if isinstance(rows, th.Tensor):
        return th.std_mean(rows.double(), dim=0, correction=0)
    summary = rows.summary()
    return th.as_tensor(summary.std, device=rows.device), th.as_tensor(summary.mean, device=rows.device)
