"""What the commands of the zoo have in common: shared options, one-line errors, tables.

A command is a module with ``build_parser()`` and::

    def main(argv: Sequence[str] | None = None) -> int:
        return run(build_parser(), train, argv)  # train(args: argparse.Namespace) -> None

It imports what takes long (PyTorch, Matplotlib) in the function that does the work, so that ``--help`` is quick, and
hands plain arguments or small dataclasses on: nothing below the commands knows :class:`argparse.Namespace`.
"""

from __future__ import annotations

import argparse
import io
import os
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from proq_agent.common.errors import Interrupted, one_line
from proq_agent.common.launched import is_first, started_together
from zoo.data.catalogue import DEFAULT_DATASET_DIR, SOURCES
from zoo.registry import ALGOS, DEFAULT_ALGO, PRESETS

DEFAULT_LOG_FOLDER = Path("logs")
MAX_MESSAGE = 1000  # characters of an error
MAX_COUNT, MAX_UPDATES = 10**6, 10**12  # more is a slip of the finger
_MOST = {"num_threads": 1024, **dict.fromkeys(("n_timesteps", "log_interval"), MAX_UPDATES)}
# Options of RL Zoo that are something else here, and what to do instead.
ENVIRONMENT_HABITS = {
    "--env-kwargs": "environments are made by their id alone; register one with these arguments, "
    "gymnasium.register('Mine-v0', entry_point=..., kwargs=...), and give --env your_module:Mine-v0",
    "--gym-packages": "name the module that registers an environment with it: --env your_module:Mine-v0",
    "--vec-env": "there is nothing to choose: all episodes of an evaluation act together in one process",
}


