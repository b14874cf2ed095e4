from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

import zoo
from zoo.cli import print_table, run

ZOO = Path(zoo.__file__).parent

COMMANDS = (
    *("train", "enjoy", "benchmark", "optimize", "generate", "bench", "diagnose", "explore"),
    *("export", "push_to_hub", "load_from_hub"),
)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_explains_every_option_and_tells_its_default(name: str) -> None:
    for action in import_module(f"zoo.{name}").build_parser()._actions:
        if action.help == argparse.SUPPRESS or "--help" in action.option_strings:
            continue
        assert action.help, action.option_strings
        if isinstance(action.default, int | float) and not isinstance(action.default, bool):
            assert "(default: " in action.help and "its choice" not in action.help, action.option_strings


def test_every_command_s_help_is_there_at_once() -> None:
    """Without what takes seconds to import; in one process after another, so that nobody imports for the next."""
    modules = [
        f"zoo.{'.'.join(path.relative_to(ZOO).with_suffix('').parts)}"
        for path in (*ZOO.glob("*.py"), *ZOO.glob("examples/*.py"))
        if "__main__" in path.read_text()
    ]
    assert len(modules) > len(COMMANDS)
    program = (
        "import runpy, sys\n"
        "try: runpy.run_module(sys.argv.pop(1), run_name='__main__')\n"
        "except SystemExit: print(sorted({'torch', 'gymnasium', 'scipy', 'matplotlib'} & sys.modules.keys()))"
    )
    for module in modules:
        command = [sys.executable, "-c", program, module, "--help"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        assert lines[0].startswith(f"usage: python -m {module}") and lines[-1] == "[]", (module, lines[-1])


def test_a_long_title_of_a_table_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    title = "Success on " + "long-" * 20 + "v0 [a]"
    print_table(title, ("task", "sampled"), [(1, "100.0%")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == title
    assert [line.split() for line in lines if line.strip()][1:] == [["task", "sampled"], ["─" * 16], ["1", "100.0%"]]


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (KeyboardInterrupt(), 130),
        (ValueError("not\nso"), 1),
        (MemoryError("not so"), 1),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 1),
        (ValueError("long" * 10**6), 1),
    ],
)
def test_what_ends_a_command_is_said_in_one_line(
    raised: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(args: argparse.Namespace) -> None:
        raise raised

    assert run(argparse.ArgumentParser(prog="tool"), command, []) == code
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and len(error) < 2000
    assert error == "interrupted\n" if code == 130 else error.startswith("tool: error: ")
    assert "not so" in error or "alloc" in error or "long" in error or code == 130


def test_a_polite_kill_ends_a_command_as_ctrl_c_does_with_its_own_code(capsys: pytest.CaptureFixture[str]) -> None:
    cleaned_up = []

    def command(args: argparse.Namespace) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        finally:
            cleaned_up.append(True)

    before = signal.getsignal(signal.SIGTERM)
    assert run(argparse.ArgumentParser(prog="tool"), command, []) == 143
    assert capsys.readouterr().err == "terminated\n" and cleaned_up
    assert signal.getsignal(signal.SIGTERM) is before


def test_threads_that_begin_later_hear_how_many_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "to be restored")
    monkeypatch.delenv("OMP_NUM_THREADS")
    parser = argparse.ArgumentParser(prog="tool")
    parser.add_argument("--num-threads", type=int, default=1)
    assert run(parser, lambda args: None, []) == 0
    assert os.environ["OMP_NUM_THREADS"] == "1"


def test_a_fault_of_our_own_keeps_its_traceback() -> None:
    def command(args: argparse.Namespace) -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        run(argparse.ArgumentParser(prog="tool"), command, [])


@pytest.mark.parametrize(
    ("command", "argv", "answer"),
    [
        ("train", "--env a-v0 -optimize --n-trials 5 -n 9", "zoo.optimize --env a-v0 --n-trials 5 -n 9"),
        ("train", "--env a-v0 --optimize-hyperparameters", "type: python -m zoo.optimize --env a-v0"),
        ("train", "--env a-v0 --n-trials 5", "zoo.optimize --env a-v0 --n-trials 5"),
        ("train", "--env a-v0 --vec-env subproc", "all episodes of an evaluation act together"),
        ("train", "--env a-v0 --vec-env=subproc", "all episodes of an evaluation act together"),
        ("enjoy", "--env a-v0 --env-kwargs x:1", "gymnasium.register('Mine-v0'"),
        ("enjoy", "--env a-v0 -n 1000", "type: --n-episodes N"),
        ("optimize", "--env a-v0 --gym-packages mine", "--env your_module:Mine-v0"),
        ("benchmark", "--env a-v0 --env-kwargs x:1", "gymnasium.register('Mine-v0'"),
    ],
)
def test_habits_of_rl_zoo_are_answered(
    capsys: pytest.CaptureFixture[str], command: str, argv: str, answer: str
) -> None:
    assert import_module(f"zoo.{command}").main(argv.split()) == 2
    error = capsys.readouterr().err
    assert answer in error and error.startswith(f"python -m zoo.{command}: error: -") and error.count("\n") == 1


def test_habits_of_rl_zoo_that_need_no_answer_are_understood() -> None:
    for command, argv in (("enjoy", "--env a --no-render --no-hub -P"), ("train", "--env a -P")):
        import_module(f"zoo.{command}").build_parser().parse_args(argv.split())
