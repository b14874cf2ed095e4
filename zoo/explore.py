"""
Explore what an agent has learned, in the browser::

    python -m zoo.explore --env pointmaze-teleport-stitch-v0

On the page you look at the map, click a start and a goal, block parts of it, and let the agent walk in its simulator.
"""

from __future__ import annotations

import argparse
import sys
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from zoo.cli import add_agent_arguments, add_common_arguments, agent_options, run


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m zoo.explore",
        description="Open an agent's map in the browser: plans, distances, blocks, and walks in the real simulator.",
    )
    add_agent_arguments(parser)
    # Its products are small: threads that wait for each other would take longer than any answer.
    add_common_arguments(parser, num_threads=1)
    parser.add_argument(
        "--compare", type=Path, metavar="FILE", help="another agent of the same world, beside the first"
    )
    group = parser.add_argument_group("dataset", "Where the data lie, to show them on the map; nothing is downloaded.")
    group.add_argument("--dataset-dir", type=Path, metavar="DIR", help="folder of the dataset files")
    group.add_argument("--dataset-path", type=Path, metavar="FILE", help="this .npz, or files on disk")
    group = parser.add_argument_group("server")
    group.add_argument(
        "--host", default="127.0.0.1", help="address to bind to; 0.0.0.0 lets others in (default: %(default)s)"
    )
    group.add_argument("--port", type=int, default=8017, metavar="N", help="0: any (default: %(default)s)")
    group.add_argument("--no-browser", action="store_true", help="only print the address")
    return parser


def explore(args: argparse.Namespace) -> None:
    """Serve the page until interrupted."""
    from zoo.data.source import DataSource
    from zoo.exploring.offers import Offers
    from zoo.exploring.server import ExploreServer
    from zoo.runs.agents import AgentChoice

    if not 0 <= args.port <= 65535:
        raise ValueError(f"--port must lie within 0 and 65535, got {args.port}")
    options = agent_options(args)
    chosen = [AgentChoice(**options)] if args.env or args.agent else []
    if args.compare:
        chosen.append(AgentChoice(**options | {"file": args.compare}))
    data = DataSource(args.dataset_dir, args.dataset_path, trust_dataset=args.trust_dataset)
    offers = Offers(chosen, data)
    for agent in offers.names()[: max(1, len(chosen))]:
        offers[str(agent["name"])]  # what is wrong with it is better said here than on the page
    try:
        server = ExploreServer(args.host, args.port, offers)
    except OSError as error:
        raise ValueError(f"cannot listen on {args.host}, port {args.port} ({error}); try --port 0") from error
    with server:
        address = server.url
        if args.compare:
            address += f"#compare={offers.names()[len(chosen) - 1]['name']}"
        print(f"{address} (Ctrl-C ends it)", flush=True)
        if not args.no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        try:
            server.serve_forever()
        finally:
            offers.close()


def main(argv: Sequence[str] | None = None) -> int:
    return run(build_parser(), explore, argv)


if __name__ == "__main__":
    sys.exit(main())
