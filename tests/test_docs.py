"""The documents: every block of Python runs, every command is one that its parser takes, and the site builds."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "zoo" / "docs" / "pages").glob("*.md"))]
ABLATIONS_SHOWN = {
    "default": "default: K = 100, τ = 45",
    **{f"K-{n}": f"K = {n}" for n in (25, 40, 50, 200)},
    "K-40-adaptive": "K = 40, closer where ways bend",
    **{f"tau-{hop}": f"τ = {hop}" for hop in (25, 50, 100)},
    "no-barrier": "without the barrier",
    "no-keypoints": "without keypoints: direct control",
    "no-bridges": "without hops that bridge gaps",
    "no-reach": "keypoints have to be hit exactly",
    "unguided-actor": "the actor sees latents alone",
    "no-fourier-features": "without Fourier features",
    "raw-inputs": "inputs as they are",
    "symmetric": "symmetric distance",
}


def blocks(page: Path, *kinds: str) -> list[str]:
    """The code blocks of a page of the given kinds, in their order."""
    text = page.read_text(encoding="utf-8")
    return [
        code for kind, code in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) if kind in kinds
    ]


def commands(page: Path) -> list[list[str]]:
    """The calls of our commands on a page: in shell blocks, after a prompt where there is one."""
    text = "".join(blocks(page, "bash", "console")).replace("\\\n", " ")
    found = re.findall(r"(?:^|\$ |&& )(?:\S*python3?) -m (zoo\.\S+)(.*)$", text, re.MULTILINE)
    return [[module, *shlex.split(rest.split("&&")[0], comments=True)] for module, rest in found]


def table_rows(name: str) -> list[list[str]]:
    """The cells of each dataset's rows in a table among the results."""
    lines = (ROOT / "zoo" / "results" / name).read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| pointmaze-")]


def run(page: Path) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in blocks(page, "python"):
        exec(block, names)
    return names


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES[1:] if blocks(p, "python")], ids=lambda page: page.stem)
def test_every_block_of_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(page)


@pytest.mark.slow
def test_the_readme_trains_an_agent_that_heads_for_its_goal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run(PAGES[0])
    agent, rng = names["agent"], np.random.default_rng(1)
    assert names["action"].shape == (2,) and (tmp_path / "agent.zip").is_file()

    position, velocity, goals = np.zeros((50, 2)), np.zeros((50, 2)), rng.uniform(-4.0, 4.0, (50, 2))
    reached = np.zeros(50, dtype=bool)
    for _ in range(60):
        states = {"observation": np.hstack([position, velocity]), "achieved_goal": position, "desired_goal": goals}
        velocity, _ = agent.predict(states)
        position = position + velocity
        reached |= np.linalg.norm(position - goals, axis=1) < 1.0
    assert reached.mean() >= 0.9


def test_the_way_from_arrays_to_an_agent_takes_ten_lines() -> None:
    code = blocks(PAGES[0], "python")[1].split("agent = ")[0]
    assert len([line for line in code.splitlines() if line]) <= 10


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda page: page.stem)
def test_every_command_is_one_that_its_parser_takes(page: Path) -> None:
    for module, *arguments in commands(page):
        importlib.import_module(module).build_parser().parse_args(arguments)


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    assert len(text.split()) <= 1500
    links = re.findall(r"\]\(([^)#]+)", text)
    assert links and all((ROOT / link).exists() for link in links if "://" not in link)


def test_tables_of_results_are_what_the_benchmark_wrote() -> None:
    readme, algorithms, results = (
        page.read_text(encoding="utf-8") for page in PAGES if page.stem in ("README", "algorithms", "results")
    )
    for row in table_rows("table.md"):
        dataset, _, variant, _, sampled, deterministic, _, minutes, _, _, *paper = row
        assert f"| {' | '.join((dataset, *row[2:]))} |" in results
        means = [cell.split()[0] for cell in (sampled, deterministic, minutes, *paper)]
        assert variant != "default" or f"| {' | '.join((dataset, *means))} |" in readme, dataset
    for row in table_rows("ablation/ablation.md"):
        if row[2] in ABLATIONS_SHOWN:
            assert f"| {' | '.join((ABLATIONS_SHOWN[row[2]], *row[3:5], *row[6:]))} |" in results, row[2]
    for row in table_rows("rivals/comparison.md"):
        assert f"| {' | '.join(row)} |" in algorithms, row[:2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_nothing_is_left_to_fill_in(page: Path) -> None:
    assert not re.findall(r"@@\w*|\b(TODO|FIXME|TBD|XXX)\b|lorem ipsum", page.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_site_builds_without_a_broken_link(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings_handlers.python")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-q",
        "-f",
        str(ROOT / "zoo" / "docs" / "mkdocs.yml"),
    ]
    result = subprocess.run([*command, "-d", str(tmp_path / "site")], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "site" / "index.html").is_file()
    reference = (tmp_path / "site" / "reference.html").read_text(encoding="utf-8")
    assert not re.findall(r":(?:class|func|meth|data):", reference)  # roles of docstrings are names there
    assert all(f'id="proq_agent.proq.proq.ProQ.{name}"' in reference for name in ("learn", "predict", "save", "load"))
