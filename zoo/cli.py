"""What the commands of the zoo have in common: shared options, one-line errors, tables.

A command is a module with ``build_parser()`` and::

    def main(argv: Sequence[str] | None = None) -> int:
        return run(build_parser(), train, argv)  # train(args: argparse.Namespace) -> None
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import gymnasium as gym
import torch as th
from rich import box
from rich.console import Console
from rich.table import Table

from zoo.data.catalogue import DEFAULT_DATASET_DIR
from zoo.data.load import SOURCES

ALGOS = ("proq",)
DEFAULT_LOG_FOLDER = Path("logs")
EXPECTED_ERRORS = (ValueError, OSError, ImportError, gym.error.Error)  # CheckpointError is a ValueError
INTERRUPTED = 130  # the shell's exit code for Ctrl-C


def run(
    parser: argparse.ArgumentParser, command: Callable[[argparse.Namespace], None], argv: Sequence[str] | None = None
) -> int:
    """
    Parse the command line and run a command; what a user can put right is said in one line, without a traceback.

    :param parser: with :func:`add_common_arguments`, ``--device`` is checked and ``--num-threads`` applied here
    :param command: does the work; raises one of ``EXPECTED_ERRORS`` for bad input
    :param argv: command line without the program's name; that of the process by default
    :return: exit code
    """
    args = parser.parse_args(argv)
    try:
        if getattr(args, "num_threads", None) is not None:
            if args.num_threads < 1:
                raise ValueError(f"--num-threads must be at least 1, got {args.num_threads}")
            th.set_num_threads(args.num_threads)
        if "device" in args:
            check_device(args.device)
        command(args)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except EXPECTED_ERRORS as error:
        if getattr(args, "verbose", 0) >= 2:
            traceback.print_exc()
        message = " ".join(str(error).split()) or type(error).__name__
        print(f"{parser.prog}: error: {message}", file=sys.stderr)
        return 1
    return 0


def check_device(device: str) -> None:
    """
    SB3 quietly falls back to the CPU; somebody who asked for CUDA wants to know.

    :raises ValueError: if there is no such device
    """
    if device == "auto":
        return
    try:
        kind = th.device(device)
        th.empty(0, device=kind)
    except (RuntimeError, AssertionError) as error:  # torch built without CUDA asserts
        raise ValueError(f"--device {device} is not available here ({str(error).splitlines()[0]}); try cpu") from error


def add_common_arguments(
    parser: argparse.ArgumentParser,
    holds: str = "runs are in DIR/<algo>/<env>_<number>",
    num_threads: int | None = None,
) -> None:
    """
    Add ``--algo``, ``-f``, ``--device``, ``--num-threads`` and ``--verbose``.

    :param parser: to add them to
    :param holds: what the command keeps in the log folder, for the help
    :param num_threads: the default; ``None`` leaves it to PyTorch
    """
    parser.add_argument("--algo", choices=ALGOS, default="proq", help="algorithm (default: %(default)s)")
    parser.add_argument(
        "-f",
        "--log-folder",
        type=Path,
        default=DEFAULT_LOG_FOLDER,
        metavar="DIR",
        help=f"{holds} (default: %(default)s)",
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:1 ...; auto takes a GPU if there is one")
    parser.add_argument(
        "--num-threads",
        type=int,
        default=num_threads,
        metavar="N",
        help=f"CPU threads for PyTorch (default: {num_threads or 'its choice'})",
    )
    parser.add_argument(
        "--verbose",
        type=int,
        default=1,
        metavar="{0,1,2}",
        help="0: quiet, 1: normal, 2: also tracebacks (default: %(default)s)",
    )


def add_dataset_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the three options of :func:`zoo.data.load.load`: where a dataset comes from."""
    group = parser.add_argument_group("dataset")
    group.add_argument(
        "--dataset-dir",
        type=Path,
        metavar="DIR",
        help=f"folder of the dataset files (default: {DEFAULT_DATASET_DIR}, OGBench's own)",
    )
    group.add_argument(
        "--dataset-path", type=Path, metavar="FILE", help="learn from this .npz instead of the dataset named by --env"
    )
    group.add_argument(
        "--dataset-source",
        choices=SOURCES,
        default="auto",
        help="auto: use the file if it is there, else download it, else generate it (default: %(default)s)",
    )


def given_options(parser: argparse.ArgumentParser, args: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """
    The options that are not at their defaults, as a command line has them.

    :param parser: knows the defaults
    :param args: parsed options
    :param names: which of them, in this order
    """
    parts: list[str] = []
    for name in names:
        value, option = getattr(args, name), name.replace("_", "-")
        if value == parser.get_default(name):
            continue
        if isinstance(value, bool):
            parts.append(f"--{option}" if value else f"--no-{option}")
        else:
            parts += [f"--{option}", *map(str, value if isinstance(value, list) else [value])]
    return parts


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """
    Print a table; every column but the first is right-aligned.

    :param title: above the table
    :param header: names of the columns
    :param rows: cells, converted with ``str``
    """
    console = Console(markup=False, highlight=False)
    console.print(title, soft_wrap=True)  # within the table it would be broken to the table's width
    table = Table(box=box.SIMPLE_HEAD)
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console.print(table)
