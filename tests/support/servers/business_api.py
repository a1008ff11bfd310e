"""A business API on loopback for tests: answers as it is told, and remembers what it was asked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.servers.http_server import serving


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    params: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


@dataclass
class BusinessApi:
    """``answers`` by path; `says` makes the usual ones."""

    url: str = ""
    answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def business_api() -> Iterator[BusinessApi]:
    """A server while the block runs."""
    api = BusinessApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(length)
            parts = urlsplit(self.path)
            api.asked.append(
                Asked(
                    method=self.command,
                    path=parts.path,
                    params=parse_qs(parts.query),
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=json.loads(raw) if raw else None,
                )
            )
            self.close_connection = True
            api.answers[parts.path](self)

        def log_message(self, *_: Any) -> None:
            """Tests look at ``asked``."""

    with serving(Handler) as url:
        api.url = url
        yield api


def says(body: Any, *, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer of JSON, or of these bytes."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(sent)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(sent)

    return answer


def slowly(seconds: float, body: Any) -> Callable[[BaseHTTPRequestHandler], None]:
    """The same after a while."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(seconds)
        says(body)(handler)

    return answer


def endless(handler: BaseHTTPRequestHandler) -> None:
    """JSON that never ends."""
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b'{"hits": [')
    while True:
        handler.wfile.write(b'{"text": "' + b"x" * 65_536 + b'"},')
