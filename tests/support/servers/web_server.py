"""A web server on loopback with scripted answers, slow and wrong ones included."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class WebServer:
    """Serves ``pages`` from threads of this process; a context manager.

    A page is called with the handler of its request and writes the whole answer; `page` and `redirect` make the usual
    ones. ``asked`` counts requests by path, ``hosts`` has the Host header of each.
    """

    def __init__(self, *, certificate: tuple[str, str] | None = None) -> None:
        self.pages: dict[str, Callable[[Any], None]] = {}
        self.asked: Counter[str] = Counter()
        self.hosts: list[str] = []
        self.under_way = 0
        self.most_under_way = 0
        self._lock = threading.Lock()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.service = self
        self._scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
            self._scheme = "https"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._http.server_address[1])

    def url(self, path: str = "/", *, host: str = "127.0.0.1") -> str:
        """The address of a page."""
        return f"{self._scheme}://{host}:{self.port}{path}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self.asked[handler.path] += 1
            self.hosts.append(handler.headers.get("Host", ""))
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            self.pages.get(handler.path, page(b"not here", status=404))(handler)
        except OSError:
            pass  # the client has gone, as many tests intend
        finally:
            with self._lock:
                self.under_way -= 1


def page(
    body: bytes, *, media_type: str | None = "text/html; charset=utf-8", status: int = 200, **headers: str
) -> Callable[[Any], None]:
    """An answer with its length. ``headers`` with underscores for dashes."""

    def answer(handler: Any) -> None:
        handler.send_response(status)
        if media_type is not None:
            handler.send_header("Content-Type", media_type)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def publish(site: WebServer, *paths: str) -> None:
    """Serve these pages and a sitemap that names them."""
    for path in paths:
        text = f"# {path}\n\nThe page {path} is about kettles."
        site.pages[f"/{path}"] = page(text.encode(), media_type="text/markdown")
    entries = "".join(f"<url><loc>{site.url(f'/{path}')}</loc><lastmod>2026-11-30</lastmod></url>" for path in paths)
    urlset = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'
    site.pages["/sitemap.xml"] = page(urlset.encode(), media_type="application/xml")


def redirect(location: str, *, status: int = 302) -> Callable[[Any], None]:
    """An answer that sends on."""
    return page(b"", status=status, Location=location)


def packed(body: bytes, **more: str) -> Callable[[Any], None]:
    """An answer in gzip."""
    return page(gzip.compress(body), Content_Encoding="gzip", **more)


def slow(seconds: float, then: Callable[[Any], None]) -> Callable[[Any], None]:
    """An answer that comes late."""

    def answer(handler: Any) -> None:
        time.sleep(seconds)
        then(handler)

    return answer


def waits(gate: threading.Event, then: Callable[[Any], None]) -> Callable[[Any], None]:
    """An answer that comes once the gate is open."""

    def answer(handler: Any) -> None:
        gate.wait()
        then(handler)

    return answer


def endless(piece: bytes = b"x" * 65536, *, pause_s: float = 0.0) -> Callable[[Any], None]:
    """A body that never ends."""

    def answer(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain")
        handler.end_headers()
        while True:
            handler.wfile.write(piece)
            handler.wfile.flush()
            time.sleep(pause_s)

    return answer


def dripping_headers(pause_s: float) -> Callable[[Any], None]:
    """An answer whose headers come one character at a time."""

    def answer(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while True:
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(pause_s)

    return answer


def cut_off(body: bytes, *, promised: int) -> Callable[[Any], None]:
    """A body that is shorter than was promised."""

    def answer(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(promised))
        handler.end_headers()
        handler.wfile.write(body)
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)

    return answer


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    service: WebServer

    def handle_error(self, *_: Any) -> None:
        """Ignore broken connections: tests cause them."""


class _Handler(BaseHTTPRequestHandler):
    server: _Http

    def do_GET(self) -> None:
        self.server.service._serve(self)

    def log_message(self, *_: Any) -> None:
        """Silence."""
