"""The table and the figure of a benchmark, rendered from the results of its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from proq_agent.common.files import atomic_file
from zoo.benchmarking.results import DEFAULT_VARIANT, Group, grouped, read_results

# Success in percent, mean and standard deviation over seeds, as published.
PAPER: dict[str, dict[str, tuple[int, int]]] = {
    "pointmaze-medium-navigate-v0": {"ProQ": (100, 0), "QRL": (82, 5), "HIQL": (79, 5)},
    "pointmaze-large-navigate-v0": {"ProQ": (99, 1), "QRL": (86, 9), "HIQL": (58, 5)},
    "pointmaze-giant-navigate-v0": {"ProQ": (92, 3), "QRL": (68, 7), "HIQL": (46, 9)},
    "pointmaze-teleport-navigate-v0": {"ProQ": (43, 0), "QRL": (4, 4), "HIQL": (18, 4)},
    "pointmaze-medium-stitch-v0": {"ProQ": (99, 1), "QRL": (80, 12), "HIQL": (74, 6)},
    "pointmaze-large-stitch-v0": {"ProQ": (99, 1), "QRL": (84, 15), "HIQL": (13, 6)},
    "pointmaze-giant-stitch-v0": {"ProQ": (99, 1), "QRL": (50, 8), "HIQL": (0, 0)},
    "pointmaze-teleport-stitch-v0": {"ProQ": (35, 7), "QRL": (9, 5), "HIQL": (34, 4)},
}
CONFIDENCE = 0.95


def success_table(groups: Sequence[Group]) -> str:
    """Markdown: success in percent beside the paper's."""
    columns: dict[str, Callable[[Group], str]] = {
        "dataset": lambda g: g.dataset,
        "variant": lambda g: g.variant,
        "seeds": lambda g: str(len(g.runs)),
        "sampled": lambda g: _percent(g, "success_sampled"),
        "deterministic": lambda g: _percent(g, "success_deterministic"),
        "steps": lambda g: _mean(g.over_tasks("steps_sampled"), "{:.0f}"),
        "minutes": lambda g: _mean(g.over_tasks("train_seconds") / 60.0, "{:.1f}"),
    }
    for method in ("ProQ", "QRL", "HIQL"):
        columns[f"paper: {method}"] = lambda g, method=method: _published(g.dataset, method)  # type: ignore[misc]
    sides = _distinct(row.jobs for group in groups for run in group.runs for row in run)
    steps = "Steps: mean length of the sampled episodes, failures included."
    minutes = f"Minutes: training alone, with {sides} run(s) side by side."
    return f"{_markdown(columns, groups)}\n{_notes(groups, steps, minutes)}"


def ablation_table(groups: Sequence[Group]) -> str:
    """Markdown: a row a variant, with how true its map is."""
    columns: dict[str, Callable[[Group], str]] = {
        "dataset": lambda g: g.dataset,
        "variant": lambda g: g.variant,
        "sampled": lambda g: _percent(g, "success_sampled"),
        "deterministic": lambda g: _percent(g, "success_deterministic"),
        "keypoints in free cells": lambda g: _percent(g, "keypoints_free"),
        "correlation of d with the geodesic": lambda g: _mean(g.over_tasks("distance_correlation"), "{:.3f}"),
    }
    return f"{_markdown(columns, groups)}\n{_notes(groups)}"


