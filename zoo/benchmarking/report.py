"""The table and the figure of a benchmark, rendered from the results of its runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from proq_agent.common.files import atomic_file
from zoo.benchmarking.results import DEFAULT_VARIANT, Group, grouped, read_results
from zoo.registry import DEFAULT_ALGO

# Success in percent of each algorithm, mean and standard deviation over seeds, as published.
_METHODS = ("gcbc", "gcivl", "gciql", "qrl", "crl", "hiql", "proq")
_PUBLISHED = {
    "pointmaze-medium-navigate-v0": ((9, 6), (63, 6), (53, 8), (82, 5), (29, 7), (79, 5), (100, 0)),
    "pointmaze-large-navigate-v0": ((29, 6), (45, 5), (34, 3), (86, 9), (39, 7), (58, 5), (99, 1)),
    "pointmaze-giant-navigate-v0": ((1, 2), (0, 0), (0, 0), (68, 7), (27, 10), (46, 9), (92, 3)),
    "pointmaze-teleport-navigate-v0": ((25, 3), (45, 3), (24, 7), (4, 4), (24, 6), (18, 4), (43, 0)),
    "pointmaze-medium-stitch-v0": ((23, 18), (70, 14), (21, 9), (80, 12), (0, 1), (74, 6), (99, 1)),
    "pointmaze-large-stitch-v0": ((7, 5), (12, 6), (31, 2), (84, 15), (0, 0), (13, 6), (99, 1)),
    "pointmaze-giant-stitch-v0": ((0, 0), (0, 0), (0, 0), (50, 8), (0, 0), (0, 0), (99, 1)),
    "pointmaze-teleport-stitch-v0": ((31, 9), (44, 2), (25, 3), (9, 5), (4, 3), (34, 4), (35, 7)),
}
PAPER = {dataset: dict(zip(_METHODS, found, strict=True)) for dataset, found in _PUBLISHED.items()}
WAYS = ("sampled", "deterministic")
CONFIDENCE = 0.95
N_RESAMPLES, RESAMPLING_SEED = 2000, 0  # of the bootstrap; a report is the same whenever it is rendered
INTERVAL = (
    f"the hull of two {CONFIDENCE:.0%} intervals: Wilson's over all episodes, and a bootstrap over seeds, "
    "stratified by task"
)


def success_table(groups: Sequence[Group]) -> str:
    """Markdown: success in percent beside the paper's."""
    columns: dict[str, Callable[[Group], str]] = {
        "dataset": lambda g: g.dataset,
        "algorithm": lambda g: g.algo,
        "variant": lambda g: g.variant,
        "seeds": lambda g: str(len(g.runs)),
        "sampled": lambda g: _rate(g, "success_sampled"),
        "deterministic": lambda g: _rate(g, "success_deterministic"),
        "steps": lambda g: _mean(g.over_tasks("steps_sampled"), "{:.0f}"),
        "minutes": lambda g: _mean(g.over_tasks("train_seconds") / 60.0, "{:.1f}"),
        "ψ IoU": lambda g: _mean(g.over_tasks("psi_iou"), "{:.2f}"),
        "data IoU": lambda g: _mean(g.over_tasks("data_iou"), "{:.2f}"),
    }
    for method in ("proq", "qrl", "hiql"):
        columns[f"paper: {method}"] = lambda g, method=method: _published(g.dataset, method)  # type: ignore[misc]
    sides = _distinct(row.jobs for group in groups for run in group.runs for row in run)
    paper = "The paper's ± is a standard deviation over its own seeds, no such interval."
    steps = "Steps: mean length of the sampled episodes, failures included."
    minutes = f"Minutes: training alone, with {sides} run(s) side by side."
    iou = (
        "IoU with where the ball's centre can be: of what ψ takes for reachable, and of all that is at most one step "
        "from a visited state."
    )
    return f"{_markdown(columns, groups)}\n{_notes(groups, paper, steps, minutes, iou)}"


def comparison_table(groups: Sequence[Group]) -> str:
    """Markdown: a row a dataset and variant, a column an algorithm, with the published number in brackets."""
    found = {(group.dataset, group.variant, group.algo): group for group in groups}

    def cell(algo: str, row: tuple[str, str]) -> str:
        dataset, variant = row
        group = found.get((dataset, variant, algo))
        if group is None:
            return ""
        rates = " / ".join(f"{100 * group.over_tasks(f'success_{way}').mean():.0f}" for way in WAYS)
        published = PAPER.get(dataset, {}).get(algo) if variant == DEFAULT_VARIANT else None
        return rates if published is None else f"{rates} ({published[0]})"

    columns: dict[str, Callable[[tuple[str, str]], str]] = {
        "dataset": lambda row: row[0],
        "variant": lambda row: row[1],
    }
    for algo in sorted({group.algo for group in groups}, key=lambda algo: (algo != DEFAULT_ALGO, algo)):
        columns[algo] = partial(cell, algo)
    rows = list(dict.fromkeys((group.dataset, group.variant) for group in groups))
    published = "what the paper and OGBench publish, of a million updates"
    ways = f"Each cell is {' / '.join(WAYS)}."
    return f"{_markdown(columns, rows)}\n{_notes(groups, ways, brackets=published)}"


