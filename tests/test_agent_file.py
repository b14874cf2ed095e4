"""Agents as files: what was learned comes back, whatever the format, and a hostile file costs next to nothing."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch as th
from agent_files import (
    Exploit,
    Members,
    as_stream,
    assert_same,
    format_1,
    members_of,
    with_header,
    with_metadata,
    within_bounds,
)
from tiny_goal import tiny_model

from proq_agent import ProQ
from proq_agent.common.errors import CheckpointError
from proq_agent.proq.policies import ProQPolicy


def observation() -> dict[str, np.ndarray]:
    return {key: np.full(2, 0.4, np.float32) for key in ("observation", "achieved_goal", "desired_goal")}


@pytest.fixture(scope="module")
def model() -> ProQ:
    return tiny_model().learn(8, log_interval=None)


@pytest.fixture(scope="module")
def file(model: ProQ) -> io.BytesIO:
    stream = io.BytesIO()
    model.save(stream)
    return stream


@pytest.fixture
def members(file: io.BytesIO) -> Members:
    return members_of(file)


def hyperparameters(members: Members, **changes: Any) -> Members:
    saved = json.loads(members["metadata.json"])["metadata"]["hyperparameters"]
    return with_metadata(members, hyperparameters=saved | changes)


def weights(members: Members, **changes: th.Tensor) -> Members:
    """With other tensors."""
    tensors = safetensors.torch.load(members["policy.safetensors"])
    return members | {"policy.safetensors": safetensors.torch.save(tensors | changes)}


def refused(members: Members, message: str) -> None:
    stream = as_stream(members)
    with within_bounds(len(stream.getvalue())), pytest.raises(CheckpointError, match=message):
        ProQ.load(stream, device="cpu")


@pytest.mark.parametrize("version", [1, 2])
def test_an_agent_comes_back_and_goes_on_as_if_nothing_had_happened(
    version: int, model: ProQ, file: io.BytesIO, members: Members
) -> None:
    loaded = ProQ.load(as_stream(format_1(file)) if version == 1 else file, device="cpu")
    assert_same(dict(loaded.policy.state_dict()), dict(model.policy.state_dict()))
    assert_same(loaded._training_state(), model._training_state())
    assert (loaded.num_timesteps, loaded._n_updates, loaded.training_restored) == (8, 8, True)
    original = ProQ.load(file, device="cpu")
    for agent in (original, loaded):
        agent.set_dataset(model.dataset)  # type: ignore[arg-type]
        agent.learn(4, log_interval=None, reset_num_timesteps=False)
    assert_same(dict(loaded.policy.state_dict()), dict(original.policy.state_dict()))
    np.testing.assert_array_equal(loaded.predict(observation())[0], original.predict(observation())[0])


@pytest.mark.parametrize(
    "changes",
    [
        {"policy_kwargs": {"hidden_sizes": [20000] * 3}},
        {"policy_kwargs": {"hidden_sizes": [16] * 500_000}},
        {"keypoints": {"n": 300_000_000}},
        {"keypoints": {"n": 2**62}},
        {"policy_kwargs": {"latent_dim": 10**9}},
        {"policy_kwargs": {"n_components": 10**12}},
    ],
)
def test_sizes_are_compared_before_anything_is_built(members: Members, changes: dict[str, Any]) -> None:
    refused(hyperparameters(members, **changes), "policy in the given stream")


def test_huge_spaces_are_refused_unbuilt(members: Members) -> None:
    metadata = json.loads(members["metadata.json"])["metadata"]
    box = {"type": "Box", "dtype": "float32", "shape": [2**24], "low": 0, "high": 1}
    space = metadata["observation_space"]
    for extra in ({f"k{n}": box for n in range(20)}, {f"k{n}": box | {"shape": [1]} for n in range(50_000)}):
        changed = space | {"spaces": space["spaces"] | extra}
        refused(with_metadata(members, observation_space=changed), r"metadata\.json.*too many")
    for _ in range(300):
        space = {"type": "Dict", "spaces": {"a": space}}
    refused(with_metadata(members, observation_space=space), r"metadata\.json")


def edge(**changes: Any) -> dict[str, Any]:
    return {"entrance": [0.5, 0.5], "radius": 0.1, "exits": [[0.1, 0.1]], "probabilities": [1.0], "count": 9} | changes


@pytest.mark.parametrize(
    "edges",
    [
        [edge()] * 3000,
        [edge(probabilities=[0.5])],
        [edge(probabilities=[])],
        [edge(entrance=[0.5] * 3, exits=[[0.1] * 3])],
        [edge(entrance={"__float__": "nan"})],
        [edge(entrance=[{"__float__": "nan"}, 0.0])],
        [edge(radius=-1.0)],
        [edge(count=0)],
        [edge(rate=0.0)],
        [edge(axes=[[1.0]])],
        [edge(step=[1.0])],
        [edge(step=[-1.0, 1.0])],
        [edge(step=[{"__float__": "inf"}, 1.0])],
        [edge(exits=[[1e400, 0.0]])],
        [{"entrance": [0.5, 0.5]}],
        [3],
        3,
        {"a": edge()},
    ],
)
def test_malformed_chance_edges_are_refused_when_loaded(members: Members, edges: Any) -> None:
    refused(with_metadata(members, learned={"chance_edges": edges}), r"metadata\.json")


def test_chance_edges_that_are_well_formed_are_loaded(members: Members) -> None:
    loaded = ProQ.load(as_stream(with_metadata(members, learned={"chance_edges": [edge()]})), device="cpu")
    assert loaded.planner.n_nodes == 5 + 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_timesteps", -1),
        ("num_timesteps", 1.5),
        ("num_timesteps", True),
        ("num_timesteps", "8"),
        ("_n_updates", None),
        ("_total_timesteps", 10**30),
        ("_current_progress_remaining", "x"),
        ("_current_progress_remaining", {"__float__": "nan"}),
        ("no_counter", 3),
    ],
)
def test_malformed_counters_are_refused_when_loaded(members: Members, name: str, value: Any) -> None:
    counters = json.loads(members["metadata.json"])["metadata"]["counters"]
    refused(with_metadata(members, counters=counters | {name: value}), r"metadata\.json.*" + name)


@pytest.mark.parametrize("missing", ["algorithm", "observation_space", "counters", "learned", "hyperparameters"])
@pytest.mark.parametrize("value", [None, 3, [], {"a": []}, "x"])
def test_metadata_of_another_form_is_refused(members: Members, missing: str, value: Any) -> None:
    refused(with_metadata(members, **{missing: value}), "the given stream")


def test_what_is_unknown_is_refused_not_ignored(model: ProQ, members: Members) -> None:
    refused(with_metadata(members, junk=1), r"metadata\.json in the given stream: missing or unknown: junk")
    refused(with_metadata(members, learned={"chance_edges": [], "junk": 1}), r"metadata\.json.*unknown: junk")
    refused(with_header(members, junk=1), r"metadata\.json: missing or unknown: junk")
    stream = io.BytesIO()
    model.policy.save(stream)
    with pytest.raises(CheckpointError, match=r"metadata\.json.*unknown: junk"):
        ProQPolicy.load(as_stream(with_metadata(members_of(stream), junk=1)))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["actor.output.weight", "standard_keypoints", "observation_scaler.mean"])
def test_a_number_that_is_not_finite_is_neither_saved_nor_loaded(
    members: Members, tmp_path: Path, name: str, value: float
) -> None:
    model = ProQ.load(as_stream(members), device="cpu")
    model.save(tmp_path / "agent")
    before = (tmp_path / "agent.zip").read_bytes()
    tensor = model.policy.state_dict()[name]
    tensor.flatten()[0] = value
    refused(weights(members, **{name: tensor.clone()}), rf"policy.*{name} holds numbers that are not finite \(1 of")
    for save in (model.save, model.policy.save):
        with pytest.raises(ValueError, match=rf"policy\.{name} holds numbers that are not finite"):
            save(tmp_path / "agent")
    assert (tmp_path / "agent.zip").read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_infinity_has_a_meaning_where_a_coordinate_never_changes(members: Members) -> None:
    loaded = ProQ.load(as_stream(weights(members, longest_step=th.tensor([0.1, th.inf]))), device="cpu")
    assert np.isfinite(loaded.predict(observation())[0]).all()
    refused(weights(members, longest_step=th.tensor([0.1, th.nan])), "longest_step")


def test_numbers_that_fit_nothing_are_refused(members: Members) -> None:
    refused(weights(members, action_low=th.tensor([-5.0, -5.0])), "action_low is not that of the action space")
    refused(weights(members, **{"goal_scaler.std": th.full((2,), 1e-45)}), r"goal_scaler\.std is not greater")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("goal_scaler.mean", 3e38),
        ("observation_scaler.mean", -1e38),
        ("longest_step", 0.0),
        ("standard_keypoints", 3e38),
        ("encoder.output.weight", -1e38),
    ],
)
def test_numbers_too_large_to_act_with_are_refused(members: Members, name: str, value: float) -> None:
    shape = ProQ.load(as_stream(members), device="cpu").policy.state_dict()[name].shape
    refused(weights(members, **{name: th.full(shape, value)}), "policy.*the weights make no sense")


def test_other_types_of_numbers_are_refused(members: Members) -> None:
    refused(weights(members, log_std=th.full((2,), 1e300, dtype=th.float64)), r"log_std is torch\.float64")
    refused(weights(members, extra=th.zeros(1)), "unknown extra")


def changed_training(members: Members, change: Any) -> Members:
    """A file of format 1 whose training state was changed, which its JSON need not express."""
    state = ProQ.load(as_stream(members), device="cpu")._training_state()
    change(state)
    model = ProQ.load(as_stream(members), device="cpu")
    model._training_state = lambda: state  # type: ignore[method-assign]
    model._check_finite_states = lambda states: None  # type: ignore[method-assign]
    stream = io.BytesIO()
    model.save(stream)
    return members_of(stream)


def set_at(*path: Any, value: Any) -> Any:
    def change(state: Any) -> None:
        for key in path[:-1]:
            state = state[key]
        state[path[-1]] = value

    return change


ADAM = ("actor_optimizer", "state", 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_at("generator", value=th.zeros(5056, dtype=th.uint8)), "generator"),
        (set_at("generator", value=th.zeros(100, dtype=th.uint8)), "generator"),
        (set_at("generator", value=3), "generator"),
        (set_at("unknown", value=3), "unknown"),
        (set_at("actor_optimizer", value={}), "actor_optimizer"),
        (set_at("actor_optimizer", "param_groups", value=[]), "actor_optimizer"),
        (set_at("actor_optimizer", "param_groups", 0, "lr", value=-1.0), "learning rate"),
        (set_at("actor_optimizer", "param_groups", 0, "lr", value="fast"), "lr"),
        (set_at("actor_optimizer", "param_groups", 0, "betas", value=(0.9, 2.0)), "beta"),
        (set_at("actor_optimizer", "param_groups", 0, "betas", value=[0.9] * 50), "betas"),
        (set_at("actor_optimizer", "param_groups", 0, "params", value=[0]), "parameters"),
        (set_at("actor_optimizer", "param_groups", 0, "extra", value=[0]), "parameters"),
        (lambda state: state["actor_optimizer"]["param_groups"][0].pop("eps"), "parameters"),
        (lambda state: state["actor_optimizer"]["param_groups"][0].pop("maximize"), None),  # as of an older PyTorch
        (set_at(*ADAM, value={}), None),
        (set_at(*ADAM, "exp_avg", value=th.zeros(3)), "exp_avg"),
        (set_at(*ADAM, "exp_avg", value=3.0), "exp_avg|attribute"),
        (set_at(*ADAM, "step", value=th.tensor(-1.0)), "step"),
        (set_at(*ADAM, "step", value=th.tensor(th.nan)), r"training\.actor_optimizer\.state\.0\.step"),
        (set_at(*ADAM, "extra", value=th.zeros(())), "remembers"),
        (set_at("actor_optimizer", "state", 99, value={}), "other parameters"),
        (set_at("multipliers", "log_values.dist", value=th.zeros(2)), "log_values"),
        (set_at("multipliers", "_extra_state", "state", 0, "step", value=th.zeros(2)), "multipliers.*step"),
    ],
)
def test_malformed_state_of_a_training_is_refused_when_loaded(
    members: Members, change: Any, message: str | None
) -> None:
    changed = changed_training(members, change)
    if message is None:  # as of a parameter that has had no gradient yet
        ProQ.load(as_stream(changed), device="cpu")
    else:
        refused(changed, f"training in the given stream.*({message})|({message}).*not finite")


def test_a_generator_whose_next_number_is_none_is_refused(members: Members) -> None:
    def poison(state: dict[str, th.Tensor]) -> None:
        generator = th.Generator().manual_seed(0)
        th.randn(1, generator=generator)
        content = generator.get_state()
        waiting = content[-32:-24].view(th.float64)  # the second of a pair of normal numbers
        assert 0 < waiting.abs().item() < 5
        waiting.fill_(th.nan)
        state["acting_generator"] = content

    refused(changed_training(members, poison), "training.*acting_generator")


def test_the_state_of_another_device_is_told(members: Members) -> None:
    changed = changed_training(members, set_at("generator", value=th.zeros(16, dtype=th.uint8)))
    with pytest.warns(UserWarning, match="generator is of another device"):
        ProQ.load(as_stream(changed), device="cpu")


def test_parameters_are_taken_from_a_file_without_unpickling(model: ProQ, members: Members, tmp_path: Path) -> None:
    other = tiny_model(seed=5)
    path = tmp_path / "agent.zip"
    path.write_bytes(as_stream(members).getvalue())
    other.predict(observation())
    other.set_parameters(str(path), device="cpu")
    assert_same(dict(other.policy.state_dict()), dict(model.policy.state_dict()))
    np.testing.assert_array_equal(other.planner.distances, model.planner.distances)
    th.save({"policy": Exploit(tmp_path / "trace")}, tmp_path / "evil.zip")
    with pytest.raises(CheckpointError, match="not a ProQ agent"):
        other.set_parameters(str(tmp_path / "evil.zip"))
    with pytest.raises(CheckpointError, match="do not fit"):
        tiny_model(keypoints={"n": 6}).set_parameters(str(path))
    assert not (tmp_path / "trace").exists()


def test_a_policy_alone_is_loaded_without_unpickling(model: ProQ, members: Members, tmp_path: Path) -> None:
    model.policy.save(tmp_path / "policy.zip")
    before = th.get_rng_state()
    loaded = ProQPolicy.load(tmp_path / "policy.zip", device="cpu")
    assert_same(dict(loaded.state_dict()), dict(model.policy.state_dict()))
    assert th.equal(th.get_rng_state(), before)
    th.save({"state_dict": {}, "data": Exploit(tmp_path / "trace")}, tmp_path / "evil.pth")
    with pytest.raises(CheckpointError, match="not a ProQ agent"):
        ProQPolicy.load(tmp_path / "evil.pth")
    with pytest.raises(CheckpointError, match=r"holds a 'ProQ', not a ProQPolicy; .* load\(\)"):
        ProQPolicy.load(as_stream(members))
    with pytest.raises(CheckpointError, match="holds a None agent"):
        ProQ.load(tmp_path / "policy.zip")
    assert not (tmp_path / "trace").exists()
    changed = with_metadata(members_of(tmp_path / "policy.zip"), arguments={"hidden_sizes": [20000] * 3})
    stream = as_stream(changed)
    with within_bounds(len(stream.getvalue())), pytest.raises(CheckpointError, match="policy in"):
        ProQPolicy.load(stream)


def test_loading_touches_no_global_state_and_writes_nothing(members: Members, tmp_path: Path) -> None:
    (tmp_path / "agent.zip").write_bytes(as_stream(members).getvalue())
    code = (
        "import sys, torch; from proq_agent import ProQ; before = torch.get_rng_state(); "
        "ProQ.load('agent', device='cpu'); assert torch.equal(before, torch.get_rng_state()); "
        "assert torch.nn.Linear(1, 1).weight.device.type == 'cpu'"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["agent.zip"]
