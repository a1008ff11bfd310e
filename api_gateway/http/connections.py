"""Limits on connections: their number (what the system allows), idle connections, and the size of request heads."""

import asyncio
import re
import resource
import uuid
from collections.abc import Sequence
from typing import Final

import structlog
from httptools import HttpParserError, parse_url
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api_gateway.http.metrics import REQUESTS
from api_gateway.http.problems import Problem

log = structlog.get_logger(__name__)

HEAD_S: Final = 30.0  # from the beginning of a request to the end of its headers, and until the first one begins
MOST_HEAD_BYTES: Final = 64 * 1024  # of the request line and the headers together
MOST_HEADERS: Final = 200
# Longer than proxies keep idle connections (60 s): a POST sent while this side closes would be lost.
KEEP_ALIVE_S: Final = 75
_HOST = re.compile(rb"(?:[\w.~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.]+(?:%[\w.~%-]+)?\])(?::\d*)?", re.ASCII)
_LINGER_S = 2.0  # for a refused sender to read the answer before the connection is closed
_LAST_REQUEST_S = 0.5  # at the end, for a request that was sent before the sender saw the connection close
_MOST_DISCARDED = 1024 * 1024  # bytes from a refused sender in that time


def allow_many_connections() -> None:
    """Raise the number of open files to what the system permits: every client that waits is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            log.info("open_files_not_raised", limit=soft, error=type(error).__name__)


def host_flaw(headers: Sequence[tuple[bytes, bytes]], *, version: str) -> str | None:
    """Return what is wrong with the ``Host`` of a request (RFC 9112, 3.2), or None. A proxy that chose by one of two would
    be answered by the other."""
    hosts = [value for name, value in headers if name.lower() == b"host"]
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        return f"A request of HTTP/1.1 has one Host header, and this one has {len(hosts) or 'none'}."
    if hosts and not _HOST.fullmatch(hosts[0].strip()):
        return "The Host header names no host."
    return None


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with limits on the head of a request: its time, its bytes and its number of headers.

    httptools joins the pieces of one header as they arrive, which costs the square of the header's length, so this
    class passes on an unfinished head only up to the limit. Between requests, Uvicorn's keep-alive timeout applies.
    """

    _deadline: asyncio.TimerHandle | None = None
    _in_head = True
    _head_bytes = 0  # received so far of the incomplete head
    _heads = 0  # complete heads so far
    _body_pieces = 0
    _between_bytes = 0  # bytes that are neither head nor body: trailers, extensions of chunks
    _discarded: int | None = None  # bytes since this connection was refused; None if it was not refused
    _excess: Problem | None = None
    _ending = False  # the server stops: one more request at most, answered with Connection: close

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the first head."""
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; of an unfinished head, no more than the limit."""
        while data and not self.transport.is_closing():
            if self._discarded is not None:
                self._discard(len(data))
                return
            size = MOST_HEAD_BYTES - self._head_bytes if self._in_head else len(data)
            piece, data = data[:size], data[size:]
            self._feed(piece)

    def on_message_begin(self) -> None:
        """Start the timer for the end of a head."""
        super().on_message_begin()
        self._wait_for_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Accept a header of the request. Drop trailers, whatever their names."""
        if not self._in_head:
            return
        if len(self.headers) >= MOST_HEADERS:
            self._excess = head_too_large("headers", MOST_HEADERS)
            raise HttpParserError(str(self._excess))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Pass the request on to Uvicorn if its head is within the limit."""
        self._stop_waiting()
        self._in_head = False
        self._heads += 1
        # A head that began in the middle of one received piece has not been counted yet.
        if sum(len(name) + len(value) + 4 for name, value in self.headers) + len(self.url) > MOST_HEAD_BYTES:
            self._excess = head_too_large("head_bytes", MOST_HEAD_BYTES)
            raise HttpParserError(str(self._excess))
        if flaw := host_flaw(self.headers, version=self.parser.get_http_version()):
            self._excess = Problem(400, "malformed_request", flaw)
            raise HttpParserError(flaw)
        super().on_headers_complete()
        self.cycle.keep_alive = self.cycle.keep_alive and not self._ending

    def shutdown(self) -> None:
        """Close after the answer to the running request. Close an idle connection a moment later: a request on its way
        would be reset."""
        if self._discarded is None and (self.cycle is None or self.cycle.response_complete):
            self._ending = True
            self._stop_waiting()
            self._deadline = self.loop.call_later(_LAST_REQUEST_S, self._close)
        else:
            super().shutdown()

    def on_body(self, body: bytes) -> None:
        """Accept a piece of the body."""
        self._body_pieces += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Expect the next head."""
        self._in_head, self._head_bytes, self._between_bytes = True, 0, 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - Uvicorn's signature
        """Refuse a request that the parser rejects."""
        self._refuse(self._excess or Problem(400, "malformed_request", "The request does not follow HTTP/1.1."))

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _feed(self, piece: bytes) -> None:
        heads, pieces = self._heads, self._body_pieces
        began_in_head = self._in_head
        super().data_received(piece)
        if self._discarded is not None or self.transport.is_closing():
            return
        if self._in_head and began_in_head and heads == self._heads:
            self._head_bytes += len(piece)
        elif not self._in_head and not began_in_head:
            self._between_bytes = self._between_bytes + len(piece) if pieces == self._body_pieces else 0
        if max(self._head_bytes, self._between_bytes) >= MOST_HEAD_BYTES:
            self._refuse(head_too_large("head_bytes", MOST_HEAD_BYTES))

    def _refuse(self, problem: Problem) -> None:
        """Write the answer, discard further input, and close once the sender had time to read the answer."""
        self._discarded = 0
        self._stop_waiting()
        if self.cycle is not None and not self.cycle.response_complete:
            if self.cycle.response_started or self.pipeline:
                self.transport.close()  # another answer is being written, and a second one would corrupt it
                return
            self.cycle.disconnected = True  # so that the route which reads this body ends, and writes nothing
            self.cycle.message_event.set()
        REQUESTS.labels("other", "unknown", problem.status).inc()
        log.info("request_refused", code=problem.code, client=self.client[0] if self.client else None)
        self.transport.write(_response_bytes(problem, getattr(self, "url", b"")))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._deadline = self.loop.call_later(_LINGER_S, self._close)

    def _discard(self, count: int) -> None:
        self._discarded = (self._discarded or 0) + count
        if self._discarded > _MOST_DISCARDED:
            self._close()

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(HEAD_S, self._close)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def head_too_large(name: str, limit: int) -> Problem:
    """Return Problem(431), naming the limit."""
    what = f"more than {limit} headers" if name == "headers" else f"more than {limit} bytes"
    detail = f"The request line and the headers have {what}."
    return Problem(431, "head_too_large", detail, extensions={"limit": {"name": name, "limit": limit}})


def _response_bytes(problem: Problem, url: bytes) -> bytes:
    """Return a whole HTTP response as bytes, in the dialect of the path if the path is known."""
    try:
        path = parse_url(url).path or b""
    except HttpParserError:
        path = b""
    request_id = str(uuid.uuid4())
    scope = {"path": path.decode("latin-1"), "raw_path": path[:256], "state": {"request_id": request_id}}
    response = problem.response(scope)
    lines = [
        f"HTTP/1.1 {response.status_code} {problem.title}".encode("latin-1"),
        *(name + b": " + value for name, value in response.raw_headers),
        b"x-request-id: " + request_id.encode(),
        b"x-content-type-options: nosniff",
        b"cache-control: no-store",
        b"connection: close",
        b"",
        response.body,
    ]
    return b"\r\n".join(bytes(line) for line in lines)