def ablation_table(groups: Sequence[Group]) -> str:
    """Markdown: a row a variant, with how true its map is."""
    columns: dict[str, Callable[[Group], str]] = {
        "dataset": lambda g: g.dataset,
        "algorithm": lambda g: g.algo,
        "variant": lambda g: g.variant,
        "sampled": lambda g: _rate(g, "success_sampled"),
        "deterministic": lambda g: _rate(g, "success_deterministic"),
        "keypoints in free cells": lambda g: _mean(100.0 * g.over_tasks("keypoints_free"), "{:.1f}"),
        "correlation of d with the geodesic": lambda g: _mean(g.over_tasks("distance_correlation"), "{:.3f}"),
        "d / geodesic": lambda g: _mean(g.over_tasks("distance_ratio"), "{:.2f}"),
        "false shortcuts": lambda g: _mean(100.0 * g.over_tasks("false_shortcuts"), "{:.1f}"),
        "ψ against free space (IoU)": lambda g: _mean(g.over_tasks("psi_iou"), "{:.2f}"),
    }
    return f"{_markdown(columns, groups)}\n{_notes(groups)}"


def _markdown(columns: Mapping[str, Callable[[Any], str]], rows: Sequence[Any]) -> str:
    lines = [list(columns), ["---"] * len(columns), *([cell(row) for cell in columns.values()] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _rate(group: Group, name: str) -> str:
    mean, (low, high) = group.over_tasks(name).mean(), interval(group, name)
    return f"{100 * mean:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def _mean(values: np.ndarray, form: str) -> str:
    return "-" if np.isnan(values).all() else form.format(np.nanmean(values))


def _published(dataset: str, method: str) -> str:
    return "{} ± {}".format(*PAPER[dataset][method]) if dataset in PAPER else "-"


def _distinct(values: Iterable[object], separator: str = ", ") -> str:
    return separator.join(sorted({str(value) for value in values}))


def _notes(groups: Sequence[Group], *more: str, brackets: str = INTERVAL) -> str:
    """What the numbers are, and where they were measured; each row's CSV has its own command, commit and versions."""
    rows = [row for group in groups for run in group.runs for row in run]
    sources = _distinct(
        r.dataset_source if r.dataset_seed is None else f"{r.dataset_source} with seed {r.dataset_seed}" for r in rows
    )
    seeds = _distinct(r.seed for r in rows)
    over_seeds = f"mean over seeds {seeds}" if "," in seeds else f"seed {seeds}"
    measured = (
        f"Success in percent of {_distinct(r.episodes for r in rows)} episodes a task, {over_seeds}; final agent.",
        f"In brackets {brackets}.",
        "*Sampled* actions as in the paper's Algorithm 2, *deterministic* ones as in OGBench's protocol.",
        *more,
    )
    return (
        f"{' '.join(measured)}\n\n"
        f"Data: {sources}. Machine: {_distinct(f'{r.cpu}, {r.cores} cores' for r in rows)}. "
        f"Commit: {_distinct((r.commit for r in rows), '; ')}.\n"
    )


def wilson_interval(successes: float, episodes: int) -> tuple[float, float]:
    """
    Wilson's interval of a success rate: wide where episodes are few, and never empty, also where all succeed.

    :param successes: number of episodes that succeeded
    :param episodes: number of all, at least 1
    """
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    rate, weight = successes / episodes, z * z / episodes
    centre = (rate + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(rate * (1 - rate) / episodes + weight / (4 * episodes))
    return max(0.0, min(centre - half, rate)), min(1.0, max(centre + half, rate))  # whatever rounding does


def bootstrap_interval(tasks: Sequence[np.ndarray]) -> tuple[float, float]:
    """
    Percentile interval of the mean over tasks: seeds are drawn anew within each task, as rliable does.

    :param tasks: rates of one task each, ``[seeds]``
    """
    rng = np.random.default_rng(RESAMPLING_SEED)
    means = np.zeros(N_RESAMPLES)
    for rates in tasks:
        means += rates[rng.integers(len(rates), size=(N_RESAMPLES, len(rates)))].mean(axis=1) / len(tasks)
    low, high = np.quantile(means, (0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2))
    return float(low), float(high)


def interval(group: Group, name: str) -> tuple[float, float]:
    """
    The hull of both intervals of a group's success rate: chance in the episodes, and in what a seed makes of training.

    :param group: its runs
    :param name: field with the rate
    """
    rows = [row for run in group.runs for row in run]
    episodes = sum(row.episodes for row in rows)
    over_episodes = wilson_interval(sum(getattr(row, name) * row.episodes for row in rows), episodes)
    over_seeds = bootstrap_interval(group.by_task(name))
    return min(over_episodes[0], over_seeds[0]), max(over_episodes[1], over_seeds[1])


def draw_success(groups: Sequence[Group], path: Path) -> None:
    """
    Success of every dataset, algorithm and variant with its interval, beside the paper's.

    :param groups: one row of the figure each, from the top; those of a dataset side by side share its name
    :param path: the suffix chooses the format
    """
    from zoo.figures.canvas import COLOURS, saved_figure  # matplotlib is slow to import

    labels = _labels(groups)
    heights = {label: -float(number) for number, label in enumerate(labels)}
    height = np.array([heights[label] for label, group in labels.items() if group is not None])
    with saved_figure(path, 5.5, 0.8 + 0.3 * len(labels)) as figure:
        axes = figure.add_subplot(xlabel="success rate (%)", xlim=(-2.0, 102.0), ylim=(-len(labels) + 0.4, 0.6))
        styles = (("success_sampled", "sampled", "o", 0.24), ("success_deterministic", "deterministic", "s", 0.0))
        for (name, label, marker, offset), colour in zip(styles, COLOURS, strict=False):
            means = np.array([group.over_tasks(name).mean() for group in groups])
            low, high = np.array([interval(group, name) for group in groups]).T
            axes.errorbar(
                100.0 * means, height + offset, xerr=100.0 * np.clip([means - low, high - means], 0.0, None),
                fmt=marker, color=colour, label=label, markersize=4, capsize=2, linewidth=1,
            )  # fmt: skip
        published = [(y, *PAPER[g.dataset][g.algo]) for y, g in zip(height, groups, strict=True) if _is_published(g)]
        if published:  # a line of another kind for a spread of another kind
            y, mean, std = np.array(published).T
            y -= 0.24
            axes.plot(mean, y, "D", color="0.5", label="paper", markersize=3, linestyle="none", zorder=3)
            axes.hlines(y, mean - std, np.minimum(mean + std, 100.0), color="0.75", lw=2, label="paper's ± std")
        axes.set_yticks(list(heights.values()), [label.split("\n")[-1] for label in labels])
        for tick, group in zip(axes.get_yticklabels(), labels.values(), strict=True):
            tick.set_fontweight("bold" if group is None else "normal")
        axes.grid(axis="x", alpha=0.3, linewidth=0.5)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=4, title=f"bars: {INTERVAL}", title_fontsize=6)


def _labels(groups: Sequence[Group]) -> dict[str, Group | None]:
    """The rows of the figure: a dataset alone, or as a heading (None) with a line for each algorithm and variant."""
    several = len({group.algo for group in groups}) > 1
    rows: dict[str, Group | None] = {}
    for dataset, same in itertools.groupby(groups, key=lambda group: group.dataset):
        about = {
            ", ".join([g.algo] * several + [g.variant] * (g.variant != DEFAULT_VARIANT)) or DEFAULT_VARIANT: g
            for g in same
        }
        if list(about) == [DEFAULT_VARIANT]:
            rows[dataset] = about[DEFAULT_VARIANT]
        else:
            rows[dataset] = None
            rows |= {f"{dataset}\n{words}": group for words, group in about.items()}
    return rows


def _is_published(group: Group) -> bool:
    return group.algo in PAPER.get(group.dataset, {})


def write_report(folder: Path, ablation: bool = False) -> list[Path]:
    """
    Render all results of a folder.

    :param folder: with the runs' CSVs in ``<algo>/runs/``; one table and figure of all are written beside these
    :param ablation: the table that compares variants instead of the one that compares with the paper
    :return: the files that were written
    :raises ValueError: if there are no results
    """
    paths = sorted(folder.glob("*/runs/*.csv"))
    if not paths:
        raise ValueError(f"there are no results in {folder}/<algo>/runs; run the benchmark first")
    groups = grouped(read_results(path) for path in paths)
    tables = {"ablation.md": ablation_table} if ablation else {"table.md": success_table}
    if len({group.algo for group in groups}) > 1:
        tables["comparison.md"] = comparison_table
    for name, table in tables.items():
        with atomic_file(folder / name) as file:
            file.write(table(groups).encode())
    figures = [folder / "success.png", folder / "success.pdf"]
    for figure in figures:
        draw_success(groups, figure)
    return [*(folder / name for name in tables), *figures]
