"""Learned Lagrange multipliers."""

from __future__ import annotations

import math
from typing import Any

import torch as th
from torch import nn

from proq_agent.common.state_checks import check_optimizer_state


class Multipliers(nn.Module):
    """
    A positive multiplier λ = exp(log λ) for each constraint, raised while the constraint is violated.

    Kept in log space, because the values that are needed (10³) are far from where they start, and moved by an
    optimiser of their own on the violations alone, never through the primal loss.

    :param names: one for each constraint
    :param learning_rate: of Adam on log λ
    :param max_value: upper bound, so that a constraint that cannot be met does not overflow
    """

    def __init__(self, names: tuple[str, ...], learning_rate: float, max_value: float) -> None:
        super().__init__()
        if not max_value > 1.0:
            raise ValueError(f"max_value must be greater than 1, where multipliers start, got {max_value}")
        self.log_values = nn.ParameterDict({name: nn.Parameter(th.zeros(())) for name in names})
        self.max_log_value = math.log(max_value)
        self.optimizer = th.optim.Adam(self.log_values.values(), lr=learning_rate)

    def get_extra_state(self) -> dict[str, Any]:
        """The optimiser belongs to the state, so that training resumes exactly."""
        return self.optimizer.state_dict()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        check_optimizer_state(self.optimizer, state)
        self.optimizer.load_state_dict(state)

    def __getitem__(self, name: str) -> th.Tensor:
        """The multiplier as a constant: no gradient reaches it through a loss that it weighs."""
        return self.log_values[name].detach().exp()

    def update(self, **violations: th.Tensor) -> None:
        """Ascend the named multipliers on their constraints' violations; the others stay."""
        self.optimizer.zero_grad(set_to_none=True)
        for name, violation in violations.items():
            self.log_values[name].grad = -violation.detach().to(self.log_values[name].dtype)
        self.optimizer.step()
        with th.no_grad():
            for name in violations:
                self.log_values[name].clamp_(max=self.max_log_value)

    def metrics(self) -> dict[str, th.Tensor]:
        return {f"lambda_{name}": self[name] for name in self.log_values}
