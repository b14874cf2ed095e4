"""A server of ``zoo.explore`` in this process, and questions to it, for tests."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zoo.exploring.offers import Offers
from zoo.exploring.server import ExploreServer


class Client:
    """
    :param server: whom to ask
    """

    def __init__(self, server: ExploreServer) -> None:
        self.server = server

    def send(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes, http.client.HTTPMessage]:
        """Send just this, without the help and the checks of a client library."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=60)
        connection.putrequest(method, path, skip_host="host" in headers, skip_accept_encoding=True)
        if body is not None and "content_length" not in headers:
            headers["content_length"] = str(len(body))
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders(body)
        response = connection.getresponse()
        try:
            return response.status, response.read(), response.headers
        finally:
            connection.close()

    def post(self, name: str, body: bytes) -> tuple[int, Any]:
        """The status and what the JSON of the answer says."""
        status, answer, _ = self.send("POST", f"/api/{name}", body, content_type="application/json")
        return status, json.loads(answer, parse_constant=_refuse)

    def ask(self, name: str, **question: Any) -> Any:
        """The answer to a good question."""
        status, answer = self.post(name, json.dumps(question).encode())
        assert status == 200, answer
        return answer

    def walk(self, **question: Any) -> list[dict[str, Any]]:
        """All lines of a walk, as fast as they come."""
        body = json.dumps({"deterministic": True, "seed": 0, "rate": 10000} | question).encode()
        status, answer, _ = self.send("POST", "/api/walk", body, content_type="application/json")
        assert status == 200, answer
        return [json.loads(line) for line in answer.splitlines()]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


@contextmanager
def serving(offers: Offers) -> Iterator[Client]:
    """Serve these agents while the block lasts."""
    with ExploreServer("127.0.0.1", 0, offers) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield Client(server)
        finally:
            server.shutdown()
            offers.close()
