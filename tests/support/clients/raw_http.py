"""HTTP by hand, for what no client would send."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit


def address() -> tuple[str, int]:
    """Where the gateway listens."""
    url = urlsplit(os.environ["CHORDWISE_URL"])
    return url.hostname or "127.0.0.1", url.port or 80


def head(key: str, line: str, *headers: str) -> bytes:
    """The head of a request."""
    lines = [f"{line} HTTP/1.1", "Host: gateway", f"Authorization: Bearer {key}", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1")


@contextmanager
def connected(timeout_s: float = 20.0) -> Iterator[socket.socket]:
    """A connection to the gateway."""
    with socket.create_connection(address(), timeout=timeout_s) as found:
        yield found


def answer(connection: socket.socket) -> tuple[int, dict[str, str], Any]:
    """Return status, headers and body of one answer; status 0 if the connection ended without one. Reads nothing of the
    answer that follows on the same connection."""
    raw = b""
    while b"\r\n\r\n" not in raw:
        part = connection.recv(1)
        if not part:
            return 0, {}, None
        raw += part
    top, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = top.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while missing := int(headers.get("content-length", 0)) - len(body):
        body += connection.recv(min(missing, 65536))
    is_json = "json" in headers.get("content-type", "")
    return int(status.split()[1]), headers, json.loads(body) if is_json else body


def exchange(request: bytes) -> tuple[int, dict[str, str], Any]:
    """One request, one answer."""
    with connected() as connection:
        connection.sendall(request)
        return answer(connection)