def _markdown(columns: Mapping[str, Callable[[Group], str]], groups: Sequence[Group]) -> str:
    lines = [list(columns), ["---"] * len(columns), *([cell(group) for cell in columns.values()] for group in groups)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _percent(group: Group, name: str) -> str:
    values = 100.0 * group.over_tasks(name)
    if np.isnan(values).all():
        return "-"
    spread = f" ± {np.nanstd(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{np.nanmean(values):.1f}{spread}"


def _mean(values: np.ndarray, form: str) -> str:
    return "-" if np.isnan(values).all() else form.format(np.nanmean(values))


def _published(dataset: str, method: str) -> str:
    return "{} ± {}".format(*PAPER[dataset][method]) if dataset in PAPER else "-"


def _distinct(values: Iterable[object], separator: str = ", ") -> str:
    return separator.join(sorted({str(value) for value in values}))


def _notes(groups: Sequence[Group], *more: str) -> str:
    """What the numbers are, and where they were measured; each row's CSV has its own command, commit and versions."""
    rows = [row for group in groups for run in group.runs for row in run]
    sources = _distinct(
        r.dataset_source if r.dataset_seed is None else f"{r.dataset_source} with seed {r.dataset_seed}" for r in rows
    )
    seeds = _distinct(r.seed for r in rows)
    over_seeds = f"mean ± standard deviation over seeds {seeds}" if "," in seeds else f"seed {seeds}"
    measured = (
        f"Success in percent of {_distinct(r.episodes for r in rows)} episodes a task, {over_seeds}; final agent.",
        "*Sampled* actions as in the paper's Algorithm 2, *deterministic* ones as in OGBench's protocol.",
        *more,
    )
    return (
        f"{' '.join(measured)}\n\n"
        f"Data: {sources}. Machine: {_distinct(f'{r.cpu}, {r.cores} cores' for r in rows)}. "
        f"Commit: {_distinct((r.commit for r in rows), '; ')}.\n"
    )


def confidence_interval(values: np.ndarray) -> tuple[float, float]:
    """Half-widths below and above the mean of shares (Student's t over seeds), kept within 0 and 1; zero for one."""
    if len(values) < 2:
        return 0.0, 0.0
    mean = float(values.mean())
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return min(half, mean), min(half, 1.0 - mean)


def draw_success(groups: Sequence[Group], path: Path) -> None:
    """
    Success of every dataset and variant with its confidence interval, beside the paper's.

    :param groups: one row of the figure each, from the top
    :param path: the suffix chooses the format
    """
    from zoo.figures.canvas import COLOURS, saved_figure  # matplotlib is slow to import

    height = np.arange(len(groups))[::-1]
    with saved_figure(path, 5.5, 0.8 + 0.35 * len(groups)) as figure:
        axes = figure.add_subplot(xlabel="success rate (%)", xlim=(-2.0, 102.0), ylim=(-0.6, len(groups) - 0.4))
        styles = (("success_sampled", "sampled", "o", 0.15), ("success_deterministic", "deterministic", "s", -0.15))
        for (name, label, marker, offset), colour in zip(styles, COLOURS, strict=False):
            values = [group.over_tasks(name) for group in groups]
            widths = 100.0 * np.array([confidence_interval(v) for v in values]).reshape(-1, 2).T
            axes.errorbar(
                [100.0 * v.mean() for v in values], height + offset, xerr=widths,
                fmt=marker, color=colour, label=label, markersize=4, capsize=2, linewidth=1,
            )  # fmt: skip
        published = [(y, *PAPER[g.dataset]["ProQ"]) for y, g in zip(height, groups, strict=True) if g.dataset in PAPER]
        if published:
            y, mean, std = np.array(published).T
            axes.errorbar(mean, y, xerr=std, fmt="D", color="0.5", label="paper (± std)", markersize=3, linewidth=1)
        axes.set_yticks(
            height, [g.dataset if g.variant == DEFAULT_VARIANT else f"{g.dataset}\n{g.variant}" for g in groups]
        )
        axes.grid(axis="x", alpha=0.3, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        note = f"bars: {CONFIDENCE:.0%} confidence interval of the mean over seeds"
        several = any(len(group.runs) > 1 for group in groups)
        figure.legend(loc="outside lower center", ncols=3, title=note if several else None, title_fontsize=7)


def write_report(folder: Path, ablation: bool = False) -> list[Path]:
    """
    Render all results of a folder.

    :param folder: with the runs' CSVs in ``runs/``; table and figure are written beside it
    :param ablation: the table that compares variants instead of the one that compares with the paper
    :return: the files that were written
    :raises ValueError: if there are no results
    """
    paths = sorted((folder / "runs").glob("*.csv"))
    if not paths:
        raise ValueError(f"there are no results in {folder / 'runs'}; run the benchmark first")
    groups = grouped(read_results(path) for path in paths)
    table = folder / ("ablation.md" if ablation else "table.md")
    with atomic_file(table) as file:
        file.write((ablation_table if ablation else success_table)(groups).encode())
    figures = [folder / "success.png", folder / "success.pdf"]
    for figure in figures:
        draw_success(groups, figure)
    return [table, *figures]
