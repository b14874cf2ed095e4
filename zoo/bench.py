"""
Measure what ProQ costs on this machine, each part against a named reference in the same run::

    python -m zoo.bench
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from zoo.cli import run

SECTIONS = ("quasimetric", "updates", "algorithms", "predict", "evaluation", "planning", "files", "memory")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zoo.bench", description="Measure what ProQ costs, as ratios to named references."
    )
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="some of the sections")
    parser.add_argument("--num-threads", type=int, metavar="N", help="CPU threads for PyTorch (default: its choice)")
    parser.add_argument(
        "--rows",
        type=int,
        default=1_000_000,
        metavar="N",
        help="of the files that are learned from (default: %(default)s)",
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes: only to see that it runs")
    return parser


def bench(args: argparse.Namespace) -> None:
    """What the command does."""
    from zoo.benchmarking.costs import measure

    measure(args.only, args.quick, args.rows)


def main(argv: Sequence[str] | None = None) -> int:
    return run(build_parser(), bench, argv)


if __name__ == "__main__":
    sys.exit(main())
