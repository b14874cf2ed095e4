"""Every command in the documents runs, with the arguments that are shown and a few more that make it small."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import cut_down
import pytest
from shard_files import write
from test_docs import PAGES, ROOT, blocks
from tiny_goal import tiny_arrays

# How those begin that do not run here, and why.
ELSEWHERE = {
    "python -m venv": "CI makes an environment and installs into it",
    "pip install": "CI makes an environment and installs into it",
    "python -m pytest": "these are the tests",
    "ray start": "it stays; test_on_ray.py starts a cluster, and the two commands below on it",
    "python -m zoo.benchmark --ray": "test_on_ray.py",
    "python -m zoo.optimize --env pointmaze-giant-stitch-v0 --n-trials 50 --ray": "test_on_ray.py",
    "chromium": "test_explore_page.py opens the page in a browser",
}
LONG = {"zoo.train", "zoo.benchmark"}  # they run once, on the first of several pages
ENDS = {  # otherwise than well
    "zoo.explore": (130, "interrupted"),
    "zoo.diagnose": (1, "faults were found"),  # by so few data
}


def commands(page: Path) -> list[tuple[str, ...]]:
    """The words of each command on a page: in shell blocks of every line, in console blocks of those with a prompt."""
    found: list[tuple[str, ...]] = []
    for block in blocks(page, "bash", "sh", "shell", "console"):
        lines = [line for line in block.replace("\\\n", " ").splitlines() if line.strip()]
        prompt = "$ " if lines[0].startswith("$ ") else ""
        for line in lines:
            if line.startswith(prompt):
                words = shlex.split(line.removeprefix(prompt), comments=True)
                ends = [i for i, word in enumerate(words) if word == "&&"]
                found += [
                    as_typed(words[i:j]) for i, j in zip([0, *(end + 1 for end in ends)], [*ends, None], strict=True)
                ]
    return found


def as_typed(words: list[str]) -> tuple[str, ...]:
    """In an environment that is active, and without what only says how: ``time``, variables."""
    while words[0] == "time" or re.match(r"\w+=", words[0]):
        words = words[1:]
    return (re.sub(r"^(\.venv/bin/)?(python|pip)3?$", r"\2", words[0]), *words[1:])


def is_elsewhere(command: tuple[str, ...]) -> bool:
    return " ".join(command).startswith(tuple(ELSEWHERE))


def run(program: str, *arguments: str) -> int:
    """The exit code; commands that nobody here knows how to run are a failure."""
    if program == "python" and arguments[0] == "-m" and arguments[1].startswith("zoo."):
        return cut_down.run(arguments[1], list(arguments[2:]))
    if program == "python" and Path(arguments[0]).is_file():
        return subprocess.run([sys.executable, *arguments], timeout=120).returncode
    if program == "python" and (ROOT / arguments[0]).parent == ROOT / "tests":
        return cut_down.run(Path(arguments[0]).stem, list(arguments[1:]))
    if program == "torchrun":
        module = arguments.index("-m")
        others = [*arguments[: module + 1], "cut_down", *arguments[module + 1 :]]
        return subprocess.run([sys.executable, "-m", "torch.distributed.run", *others], timeout=120).returncode
    raise ValueError(f"how is {program} to be run in a test?")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where datasets are, for all pages."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def workplace(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a robot and its logs for the page about those."""
    cut_down.cut_down(monkeypatch, home)
    write(tmp_path / "logs" / "part", tiny_arrays(trajectories=70), "parquet")
    (tmp_path / "my_module.py").write_text(
        "import gymnasium\ngymnasium.register('MyRobot-v0', 'tiny_goal:TinyGoalEnv')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_every_command_runs(page: Path, workplace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if any("--report" in command for command in commands(page)):
        shutil.copytree(ROOT / "zoo" / "results" / "proq", workplace / "zoo" / "results" / "proq")
    before = {command for other in PAGES[: PAGES.index(page)] for command in commands(other)}
    for command in commands(page):
        if is_elsewhere(command) or (command in before and command[2] in LONG):
            continue
        code: int | str | None
        try:
            code = run(*command)
        except SystemExit as error:  # of a parser
            code = error.code
        said = capfd.readouterr().err
        end, words = ENDS.get(" ".join(command[2:3]), (0, ""))
        assert code == end and words in said, (shlex.join(command), code, said)


def test_only_what_is_shown_runs_elsewhere() -> None:
    shown = [" ".join(command) for page in PAGES for command in commands(page)]
    assert all(any(command.startswith(beginning) for command in shown) for beginning in ELSEWHERE)
