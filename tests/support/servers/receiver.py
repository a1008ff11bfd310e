"""An endpoint of somebody else's: it records what it is sent, and answers as it is told."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.servers.http_server import serving

LOOPBACK = "127.0.0.0/8, ::1/128"


@dataclass(frozen=True)
class Call:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message_id(self) -> str:
        return self.headers["webhook-id"]

    def signed_with(self, secret: str) -> bool:
        """The check a receiver makes, written from the specification: any of the signatures, of id.timestamp.body."""
        assert secret.startswith("whsec_")
        assert abs(int(self.headers["webhook-timestamp"]) - time.time()) < 300
        signed = b".".join((self.message_id.encode(), self.headers["webhook-timestamp"].encode(), self.body))
        key = base64.b64decode(secret.removeprefix("whsec_"))
        expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return expected in self.headers["webhook-signature"].split(" ")


@dataclass
class Receiver:
    """``answers`` are given first in first out, then 204 for ever: a status, headers, and seconds to wait before."""

    url: str = ""
    calls: list[Call] = field(default_factory=list)
    answers: deque[tuple[int, dict[str, str], float]] = field(default_factory=deque)
    released: threading.Event = field(default_factory=threading.Event)

    def answer(self, status: int, *, wait_s: float = 0.0, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append((status, named, wait_s))

    def wait_for(self, count: int, *, seconds: float = 20.0) -> list[Call]:
        """The calls, once there are so many."""
        ends = time.monotonic() + seconds
        while len(self.calls) < count and time.monotonic() < ends:
            time.sleep(0.02)
        assert len(self.calls) >= count, f"{len(self.calls)} calls instead of {count}"
        return self.calls


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    receiver: Receiver

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.receiver.calls.append(Call(self.command, self.path, headers, body))
        status, more, wait_s = self.receiver.answers.popleft() if self.receiver.answers else (204, {}, 0.0)
        if wait_s:
            self.receiver.released.wait(wait_s)
        self.send_response(status)
        for name, value in {**more, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    do_GET = do_POST = handle_any  # noqa: N815 - the names that http.server looks for

    def log_message(self, *_: object) -> None:
        """Say nothing: the log of a test is ``calls``."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver on a free loopback port."""
    receiver = Receiver()
    handler = type("Handler", (_Handler,), {"receiver": receiver})
    with serving(handler) as url:
        receiver.url = f"{url}/hook"
        try:
            yield receiver
        finally:
            receiver.released.set()
