"""Hyperparameter files and -params: what is accepted, and what an error says."""

from __future__ import annotations

import inspect
import math
import re
import warnings
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from grid_maze import GridMaze
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.utils import LinearSchedule

from proq_agent import ProQ
from proq_agent.planning.settings import PlanningSettings
from proq_agent.proq.policies import ProQPolicy
from proq_agent.proq.settings import DistanceSettings, KeypointSettings
from zoo.config import ABLATIONS, FOLDER, SEARCH, all_hyperparams, load_hyperparams, read_block, to_plain
from zoo.data.catalogue import ANTMAZE_IDS, POINTMAZE_IDS
from zoo.registry import ALGOS, algorithm
from zoo.runs.search_space import read_space
from zoo.schema import dotted_names, schema_of


def write(folder: Path, text: str) -> Path:
    path = folder / "own.yml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("env_id", [*POINTMAZE_IDS, "SomeOtherEnv-v0"])
def test_every_dataset_has_hyperparameters_that_the_constructor_takes(env_id: str) -> None:
    kwargs, n_timesteps = load_hyperparams(env_id)
    inspect.signature(ProQ).bind(**kwargs)
    inspect.signature(ProQPolicy).bind(None, None, n_keypoints=1, **kwargs["policy_kwargs"])
    assert n_timesteps == (10_000 if env_id in POINTMAZE_IDS else None)  # None: from the data
    assert kwargs["learning_rate"](1.0) > kwargs["learning_rate"](0.0)


def test_every_entry_of_the_shipped_file_is_read_without_error() -> None:
    names = yaml.safe_load((FOLDER / "proq.yml").read_text())
    assert set(POINTMAZE_IDS) <= set(names)
    for name in set(names) - {"paper", ABLATIONS, SEARCH}:
        load_hyperparams(name)


# Every switch of a departure from the paper, in the paper's position.
DEPARTURES: dict[str, Any] = {
    "stochastic": "ignore",
    "held_out": 0.0,
    "map_of": "goals",
    "advantage_steps": 1,
    "acting_std": None,
    "distance": {"compliance": 0.05, "floor": False, "bounded_ood": False, "far_focus": math.inf},
    "keypoints": {"n": 100, "bounded": False, "barrier": True, "density": 0.0, "centred": False},
    "planning": {
        "max_hop": 100.0,
        "direct": False,
        "reach": 0.0,
        "caution": 0.0,
        "patience": None,
        "bridge_gaps": False,
        "bar_strays": False,
    },
    "policy_kwargs": {
        "standardise": False,
        "guided_actor": False,
        "directed_actor": False,
        "clipped_actions": False,
        "quaternions": [],
        "n_fourier_features": 0,
        "classifier_scale": None,
    },
}


def test_the_paper_preset_turns_every_departure_off() -> None:
    given, n_timesteps = load_hyperparams("pointmaze-giant-stitch-v0", "paper")
    kwargs = all_hyperparams("proq", given)
    assert n_timesteps == 1_000_000
    for name, value in DEPARTURES.items():
        found = kwargs[name]
        assert (value.items() <= found.items()) if isinstance(value, dict) else found == value, name
    assert (kwargs["map_fraction"], kwargs["actor_fraction"], kwargs["goals"]["discount"]) == (1.0, 1.0, 0.99)
    shares = {role: {k: v for k, v in kwargs["goals"][role].items() if v} for role in ("value", "actor")}
    assert shares == {"value": {"uniform": 1.0}, "actor": {"future": 1.0}}
    assert kwargs["keypoints"]["start"] == 0.1
    # No bound that binds where a step costs at most 1 + ε, but one: before, exp(α·A) overflows.
    assert (
        math.exp(kwargs["temperature"] * (1.0 + kwargs["distance"]["close_margin"])) < kwargs["max_weight"] < math.inf
    )
    model = ProQ(**given, observation_space=GridMaze().observation_space, action_space=GridMaze().action_space)
    assert model.policy.actor.hidden[0].in_features == 2 + 16  # observation and latents