def run(
    parser: argparse.ArgumentParser,
    command: Callable[[argparse.Namespace], None],
    argv: Sequence[str] | None = None,
    habits: Mapping[str, str] | None = None,
) -> int:
    """
    Parse the command line and run a command; what a user can put right is said in one line, without a traceback.

    :param parser: with :func:`add_common_arguments`, ``--device`` is checked and ``--num-threads`` applied here
    :param command: does the work; raises ``ValueError``, ``OSError`` or ``ImportError`` for bad input
    :param argv: command line without the program's name; that of the process by default
    :param habits: options that RL Zoo has: the answer to each, in which ``{all}`` stands for the options that were
        given and ``{rest}`` for the others among them
    :return: exit code
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    for option, answer in (habits or {}).items():
        if any(part.partition("=")[0] == option for part in argv):
            rest = shlex.join(part for part in argv if part.partition("=")[0] != option)
            _say(f"{parser.prog}: error: {option}: {answer.format(rest=rest, all=shlex.join(argv))}")
            return 2
    args = _parse(parser, argv)

    import gymnasium as gym

    try:
        with _terminable():
            if getattr(args, "num_threads", None) is not None:
                _set_num_threads(args.num_threads)
            if "device" in args:
                check_device(args.device)
            command(args)
    except KeyboardInterrupt as error:
        number = getattr(error, "number", signal.SIGINT)
        _say("interrupted" if number == signal.SIGINT else "terminated")
        return 128 + number
    except (ValueError, OSError, ImportError, MemoryError, RuntimeError, gym.error.Error) as error:
        if isinstance(error, RuntimeError) and not _is_out_of_memory(error):
            raise
        if getattr(args, "verbose", 0) >= 2:
            traceback.print_exc()
        message = one_line(error, MAX_MESSAGE) or type(error).__name__
        _say(f"{parser.prog}: error: {message}", "lost" if getattr(error, "agent", None) else "end")
        return 1
    return 0


def _parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """The options; what is wrong with them, or their help, is said once by the processes of a training."""
    said = io.StringIO()
    if not started_together():
        return parser.parse_args(argv)
    try:
        with redirect_stdout(said), redirect_stderr(said):
            return parser.parse_args(argv)
    except SystemExit:
        _say(said.getvalue().rstrip())
        raise


def _say(text: str, topic: str = "end") -> None:
    """Tell how a command has ended, unless another process of the same training has done so."""
    if is_first(topic):
        print(text, file=sys.stderr)


@contextmanager
def _terminable() -> Iterator[None]:
    """Let a polite kill end the process as Ctrl-C does: what was begun is cleaned up, and said to be incomplete."""
    if threading.current_thread() is not threading.main_thread():  # only this one gets signals
        yield
        return

    def interrupt(number: int, _: Any) -> None:
        raise Interrupted(number)

    before: Any = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except ChildProcessError:  # torchrun ends this process, too, and what was saved is yet to be told
        before = signal.SIG_IGN
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _is_out_of_memory(error: RuntimeError) -> bool:
    """PyTorch has a class of its own for this on a GPU, and none on the CPU."""
    return "alloc" in str(error).lower()


def _set_num_threads(number: int) -> None:
    check_counts(num_threads=number)
    os.environ.setdefault("OMP_NUM_THREADS", str(number))  # of threads that begin later, too, if it is read only now
    import torch as th

    th.set_num_threads(number)


def check_device(device: str) -> None:
    """
    SB3 quietly falls back to the CPU; somebody who asked for CUDA wants to know.

    :raises ValueError: if there is no such device
    """
    import torch as th

    if device == "auto":
        return
    try:
        kind = th.device(device)
        if kind.type == "meta":
            raise RuntimeError("it holds no numbers")
        th.empty(0, device=kind)
    except (RuntimeError, AssertionError) as error:  # torch built without CUDA asserts
        raise ValueError(f"--device {device} is not available here ({str(error).splitlines()[0]}); try cpu") from error


def check_counts(**values: int | None) -> None:
    """
    Refuse counts below one, and such that nobody waits for.

    :param values: by the option's name with ``_`` for ``-``; None is an option that was not given
    :raises ValueError: naming the option
    """
    for name, value in values.items():
        most = _MOST.get(name, MAX_COUNT)
        if value is not None and not 1 <= value <= most:
            least = "at least 1" if value < 1 else f"at most {most}"
            raise ValueError(f"--{name.replace('_', '-')} must be {least}, got {value}")


def add_common_arguments(
    parser: argparse.ArgumentParser,
    holds: str = "runs are in DIR/<algo>/<env>_<number>",
    num_threads: int | None = None,
    algo: bool = True,
) -> None:
    """
    Add ``--algo``, ``-f``, ``--device``, ``--num-threads`` and ``--verbose``.

    :param parser: to add them to
    :param holds: what the command keeps in the log folder, for the help
    :param num_threads: the default; ``None`` leaves it to PyTorch
    :param algo: whether there is one algorithm to choose
    """
    if algo:
        parser.add_argument("--algo", choices=ALGOS, default=DEFAULT_ALGO, help="algorithm (default: %(default)s)")
    add_log_folder_argument(parser, holds)
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


def add_log_folder_argument(parser: argparse.ArgumentParser, holds: str) -> None:
    """
    Where runs are.

    :param parser: to add it to
    :param holds: what the command keeps there, for the help
    """
    parser.add_argument(
        "-f",
        "--log-folder",
        type=Path,
        default=DEFAULT_LOG_FOLDER,
        metavar="DIR",
        help=f"{holds} (default: %(default)s)",
    )


def add_agent_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--env`` and the options that choose an agent; :func:`add_common_arguments` adds the others."""
    group = parser.add_argument_group(
        "agent", "The latest run's final agent, or without runs the one shipped for --env."
    )
    group.add_argument("--env", metavar="ID", help="environment or dataset id, as given to zoo.train")
    group.add_argument(
        "--folder", dest="log_folder", type=Path, default=argparse.SUPPRESS, metavar="DIR", help="the same as -f"
    )
    group.add_argument("--exp-id", type=int, default=0, metavar="N", help="number of the run (default: 0, the latest)")
    which = group.add_mutually_exclusive_group()
    which.add_argument("--load-best", action="store_true", help="the best agent of the run instead of the final one")
    which.add_argument("--load-checkpoint", type=int, metavar="STEPS", help="the run's checkpoint after STEPS updates")
    which.add_argument("--load-last-checkpoint", action="store_true", help="the run's last checkpoint")
    which.add_argument("--agent", type=Path, metavar="FILE", help="an agent file from anywhere")
    add_trust_argument(group)


