"""A small HTTP server for the page: a handful of files of its own, and questions answered in JSON."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from itertools import chain
from typing import Any, ClassVar

from proq_agent.common.errors import one_line
from zoo.exploring.offers import Offers
from zoo.exploring.placing import begins_where_told
from zoo.exploring.requests import MAX_SEED, Request
from zoo.exploring.views import STYLE, plain
from zoo.exploring.walks import WalkOptions, begin_episode, walk

MAX_BODY = 1 << 16
MAX_WALKS = 8  # at the same time
KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Answers:
    """
    What can be asked, one method a question.

    :param offers: the agents
    """

    def __init__(self, offers: Offers) -> None:
        self.offers = offers
        self._walks = threading.BoundedSemaphore(MAX_WALKS)

    def agents(self, request: Request) -> dict[str, Any]:
        """Which there are; colours."""
        return {"agents": self.offers.names(), **STYLE}

    def map(self, request: Request) -> dict[str, Any]:
        """An agent's map, and the tasks of its world."""
        agent = self.offers[request.text("agent")]
        world: dict[str, Any] = {"tasks": [], "acts": agent.has_env, "begins_where_told": False}
        if agent.has_env:
            with agent.env() as env:
                world |= {"tasks": env.task_ids, "begins_where_told": begins_where_told(env)}
        return agent.view(request.axes(agent)).map() | world

    def plan(self, request: Request) -> dict[str, Any]:
        """From start to goal, around the blocks."""
        agent = self.offers[request.text("agent")]
        start, goal = request.point("start", agent), request.point("goal", agent)
        return agent.view(request.axes(agent)).plan(agent.navigator(request.blocks(agent)), start, goal)

    def field(self, request: Request) -> dict[str, Any]:
        """Distances from a place to everywhere, or from everywhere to it."""
        agent = self.offers[request.text("agent")]
        return agent.view(request.axes(agent)).field(request.point("place", agent), request.flag("towards"))

    def density(self, request: Request) -> dict[str, Any]:
        """Where the data are."""
        agent = self.offers[request.text("agent")]
        return agent.view(request.axes(agent)).density(agent.data)

    def task(self, request: Request) -> dict[str, Any]:
        """Start and goal of one of the world's tasks."""
        agent = self.offers[request.text("agent")]
        return begin_episode(agent, request.task(), request.whole("seed", 0, MAX_SEED))

    def walk(self, request: Request) -> Generator[dict[str, Any], None, None]:
        """The agent at work, line by line."""
        agent = self.offers[request.text("agent")]
        start, goal = request.point("start", agent), request.point("goal", agent)
        options = WalkOptions(
            request.task(),
            request.flag("deterministic"),
            request.whole("seed", 0, MAX_SEED),
            request.number("rate", 1.0, 1e4),
        )
        blocks = request.blocks(agent)
        if not self._walks.acquire(blocking=False):
            raise ValueError(f"{MAX_WALKS} agents are walking already; wait until one is done")
        try:
            yield from walk(agent, start, goal, blocks, options)
        finally:
            self._walks.release()


class ExploreServer(ThreadingHTTPServer):
    """
    Serves the page. Requests that name another host than the one it is bound to are refused, so that no other page
    reaches it through a name of its own.

    :param host: address to bind to
    :param port: 0 for any
    :param offers: the agents
    """

    daemon_threads = True

    def __init__(self, host: str, port: int, offers: Offers) -> None:
        self.answers = Answers(offers)
        self.host = host
        self.files = {f"/{file.name}": file for file in (files("zoo") / "exploring" / "page").iterdir()}
        self.files["/"] = self.files["/index.html"]
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{self.host if self.host not in ('', '0.0.0.0') else '127.0.0.1'}:{self.server_port}/"

    def may_be_called(self, name: str) -> bool:
        """Whether this is a name of ours in a request's Host header."""
        host = name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name
        return self.host in ("", "0.0.0.0") or host in (self.host, "127.0.0.1", "localhost")


class _Handler(BaseHTTPRequestHandler):
    server: ExploreServer
    protocol_version = "HTTP/1.1"
    timeout: ClassVar[float | None] = 60.0
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """A file of the page."""
        if not self._is_for_us():
            return
        file = self.server.files.get(self.path.partition("?")[0])
        if file is None:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            return
        kind = KINDS[file.name.rpartition(".")[2]]
        self._send(HTTPStatus.OK, f"{kind}; charset=utf-8", file.read_bytes())

    def do_POST(self) -> None:
        """A question."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length[:9]) > MAX_BODY or len(length) > 9:
            self.close_connection = True  # what was sent is still there, unread
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MAX_BODY} bytes, and their number, please")
            return
        body = self.rfile.read(int(length))
        if not self._is_for_us():
            return
        # Other pages may not send this kind without asking first, and are not answered.
        if self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "application/json is wanted")
            return
        name = self.path.removeprefix("/api/")
        if self.path == name or name not in ("agents", "map", "plan", "field", "density", "task", "walk"):
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such question")
            return
        begun = time.perf_counter()
        try:
            answer = getattr(self.server.answers, name)(Request(body))
            if name == "walk":
                self._stream(answer)
                return
            answer = plain(answer) | {"ms": round(1000 * (time.perf_counter() - begun), 1)}
        except (ValueError, OSError, ImportError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, one_line(error))
            return
        self._send(HTTPStatus.OK, "application/json", json.dumps(answer).encode())

    def _stream(self, lines: Generator[dict[str, Any], None, None]) -> None:
        """One JSON object a line, as they come, until the connection closes."""
        first = next(lines)  # a bad request is known by now
        self.close_connection = True
        self._head(HTTPStatus.OK, "application/x-ndjson", None)
        try:
            for line in chain([first], lines):
                self.wfile.write(json.dumps(plain(line)).encode() + b"\n")
        except OSError:
            pass  # nobody watches any more
        finally:
            lines.close()

    def _is_for_us(self) -> bool:
        if self.server.may_be_called(self.headers.get("Host", "")):
            return True
        self._refuse(HTTPStatus.FORBIDDEN, "this server has another name")
        return False

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self._send(status, "application/json", json.dumps({"error": message}).encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self._head(status, kind, len(body))
        self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str, length: int | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def version_string(self) -> str:
        return "zoo.explore"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is for errors."""
