"""
Write an agent as ONNX networks with a runtime that needs no PyTorch, for games and robots::

    python -m zoo.export --env pointmaze-giant-stitch-v0 --out giant
    python giant/runtime.py
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.cli import add_agent_arguments, add_common_arguments, agent_options, print_table, run


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zoo.export",
        description="Write an agent as ONNX networks, one JSON file and a runtime with NumPy and ONNX Runtime alone; "
        "then compare it with the agent.",
    )
    add_agent_arguments(parser)
    add_common_arguments(parser)
    group = parser.add_argument_group("export")
    group.add_argument("--out", type=Path, required=True, metavar="DIR", help="where to; files there are replaced")
    group.add_argument(
        "--block",
        type=float,
        nargs="+",
        action="append",
        default=[],
        metavar="X",
        help="close a box from the start: the coordinates of its low corner, then of its high corner; may be repeated",
    )
    return parser


def export(args: argparse.Namespace) -> None:
    """Do what the command line asks for."""
    from zoo.exporting.folder import export_agent
    from zoo.exporting.onnx_files import check_packages

    check_packages()
    from zoo.exporting.parity import compare, latencies
    from zoo.runs.agents import AgentChoice

    for box in args.block:
        if len(box) % 2:
            raise ValueError(f"--block needs two corners with as many coordinates each, got {len(box)} numbers")
    agent = AgentChoice(**agent_options(args) | {"device": "cpu"}).load()
    boxes = [(box[: len(box) // 2], box[len(box) // 2 :]) for box in args.block]
    export_agent(agent, args.out, boxes)
    print(f"wrote {', '.join(sorted(path.name for path in args.out.iterdir()))} to {args.out}")
    parity = compare(agent, args.out)
    print(
        f"over {parity.n:,} random states and goals it heads for another target {parity.other_targets} times, and no "
        f"action differs by more than {parity.error:.1e}"
    )
    rows = [(name, *(f"{1e3 * each:.2f} ms" for each in both)) for name, both in latencies(agent, args.out).items()]
    print_table("a step takes (median)", ["", f"{type(agent).__name__}.predict", "exported"], rows)


def main(argv: Sequence[str] | None = None) -> int:
    return run(build_parser(), export, argv)


if __name__ == "__main__":
    sys.exit(main())