def add_keypoints_argument(group: argparse._ArgumentGroup) -> None:
    """Add ``--keypoints``, see :func:`zoo.runs.agents.load_map`."""
    group.add_argument(
        "--keypoints",
        nargs="?",
        const="",
        metavar="FILE",
        help="follow the plan of this ProQ agent (without FILE: the one shipped for --env) instead of heading straight "
        "for the goal",
    )


def agent_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of :func:`add_agent_arguments`, as arguments of :class:`zoo.runs.agents.AgentChoice`."""
    return {
        "env": args.env,
        "algo": args.algo,
        "log_folder": args.log_folder,
        "file": args.agent,
        "exp_id": args.exp_id,
        "best": args.load_best,
        "checkpoint": args.load_checkpoint,
        "last_checkpoint": args.load_last_checkpoint,
        "device": args.device,
        "trust_dataset": args.trust_dataset,
    }


def add_hyperparameter_arguments(group: argparse._ArgumentGroup) -> None:
    """Add ``--preset``, ``-conf`` and ``-params``."""
    group.add_argument(
        "--preset", choices=PRESETS, default="tuned", help="tuned: minutes on a CPU; paper: its appendix, for a GPU"
    )
    group.add_argument(
        "-conf", "--conf-file", type=Path, metavar="YAML", help="your own file instead of zoo/hyperparams/<algo>.yml"
    )
    group.add_argument(
        "-params",
        "--hyperparams",
        nargs="+",
        default=[],
        metavar="KEY:VALUE",
        help="change some: -params batch_size:512 policy_kwargs.n_components:64",
    )


def add_ray_argument(parser: argparse._ActionsContainer) -> None:
    """Add ``--ray``, see :mod:`zoo.benchmarking.on_ray`."""
    parser.add_argument(
        "--ray",
        nargs="?",
        const="auto",
        metavar="HOST:PORT",
        help="spread the work over the machines of this Ray cluster (without HOST:PORT: the one that runs here); "
        "what a lost machine was at is done again",
    )


def add_dataset_arguments(parser: argparse.ArgumentParser, trust: bool = True) -> None:
    """
    Add the options of :func:`zoo.data.load.load`: where a dataset comes from.

    :param parser: to add them to
    :param trust: ``--trust-dataset`` among them; :func:`add_agent_arguments` has it too
    """
    group = parser.add_argument_group("dataset")
    group.add_argument(
        "--dataset-dir",
        type=Path,
        metavar="DIR",
        help=f"folder of the dataset files (default: {DEFAULT_DATASET_DIR}, OGBench's own)",
    )
    group.add_argument(
        "--dataset-path",
        type=Path,
        metavar="FILE",
        help="use this .npz instead of the dataset named by --env; a folder, a pattern in quotes ('logs/*.parquet') or "
        "a Parquet file stays on disk, with a cache beside it or in --dataset-dir",
    )
    group.add_argument(
        "--dataset-source",
        choices=SOURCES,
        default="auto",
        help="auto: use the file if it is there, else download it, else generate it (default: %(default)s)",
    )
    if trust:
        add_trust_argument(group)


def add_trust_argument(parser: argparse._ActionsContainer) -> None:
    """Add ``--trust-dataset``, for what Minari itself does with a dataset, and we do not with a stranger's."""
    parser.add_argument(
        "--trust-dataset",
        action="store_true",
        help="build the environment that a Minari dataset describes even if it is none of Gymnasium's registered ones, "
        "which runs code of the dataset's author, and read its files without bounds",
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
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False)
    console.print(title, soft_wrap=True)  # within the table it would be broken to the table's width
    table = Table(box=box.SIMPLE_HEAD)
    for number, name in enumerate(header):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console.print(table)
