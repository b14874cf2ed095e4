"""Results as CSV, and the table and figure rendered from them."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zoo
from zoo.benchmarking.report import (
    PAPER,
    _labels,
    ablation_table,
    bootstrap_interval,
    comparison_table,
    draw_success,
    interval,
    success_table,
    wilson_interval,
    write_report,
)
from zoo.benchmarking.results import Result, grouped, read_results, write_results
from zoo.data.catalogue import POINTMAZE_IDS

GIANT, LARGE, MEDIUM = "pointmaze-giant-stitch-v0", "pointmaze-large-stitch-v0", "pointmaze-medium-navigate-v0"
ROW = Result(
    dataset=GIANT, variant="default", seed=100, task=1, episodes=50, success_sampled=1.0, success_deterministic=0.5,
    steps_sampled=600.0, steps_deterministic=700.0, n_updates=16000, train_seconds=600.0, keypoints_free=0.75,
    distance_correlation=0.9625, dataset_source="generated", dataset_seed=0, dataset_sha256="abc", settings="def",
    command="python -m zoo.benchmark --env 'a b'", cpu="Some, CPU", cores=2, jobs=2, versions="torch=2", commit=None,
)  # fmt: skip


def run_of(rates: list[float], **changes: object) -> list[Result]:
    row = replace(ROW, **changes)  # type: ignore[arg-type]
    return [replace(row, task=k + 1, success_sampled=rate) for k, rate in enumerate(rates)]


def test_results_round_trip(tmp_path: Path) -> None:
    rows = run_of([0.1, 1.0 / 3.0], keypoints_free=None, dataset_seed=None)
    write_results(tmp_path / "new" / "a.csv", rows)
    assert read_results(tmp_path / "new" / "a.csv") == rows
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a.csv"]


@pytest.mark.parametrize("cut", [0, 20, 400])
def test_a_damaged_file_is_named(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.csv"
    write_results(path, run_of([0.1, 0.2]))
    path.write_text(path.read_text()[:cut])
    with pytest.raises(ValueError, match=r"a\.csv .*delete it"):
        read_results(path)


def cells(table: str) -> list[dict[str, str]]:
    lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.split("\n") if line[:1] == "|"]
    return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]


def test_the_table_has_mean_and_interval_beside_the_paper() -> None:
    runs = [
        run_of([0.5, 0.7], seed=200),  # mean over tasks 0.6
        run_of([1.0, 0.6], seed=100),  # 0.8
        run_of([1.0], variant="ignore"),
        run_of([1.0], dataset=MEDIUM),
        run_of([0.25], dataset="mine-v0"),
    ]
    table = success_table(grouped(runs))
    rows = cells(table)
    assert [(row["dataset"], row["variant"]) for row in rows] == [
        (MEDIUM, "default"), (GIANT, "default"), (GIANT, "ignore"), ("mine-v0", "default"),
    ]  # fmt: skip
    giant = rows[1]
    assert giant["algorithm"] == "proq"
    assert giant["sampled"] == "70.0 [55.0, 85.0]"  # the bootstrap's: the worst seed of each task, and the best
    assert (giant["seeds"], giant["minutes"]) == ("2", "10.0")
    assert giant["deterministic"] == "50.0 [43.1, 56.9]"  # Wilson's, of 200 episodes: all seeds are alike
    assert (giant["paper: proq"], giant["paper: qrl"], giant["paper: hiql"]) == ("99 ± 1", "50 ± 8", "0 ± 0")
    assert rows[0]["sampled"] == "100.0 [92.9, 100.0]"  # also of one seed, of 50 episodes
    assert rows[3]["paper: proq"] == "-"
    assert "generated with seed 0" in table and "Some, CPU, 2 cores" in table and "seeds 100, 200" in table


def test_algorithms_stand_side_by_side_with_what_is_published() -> None:
    runs = [run_of([1.0, 0.5], seed=100), run_of([0.5, 0.5], seed=200), run_of([0.25], algo="gcbc")]
    runs += [run_of([0.75], algo="gcbc", variant="keypoints"), run_of([1.0], algo="qrl", dataset="mine-v0")]
    giant, guided, mine = cells(comparison_table(grouped(runs)))
    assert list(giant) == ["dataset", "variant", "proq", "gcbc", "qrl"]
    assert (giant["proq"], giant["gcbc"], giant["qrl"]) == ("62 / 50 (99)", "25 / 50 (0)", "")
    assert (guided["variant"], guided["proq"], guided["gcbc"]) == ("keypoints", "", "75 / 50")
    assert (mine["dataset"], mine["qrl"]) == ("mine-v0", "100 / 50")


def test_the_ablation_table_has_a_row_a_variant() -> None:
    runs = [run_of([1.0, 0.0]), run_of([0.5], variant="x", keypoints_free=None, distance_correlation=None)]
    first, second = cells(ablation_table(grouped(runs)))
    assert (first["sampled"][:4], first["keypoints in free cells"]) == ("50.0", "75.0")
    assert first["correlation of d with the geodesic"] == "0.963"
    assert (second["variant"], second["keypoints in free cells"]) == ("x", "-")
    assert second["correlation of d with the geodesic"] == "-"


@pytest.mark.parametrize(
    ("successes", "episodes", "low", "high"),
    [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_wilsons_interval_of_textbooks(successes: int, episodes: int, low: float, high: float) -> None:
    assert wilson_interval(successes, episodes) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 5000), st.floats(0.0, 1.0))
def test_an_interval_of_episodes_is_never_empty_and_holds_the_rate(episodes: int, share: float) -> None:
    successes = round(share * episodes)
    low, high = wilson_interval(successes, episodes)
    assert 0.0 <= low <= successes / episodes <= high <= 1.0
    assert high - low > 1.0 / (episodes + 4)


def test_the_bootstrap_draws_seeds_within_tasks() -> None:
    # Of two seeds a quarter of the draws are twice the same one; of two tasks both are at their best in a sixteenth.
    assert bootstrap_interval([np.array([0.0, 1.0]), np.array([0.0, 1.0])]) == (0.0, 1.0)
    low, high = bootstrap_interval([np.array([0.0, 1.0])] * 50)
    assert 0.35 < low < 0.42 and 0.58 < high < 0.65  # of 100 draws; as one stratum it would be from 0 to 1
    assert bootstrap_interval([np.array([0.25]), np.array([0.75])]) == (0.5, 0.5)


def test_a_rate_of_all_seeds_is_as_uncertain_as_episodes_or_seeds_make_it() -> None:
    (alike,) = grouped([run_of([1.0, 1.0], seed=seed) for seed in (1, 2, 3)])
    assert interval(alike, "success_sampled") == wilson_interval(300, 300) != (1.0, 1.0)
    (apart,) = grouped([run_of([rate] * 5, seed=seed, episodes=5000) for seed, rate in enumerate((0.2, 0.5, 0.8))])
    low, high = interval(apart, "success_sampled")
    assert low < 0.4 and high > 0.6  # although 75,000 episodes are all but certain


def test_the_paper_is_there_for_every_dataset() -> None:
    assert tuple(PAPER) and set(PAPER) == set(POINTMAZE_IDS)
    assert all(0 <= mean <= 100 for methods in PAPER.values() for mean, _ in methods.values())


def test_the_figure_tells_our_intervals_from_the_papers_spread(tmp_path: Path) -> None:
    path = tmp_path / "success.svg"
    runs = [run_of([1.0]), run_of([1.0], algo="gcbc"), run_of([0.5], variant="x"), run_of([1.0], dataset=LARGE)]
    draw_success(grouped(runs), path)
    text = path.read_text()
    for part in ("bootstrap over seeds", "paper's ± std", ">paper<", ">gcbc<", ">proq, x<", f">{LARGE}<"):
        assert part in text
    assert text.count(f">{GIANT}<") == 1  # a heading of its three rows


def test_rows_without_a_choice_are_named_after_their_dataset() -> None:
    alone, a, b = grouped([run_of([1.0], dataset=LARGE), run_of([1.0]), run_of([1.0], variant="x")])
    assert _labels([alone, a, b]) == {LARGE: alone, GIANT: None, f"{GIANT}\ndefault": a, f"{GIANT}\nx": b}


def test_files_of_before_there_were_algorithms_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write_results(path, run_of([0.5]))
    header, *rows = path.read_text().splitlines()
    before = header.split(",").index("algo")  # what came later is not in them
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(row[:before] for row in csv.reader([header, *rows]))
    assert read_results(path) == run_of([0.5])


def test_every_shipped_result_can_be_read() -> None:
    paths = list((Path(zoo.__file__).parent / "results").rglob("runs/*.csv"))
    assert len(paths) > 20
    for path in paths:
        assert {row.algo for row in read_results(path)} == {path.parts[-3]}


def test_a_report_is_rendered_from_the_files_alone(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no results"):
        write_report(tmp_path)
    for seed in (100, 200):
        write_results(tmp_path / "proq" / "runs" / f"{seed}.csv", run_of([1.0, 0.5], seed=seed))
    write_results(tmp_path / "gcbc" / "runs" / "mine.csv", run_of([0.5], dataset="mine-v0", algo="gcbc"))
    table, comparison, png, pdf = write_report(tmp_path)
    assert "gcbc" in comparison.read_text().splitlines()[0]
    assert len(cells(table.read_text())) == 2
    assert png.read_bytes()[:4] == b"\x89PNG" and pdf.read_bytes()[:4] == b"%PDF"
    before = tuple(path.read_bytes() for path in (table, comparison, png, pdf))
    assert tuple(path.read_bytes() for path in write_report(tmp_path)) == before
    assert write_report(tmp_path, ablation=True)[0] == tmp_path / "ablation.md"
