"""Search spaces: what is drawn from them, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

from proq_agent import ProQ
from zoo.config import load_hyperparams, to_plain
from zoo.runs.search_space import read_space, sample_overrides

SPACE = read_space("proq")


def test_every_draw_is_a_valid_agent(tiny) -> None:
    base = load_hyperparams("default")[0]
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    seen = []
    for _ in range(20):
        hyperparams, _ = load_hyperparams("default", overrides=sample_overrides(study.ask(), SPACE))
        model = ProQ(dataset=tiny().dataset, device="cpu", **hyperparams)
        assert model.policy.quasimetric.n_components == hyperparams["policy_kwargs"]["n_components"]
        assert model.lr_schedule(1.0) > model.lr_schedule(0.0) > 0
        seen.append(hyperparams)
    searched = {"learning_rate", "temperature", "goals", "distance", "planning", "policy_kwargs"}
    assert all(len({str(to_plain(h)[name]) for h in seen}) > 10 for name in searched)
    assert {name for name in seen[0] if seen[0][name] != base.get(name)} == searched
    assert all(0.9 <= h["goals"]["discount"] <= 1 - 1 / 300 for h in seen)  # 10 to 300 steps ahead
    assert seen[0]["keypoints"] == base["keypoints"] and seen[0]["planning"]["caution"] == 1.0


@pytest.mark.parametrize("end", ["low", "high"])
def test_the_ends_of_every_range_are_valid_too(tiny, end: str) -> None:
    ends = {name: range_.choices[0] if range_.choices else getattr(range_, end) for name, range_ in SPACE.items()}
    overrides = sample_overrides(optuna.trial.FixedTrial(ends), SPACE)
    ProQ(dataset=tiny().dataset, device="cpu", **load_hyperparams("default", overrides=overrides)[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default: {n_timesteps: 1}\nsearch: {temperature: {low: 2.0, hihg: 3.0}}\n", "hihg"),
        ("default: {n_timesteps: 1}\nsearch: {temperature: {low: 3.0, high: 2.0}}\n", "give low < high, or choices"),
        ("default: {n_timesteps: 1}\nsearch: {temperature: 3.0}\n", "3.0; .* not a mapping"),
    ],
)
def test_a_search_space_that_makes_no_sense_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "own.yml").write_text(text)
    with pytest.raises(ValueError, match=f"the search space of proq says temperature.*{message}"):
        read_space("proq", tmp_path / "own.yml")


def test_a_file_without_a_search_space_leaves_that_of_the_algorithm(tmp_path: Path) -> None:
    (tmp_path / "own.yml").write_text("default: {n_timesteps: 1}\n")
    assert read_space("proq", tmp_path / "own.yml") == read_space("proq")