def test_every_switch_is_listed_with_the_departures() -> None:
    """A new truth value is either one of these or of no matter to the paper."""
    switches = {
        f"{group.__name__}.{field.name}"
        for group in (DistanceSettings, KeypointSettings, PlanningSettings)
        for field in fields(group)
        if field.type == "bool"
    }
    listed = {name for part in DEPARTURES.values() if isinstance(part, dict) for name in part}
    assert switches and {name.split(".")[1] for name in switches} <= listed


def by_full_name(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= by_full_name(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat


@pytest.mark.parametrize("env_id", [None, "pointmaze-giant-stitch-v0", "antmaze-giant-stitch-v0", "SomeOtherEnv-v0"])
def test_every_setting_that_is_not_the_papers_is_named_with_the_departures(env_id: str | None) -> None:
    chosen = load_hyperparams(env_id)[0] if env_id else {}  # or the constructor's
    paper = by_full_name(all_hyperparams("proq", load_hyperparams("SomeOtherEnv-v0", "paper")[0]))
    own = by_full_name(all_hyperparams("proq", chosen))
    other = {name for name in paper if own[name] != paper[name]} - {"goals.value.uniform"}  # what the others leave
    lines = (FOLDER.parent / "docs" / "pages" / "departures.md").read_text(encoding="utf-8").splitlines()
    switches = "".join(line.split("|")[2] for line in lines if line.startswith("| "))
    assert other and not {name for name in other if not re.search(rf"\b{name.split('.')[-1]}\b", switches)}


def test_entries_fall_back_to_the_default_and_merge_anchors(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
default: &base
  n_timesteps: 10
  batch_size: 8
  policy_kwargs: &net
    latent_dim: 3
    dropout: 0
a:
  <<: *base
  batch_size: 16
  policy_kwargs:
    <<: *net
    latent_dim: 5
""",
    )
    assert load_hyperparams("other", conf_file=path) == (
        {"batch_size": 8, "policy_kwargs": {"latent_dim": 3, "dropout": 0.0}},
        10,
    )
    assert load_hyperparams("a", conf_file=path) == (
        {"batch_size": 16, "policy_kwargs": {"latent_dim": 5, "dropout": 0.0}},
        10,
    )


def test_learning_rate_schedules(tmp_path: Path) -> None:
    for text, (start, end) in {"lin_1.0e-3": (1e-3, 0.0), "lin_1e-3_5.0e-5": (1e-3, 5e-5)}.items():
        kwargs, _ = load_hyperparams("x", overrides=[f"learning_rate:{text}"])
        schedule = kwargs["learning_rate"]
        assert isinstance(schedule, LinearSchedule)
        assert (schedule(1.0), schedule(0.0)) == pytest.approx((start, end))
        assert schedule(0.5) == pytest.approx((start + end) / 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x:\n  n_timesteps: 5\n  learning_rate: 1e-3\n", "line 3: learning_rate must be a number or .*write 0.001"),
        ("x:\n  n_timesteps: 1e6\n", "line 2: n_timesteps must be a whole number.*write 1000000"),
        (
            "x:\n  n_timesteps: 5\n\n  bach_size: 8\n",
            "line 4: unknown hyperparameter 'bach_size'; did you mean batch",
        ),
        ("x:\n  policy_kwargs:\n    hiden_sizes: [8]\n", "line 3: .*did you mean hidden_sizes"),
        ("x:\n  policy_kwargs:\n    hidden_sizes: 8\n", "line 3: hidden_sizes must be a list of whole numbers"),
        ("x:\n  policy_kwargs:\n    hidden_sizes: [8, 1.5]\n", "line 3: hidden_sizes must be a list of whole numbers"),
        ("x:\n  policy_kwargs: [1]\n", "line 2: expected 'key: value'"),
        ("x:\n  batch_size: 2.5\n", "line 2: batch_size must be a whole number"),
        ("x:\n  batch_size: true\n", "line 2: batch_size must be a whole number"),
        ("x:\n  temperature: yes\n", "line 2: temperature must be a number, got bool"),
        ("x:\n  temperature:\n", "line 2: temperature must be a number, got NoneType"),
        ("x:\n  compile: 1\n", "line 2: compile must be true or false"),
        ("x:\n  learning_rate: exp_1.0\n", "line 2: .*schedule like lin_"),
        ("x:\n  batch_size: 2\n  batch_size: 3\n", "line 3: batch_size is given twice"),
        ("x:\n  seed: 2\n", "unknown hyperparameter 'seed'"),
        ("x:\n  batch_size: 2\n", "no n_timesteps"),
        ("x: &a\n  bach_size: 2\ny: *a\nz: {<<: *a}\n", "line 2: unknown"),
        ("other:\n  batch_size: 2\n", "no entry x and no default; it has other"),
        ("x:\n  n_timesteps: 5\n  polcy_kwargs:\n    latent_dim: 3\n", "line 3: .*did you mean policy_kwargs"),
        ("a: &a [8]\nx:\n  policy_kwargs: *a\n", "line 3: expected 'key: value'"),
        ("a: &a text\nx:\n  bach_size: *a\n", "line 3: unknown hyperparameter 'bach_size'"),
        ("a: &a text\nx:\n  batch_size: *a\n", "line 3: batch_size must be a whole number"),
        ("a: &a [8]\nx: *a\n", "line 2: expected 'key: value'"),
        ("x:\n  n_timesteps: -5\n", "line 2: n_timesteps must be at least 1, got -5"),
        ("x:\n  [batch_size]: 5\n", "line 2: a key must be a name"),
        ("x: &x\n  batch_size: 5\n  <<: *x\n", "line 1: this is merged into, or part of, itself"),
        ("x:\n  planning:\n    max_hopp: 3.0\n", "line 3: unknown hyperparameter 'max_hopp'; did you mean max_hop"),
        ("x:\n  max_hopp: 3.0\n", "line 2: unknown hyperparameter 'max_hopp'; did you mean planning.max_hop"),
        ("x:\n  dropuot: 0.1\n", "line 2: .*did you mean policy_kwargs.dropout"),
        ("x:\n  goals:\n    value:\n      nera: 0.1\n", "line 4: .*did you mean near"),
        ("x:\n  goals:\n    value: {near: some}\n", "line 3: near must be a number, got str"),
        ("x:\n  planning: 3\n", "line 2: expected 'key: value'"),
        ("x:\n  policy_kwargs:\n    n_keypoints: 3\n", "line 3: unknown hyperparameter 'n_keypoints'"),
        ("x:\n  max_hop: far\n", "line 2: max_hop must be a number or null, got str"),
        ("x:\n  near_candidates: 3\n", "line 2: near_candidates is no longer an option; leave it out"),
        ("x: [\n", "not valid YAML"),
        ("", "expected 'key: value'"),
        ("- 1\n", "expected 'key: value'"),
        ("x: !!python/object/apply:os.getcwd []\n", "expected 'key: value'"),
        ("x:\n  batch_size: !!python/object/apply:os.getcwd []\n", "not valid YAML.*constructor"),
    ],
)
def test_errors_name_file_line_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ValueError, match=r"(?s)own\.yml.*" + message):
        load_hyperparams("z" if "z:" in text else "x", conf_file=path)


def test_missing_file_and_unknown_preset(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no hyperparameter file"):
        load_hyperparams("x", conf_file=tmp_path / "none.yml")
    with pytest.raises(ValueError, match="unknown preset 'best'; choose one of tuned, paper"):
        load_hyperparams("x", "best")
    own = write(tmp_path, "default:\n  n_timesteps: 5\n")
    with pytest.raises(ValueError, match=r"there is no entry paper/x and no paper; it has default$"):
        load_hyperparams("x", "paper", own)


def test_an_entry_of_its_own_goes_before_the_first_that_fits_and_that_before_the_default(tmp_path: Path) -> None:
    own = write(
        tmp_path,
        """
        "maze-*-stitch": {n_timesteps: 1}
        "maze-*": {n_timesteps: 2}
        maze-big-stitch: {n_timesteps: 3}
        default: {n_timesteps: 4}
        "paper/maze-*": {n_timesteps: 5}
        paper: {n_timesteps: 6}
        """,
    )
    found = {
        (preset, env_id): load_hyperparams(env_id, preset, own)[1]
        for preset in ("tuned", "paper")
        for env_id in ("maze-small-stitch", "maze-small", "maze-big-stitch", "drone", "paper")
    }
    assert list(found.values()) == [1, 2, 3, 4, 6, 5, 5, 5, 6, 6]


# OGBench's commands: discount, share of random goals of the actor, and what else is not its default.
COMMANDS = [
    ("gcbc", "pointmaze-giant-stitch-v0", 0.99, 0.0, {}),
    ("gcivl", "pointmaze-medium-navigate-v0", 0.99, 0.0, {"alpha": 10.0}),
    ("gcivl", "antmaze-giant-stitch-v0", 0.995, 0.5, {"alpha": 10.0}),
    ("gciql", "pointmaze-giant-navigate-v0", 0.995, 0.0, {"alpha": 0.003}),
    ("gciql", "antmaze-large-explore-v0", 0.99, 1.0, {"alpha": 0.01}),
    ("gciql", "scene-play-v0", 0.99, 0.0, {"alpha": 1.0}),
    ("qrl", "pointmaze-teleport-stitch-v0", 0.99, 0.5, {"alpha": 0.0003}),
    ("qrl", "antmaze-medium-navigate-v0", 0.99, 0.0, {"alpha": 0.003}),
    ("qrl", "cube-single-play-v0", 0.99, 0.0, {"alpha": 0.3}),
    ("crl", "pointmaze-large-navigate-v0", 0.99, 0.0, {"alpha": 0.03}),
    ("crl", "antmaze-giant-navigate-v0", 0.995, 0.0, {"alpha": 0.1}),
    ("crl", "antmaze-teleport-explore-v0", 0.99, 1.0, {"alpha": 0.003}),
    ("hiql", "pointmaze-giant-stitch-v0", 0.995, 0.5, {"low_alpha": 3.0, "high_alpha": 3.0, "subgoal_steps": 25}),
    ("hiql", "antmaze-medium-explore-v0", 0.99, 1.0, {"low_alpha": 10.0, "high_alpha": 10.0}),
    ("hiql", "scene-play-v0", 0.99, 0.0, {"low_alpha": 3.0, "high_alpha": 3.0, "subgoal_steps": 10}),
]


@pytest.mark.parametrize(("algo", "env_id", "discount", "random_share", "own"), COMMANDS)
def test_the_paper_preset_of_a_rival_is_ogbenchs_command(algo, env_id, discount, random_share, own) -> None:
    given, n_timesteps = load_hyperparams(env_id, "paper", algo=algo)
    kwargs = all_hyperparams(algo, given)
    assert (n_timesteps, kwargs["batch_size"], kwargs["learning_rate"]) == (1_000_000, 1024, 3e-4)
    assert kwargs["goals"]["discount"] == discount
    actor = {kind: share for kind, share in kwargs["goals"]["actor"].items() if share}
    wanted = {"uniform": random_share, "future_uniform": 1.0 - random_share}
    assert actor == {kind: share for kind, share in wanted.items() if share}
    value = {kind: share for kind, share in kwargs["goals"]["value"].items() if share}
    of_algo = {"qrl": {"uniform": 1.0}, "crl": {"future": 1.0}}
    assert value == pytest.approx(of_algo.get(algo, {"current": 0.2, "future": 0.5, "uniform": 0.3}))
    assert {name: kwargs[name] for name in own} == own
    assert kwargs["policy_kwargs"]["hidden_sizes"] == [512, 512, 512] and not kwargs["policy_kwargs"]["standardise"]
    assert kwargs.get("tau", 0.005) == 0.005


@pytest.mark.parametrize("algo", [name for name in ALGOS if name != "proq"])
def test_every_entry_of_a_rivals_file_is_read_without_error(algo: str) -> None:
    entries = yaml.safe_load((FOLDER / f"{algo}.yml").read_text())
    for name in entries.keys() - {SEARCH}:
        preset = "paper" if name.startswith("paper") else "tuned"
        kwargs, n_timesteps = load_hyperparams(name.removeprefix("paper/").replace("*", "x"), preset, algo=algo)
        assert all_hyperparams(algo, kwargs) and n_timesteps == (1_000_000 if preset == "paper" else None)
    assert read_space(algo).keys() <= set(dotted_names(schema_of(algorithm(algo))))


def test_params_override_the_file() -> None:
    base, _ = load_hyperparams("x")
    kwargs, n_timesteps = load_hyperparams(
        "x", overrides=["n_timesteps:7", "batch_size:32", "policy_kwargs.n_components:8", "compile:true"]
    )
    assert n_timesteps == 7
    assert kwargs["batch_size"] == 32 and kwargs["compile"] is True
    assert kwargs["policy_kwargs"] == base["policy_kwargs"] | {"n_components": 8}
    replaced, _ = load_hyperparams("x", overrides=["policy_kwargs:{latent_dim: 3}"])
    assert replaced["policy_kwargs"] == {"latent_dim": 3}


def test_params_change_one_setting_of_a_group() -> None:
    base, _ = load_hyperparams("x")
    kwargs, _ = load_hyperparams("x", overrides=["planning.max_hop:7", "goals.value.near_in_time:0.1"])
    assert kwargs["planning"] == base["planning"] | {"max_hop": 7.0}
    assert kwargs["goals"] == base["goals"] | {"value": base["goals"]["value"] | {"near_in_time": 0.1}}
    assert to_plain(load_hyperparams("x")[0]) == to_plain(base)  # nothing is shared between calls
    replaced, _ = load_hyperparams("x", overrides=["planning:{reach: 3}"])
    assert replaced["planning"] == {"reach": 3.0}


def test_names_of_earlier_versions_still_work_with_one_warning(tmp_path: Path) -> None:
    path = write(tmp_path, "x: {n_timesteps: 5, max_hop: 30, reach: 4, planning: {caution: 2}, near_candidates: 256}\n")
    with pytest.warns(FutureWarning) as warned:
        kwargs, _ = load_hyperparams("x", conf_file=path, overrides=["value_near_share:0.2", "planning.reach:5"])
    assert kwargs == {
        "planning": {"max_hop": 30.0, "reach": 5.0, "caution": 2.0},
        "goals": {"value": {"near": 0.2}},
    }
    assert len(warned) == 1
    for move in ("max_hop is planning.max_hop now", "reach is planning.reach now", "goals.value.near now"):
        assert move in str(warned[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_hyperparams("x", overrides=["planning.reach:5"])


@pytest.mark.parametrize("old", sorted(ProQ.renamed.places))
def test_every_old_name_has_a_place(old: str) -> None:
    value = {"barrier": "false", "patience": "7", "n_keypoints": "7", "keypoint_freq": "7"}.get(old, "0.125")
    with pytest.warns(FutureWarning, match=ProQ.renamed.places[old]):
        kwargs, _ = load_hyperparams("x", overrides=[f"{old}:{value}"])
    for part in ProQ.renamed.places[old].split("."):
        kwargs = kwargs[part]
    assert kwargs == yaml.safe_load(value)


def test_all_hyperparameters_are_told_with_their_defaults() -> None:
    given = {"planning": {"reach": 3.0}, "policy_kwargs": {"dropout": 0.5}, "temperature": 2.0}
    told = all_hyperparams("proq", given)
    assert told["planning"] == asdict(PlanningSettings(reach=3.0))
    assert told["policy_kwargs"]["dropout"] == 0.5 and told["policy_kwargs"]["hidden_sizes"] == [512, 512, 512]
    assert told["temperature"] == 2.0 and told["goals"]["value"]["uniform"] == 1.0
    assert "dataset" not in told and "seed" not in told and "legacy" not in told
    assert all_hyperparams("proq", told) == told


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("batch_size", "write key:value"),
        ("batch_size:", "write key:value"),
        ("batch_sise:3", "did you mean batch_size"),
        ("policy_kwargs.latent_dims:3", "did you mean latent_dim"),
        ("policy_kwargs.latent_dim.x:3", "latent_dim must be a whole number"),
        ("planning.max_hopp:3", "did you mean max_hop"),
        ("planning.max_hop.x:3", "max_hop must be a number or null"),
        ("planning.max_hop:far", "max_hop must be a number or null"),
        ("near_candidates:3", "no longer an option"),
        ("learning_rate:1e-3", "write 0.001"),
        ("batch_size:[", "not valid YAML"),
        ("batch_size: # 5", "only a comment"),
        ("batch_size:!!python/object/apply:os.getcwd []", "not valid YAML"),
        ("n_timesteps:0", "n_timesteps must be at least 1, got 0"),
    ],
)
def test_a_bad_override_is_named(override: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        load_hyperparams("x", overrides=[override])
    assert f"-params {override}" in str(error.value)


@settings(max_examples=25, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "n_timesteps": st.integers(1, 10**7),
            "batch_size": st.integers(1, 10**6),
            "learning_rate": st.builds(
                LinearSchedule, st.floats(1e-8, 1.0), st.floats(0.0, 1.0), end_fraction=st.just(1.0)
            )
            | st.floats(1e-300, 1.0),
            "compile": st.booleans(),
            "policy_kwargs": st.fixed_dictionaries({"hidden_sizes": st.lists(st.integers(1, 1000), min_size=1)}),
        }
    )
)
def test_what_is_recorded_reads_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, given: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "recorded.yml"
    path.write_text(yaml.safe_dump({"x": to_plain(given)}))
    kwargs, n_timesteps = load_hyperparams("x", conf_file=path)
    assert to_plain(kwargs | {"n_timesteps": n_timesteps}) == to_plain(given)


def test_every_ablation_is_a_valid_change() -> None:
    ablations = read_block(ABLATIONS, "proq")
    base = load_hyperparams("pointmaze-giant-stitch-v0")[0]
    entries = [load_hyperparams("pointmaze-giant-stitch-v0", overrides=own)[0] for own in ablations.values()]
    assert all(entry != base or name == "K-100" for name, entry in zip(ablations, entries, strict=True))
    assert {"no-keypoints", "no-fourier-features", "K-25", "tau-100"} <= set(ablations)


def test_a_part_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"proq\.yml has no part tables"):
        read_block("tables", "proq", write(tmp_path, "default: {n_timesteps: 5}\n"))


def test_one_entry_is_for_all_ants() -> None:
    ids = [*ANTMAZE_IDS, "antmaze-giant-stitch-oraclerep-v0"]
    first, *others = (to_plain(load_hyperparams(dataset_id)[0]) for dataset_id in ids)
    assert all(other == first for other in others)
    assert first["map_of"] == "places"
    assert load_hyperparams("pointmaze-giant-stitch-v0")[0]["map_of"] == "goals"


@pytest.mark.parametrize("text", ["? {0}", "{{? {0} : 1, ? {0} : 2}}"], ids=["unknown", "twice"])
def test_errors_do_not_quote_a_name_of_any_length(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown hyperparameter|given twice") as caught:
        load_hyperparams("pointmaze-giant-stitch-v0", overrides=[f"planning:{text.format('a' * 5000)}"])
    assert len(str(caught.value)) < 500
