"""``policy_kwargs`` as users of Stable-Baselines3 write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from conftest import TINY

from proq_agent import CRL, GCBC, GCIQL, GCIVL, HIQL, QRL, GoalDataset, ProQ
from proq_agent.proq.policies import ProQPolicy

ALGORITHMS = (ProQ, GCBC, GCIVL, GCIQL, QRL, CRL, HIQL)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_net_arch_is_the_hidden_layers_of_every_algorithm(algorithm: Any, walks: GoalDataset, tmp_path: Path) -> None:
    model, same = (
        algorithm(dataset=walks, seed=0, device="cpu", policy_kwargs={name: [8, 16]})
        for name in ("net_arch", "hidden_sizes")
    )
    assert [p.shape for p in model.policy.parameters()] == [p.shape for p in same.policy.parameters()]
    model.save(tmp_path / "agent")
    kwargs = algorithm.load(tmp_path / "agent", device="cpu").policy_kwargs
    assert kwargs == same.policy_kwargs and kwargs["hidden_sizes"] == [8, 16]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    ("name", "value", "answer"),
    [
        ("activation_fn", th.nn.ReLU, "the units are GELU"),
        ("optimizer_class", th.optim.AdamW, "Adam, with the agent's learning_rate"),
        ("features_extractor_class", object, "n_fourier_features"),
        ("hiden_sizes", [8], "did you mean hidden_sizes?"),
        ("qf", [8], "known are .*hidden_sizes"),
    ],
)
def test_what_cannot_be_chosen_is_answered(
    algorithm: Any, walks: GoalDataset, name: str, value: Any, answer: str
) -> None:
    with pytest.raises(ValueError, match=rf"policy_kwargs: \w+ has no '{name}'; .*{answer}"):
        algorithm(dataset=walks, policy_kwargs={name: value})


def test_hidden_layers_are_one_list_under_one_name(walks: GoalDataset) -> None:
    with pytest.raises(ValueError, match=r"one list for all networks.* got \{'pi'"):
        ProQ(dataset=walks, policy_kwargs={"net_arch": {"pi": [8], "qf": [8]}})
    with pytest.raises(ValueError, match="both net_arch and hidden_sizes"):
        ProQ(dataset=walks, policy_kwargs={"net_arch": [8], "hidden_sizes": [8]})


class Open(ProQPolicy):
    """Takes anything, and understands ``gain``."""

    def __init__(self, *args: Any, gain: float = 1.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gain = gain


def test_a_policy_of_ones_own_has_arguments_of_its_own(walks: GoalDataset) -> None:
    model = ProQ(Open, dataset=walks, **TINY | {"policy_kwargs": {**TINY["policy_kwargs"], "gain": 2.0}})
    assert model.policy.gain == 2.0
    assert np.isfinite(model.policy.log_std.detach().numpy()).all()
