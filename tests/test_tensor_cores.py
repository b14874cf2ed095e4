"""TF32: for the losses on a GPU, and for nothing else."""

from __future__ import annotations

import pytest
import torch as th

from proq_agent import GCBC
from proq_agent.common.tensor_cores import tensor_cores


def test_it_ends_with_the_block_and_is_for_cuda_alone():
    before = th.get_float32_matmul_precision()
    with tensor_cores(th.device("cpu")) as rounded:
        assert not rounded and th.get_float32_matmul_precision() == before == "highest"
    with pytest.raises(ZeroDivisionError), tensor_cores(th.device("cuda")) as rounded:
        assert rounded and th.get_float32_matmul_precision() == "high"
        raise ZeroDivisionError
    assert th.get_float32_matmul_precision() == before


@pytest.mark.parametrize(
    ("algo", "module", "exact", "losses"),
    [
        ("proq", "proq_agent.proq.proq", ("goals.sample", "settle", "actor"), ("map", "keypoint")),
        ("gcbc", "proq_agent.common.goal_conditioned", ("goals.sample",), ("loss",)),
    ],
)
def test_losses_use_it_and_the_choice_of_goals_does_not(tiny, walks, monkeypatch, algo, module, exact, losses):
    seen: dict[str, str] = {}

    def watched(name, function):
        def call(*args, **kwargs):
            seen[name] = th.get_float32_matmul_precision()
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(f"{module}.tensor_cores", lambda _: tensor_cores(th.device("cuda")))
    if algo == "proq":
        model = tiny(map_fraction=0.5, keypoints={"start": 0, "freq": 1})
        for name in ("map", "keypoint", "actor"):
            function = f"_{name}_objective"
            monkeypatch.setattr(model, function, watched(name, getattr(model, function)))
        of_actor = model._actor_objective

        def exactly(batch, later, known):
            assert known is None  # what the map has computed is rounded
            return of_actor(batch, later, known)

        monkeypatch.setattr(model, "_actor_objective", exactly)
        monkeypatch.setattr(f"{module}.settle_keypoints", watched("settle", lambda *_: None))
    else:
        model = GCBC(dataset=walks, batch_size=16, policy_kwargs={"hidden_sizes": [8]}, seed=0, device="cpu")
        monkeypatch.setattr(model, "loss", watched("loss", model.loss))
    monkeypatch.setattr(type(model.goals), "sample", watched("goals.sample", type(model.goals).sample))
    model.learn(2, log_interval=None)
    assert seen == dict.fromkeys(exact, "highest") | dict.fromkeys(losses, "high")
