"""Results as CSV, and the table and figure rendered from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zoo.benchmarking.report import (
    PAPER,
    ablation_table,
    confidence_interval,
    draw_success,
    success_table,
    write_report,
)
from zoo.benchmarking.results import Result, grouped, read_results, write_results
from zoo.data.catalogue import POINTMAZE_IDS

GIANT, MEDIUM = "pointmaze-giant-stitch-v0", "pointmaze-medium-navigate-v0"
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


def test_the_table_has_mean_and_std_over_seeds_beside_the_paper() -> None:
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
    assert giant["sampled"] == "70.0 ± 14.1"  # sample standard deviation of 60 and 80
    assert (giant["deterministic"], giant["seeds"], giant["minutes"]) == ("50.0 ± 0.0", "2", "10.0")
    assert (giant["paper: ProQ"], giant["paper: QRL"], giant["paper: HIQL"]) == ("99 ± 1", "50 ± 8", "0 ± 0")
    assert rows[0]["sampled"] == "100.0"  # one seed has no spread
    assert rows[3]["paper: ProQ"] == "-"
    assert "generated with seed 0" in table and "Some, CPU, 2 cores" in table and "seeds 100, 200" in table


def test_the_ablation_table_has_a_row_a_variant() -> None:
    runs = [run_of([1.0, 0.0]), run_of([0.5], variant="x", keypoints_free=None, distance_correlation=None)]
    first, second = cells(ablation_table(grouped(runs)))
    assert (first["sampled"], first["keypoints in free cells"]) == ("50.0", "75.0")
    assert first["correlation of d with the geodesic"] == "0.963"
    assert (second["variant"], second["keypoints in free cells"]) == ("x", "-")
    assert second["correlation of d with the geodesic"] == "-"


def test_the_confidence_interval() -> None:
    low, high = confidence_interval(np.array([0.4, 0.5, 0.6]))
    assert low == high == pytest.approx(4.303 * 0.1 / np.sqrt(3), rel=1e-3)  # Student's t with 2 degrees of freedom
    assert confidence_interval(np.array([0.97, 1.0, 1.0]))[1] == pytest.approx(0.01)  # not beyond 100 %
    assert confidence_interval(np.array([0.9])) == (0.0, 0.0)


def test_the_paper_is_there_for_every_dataset() -> None:
    assert tuple(PAPER) and set(PAPER) == set(POINTMAZE_IDS)
    assert all(0 <= mean <= 100 for methods in PAPER.values() for mean, _ in methods.values())


def test_the_figure_explains_its_bars_where_there_are_any(tmp_path: Path) -> None:
    path = tmp_path / "success.svg"
    for runs, explained in (([run_of([1.0])], False), ([run_of([1.0]), run_of([0.5], seed=200)], True)):
        draw_success(grouped(runs), path)
        assert ("confidence interval" in path.read_text()) == explained


def test_a_report_is_rendered_from_the_files_alone(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no results"):
        write_report(tmp_path)
    for seed in (100, 200):
        write_results(tmp_path / "runs" / f"{seed}.csv", run_of([1.0, 0.5], seed=seed))
    write_results(tmp_path / "runs" / "mine.csv", run_of([0.5], dataset="mine-v0"))
    table, png, pdf = write_report(tmp_path)
    assert len(cells(table.read_text())) == 2
    assert png.read_bytes()[:4] == b"\x89PNG" and pdf.read_bytes()[:4] == b"%PDF"
    before = table.read_bytes(), png.read_bytes(), pdf.read_bytes()
    assert tuple(path.read_bytes() for path in write_report(tmp_path)) == before
    assert write_report(tmp_path, ablation=True)[0] == tmp_path / "ablation.md"
