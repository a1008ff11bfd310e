"""Fetch documents from the web, with the limits that an untrusted address needs, and the threads in which it is done."""

import http
import ssl
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import httpcore
import httpx

from pipeline.deadline import Deadline
from pipeline.errors import DocumentTooLarge, FetchFailed, FetchUnavailable, causes
from pipeline.outbound.addresses import Network
from pipeline.outbound.connect_client import GuardedBackend, Resolve
from pipeline.outbound.web import WebAddress, redirected, retry_after_s, web_address
from pipeline.records import TenantId
from pipeline.threads import start_call

_MOST_REDIRECTS = 5
_LONGEST_WAIT_S = 3600.0  # the longest wait that is accepted from a server
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRY_LATER = frozenset({408, 425, 429})
ENCODINGS = ("gzip", "deflate")  # the accepted encodings
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_BARE = -zlib.MAX_WBITS
_GROWTH = 64 * 1024  # bytes that are decompressed between two checks of the size
_HEADERS: list[tuple[bytes | str, bytes | str]] = [
    ("Accept", "text/html, application/pdf, text/*;q=0.9, */*;q=0.8"),
    ("Accept-Encoding", ", ".join(ENCODINGS)),
    ("User-Agent", "chordwise"),
    ("Connection", "close"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A document as a server sent it. ``uri`` is its final address, ``content_type`` the server's declaration."""

    uri: str
    body: bytes
    content_type: str | None


class Fetcher:
    """Fetches documents, from any thread, without proxies, cookies, or any data outside the address."""

    def __init__(
        self,
        *,
        timeout_s: float = 15.0,
        max_bytes: int,
        permitted: Iterable[Network] = (),
        resolve: Resolve | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Set the limits. ``timeout_s`` covers everything, redirects included. ``permitted``: networks that may be used
        although not public. ``resolve``, ``ssl_context``: replace the system's."""
        self.timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._permitted = tuple(permitted)
        self._resolve = resolve
        self._given_ssl_context = ssl_context

    def fetch(self, uri: str) -> Fetched:
        """Fetch ``uri``, following up to 5 redirects. Raises FetchRefused for a private or invalid address, FetchFailed
        if the server refuses, DocumentTooLarge; FetchUnavailable for what may pass."""
        deadline = Deadline.after(self.timeout_s)
        address = web_address(uri)
        for _ in range(_MOST_REDIRECTS + 1):
            answer = self._ask(address, deadline)
            if isinstance(answer, Fetched):
                return answer
            address = answer
        raise FetchFailed(f"{address.host} redirects more than {_MOST_REDIRECTS} times")

    def _ask(self, address: WebAddress, deadline: Deadline) -> Fetched | WebAddress:
        """Return the document, or the target of a redirect."""
        backend = GuardedBackend(deadline, permitted=self._permitted, resolve=self._resolve)
        with (
            _translated(address.host, self.timeout_s),
            httpcore.ConnectionPool(ssl_context=self._ssl_context, network_backend=backend, max_connections=1) as pool,
            pool.stream("GET", address.uri, headers=_HEADERS) as answer,
        ):
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
            if answer.status in _REDIRECTS and "location" in headers:
                return redirected(address.uri, headers["location"])
            _require_success(answer.status, headers, address.host)
            try:
                body = read_body(
                    answer.iter_stream(),
                    encoding=headers.get("content-encoding"),
                    declared=headers.get("content-length"),
                    max_bytes=self._max_bytes,
                )
            except DocumentTooLarge as error:
                raise DocumentTooLarge(f"{error} (CHORDWISE_MAX_DOCUMENT_BYTES)") from None
        return Fetched(uri=address.uri, body=body, content_type=headers.get("content-type"))

    @cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        """Return the TLS context, loaded once because that takes some hundredths of a second."""
        return self._given_ssl_context or httpx.create_ssl_context()


def status_sentence(host: str, status: int) -> str:
    """Return a sentence with a status and, where it has one, its phrase."""
    try:
        return f"{host} answered {status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        return f"{host} answered {status}"


def _require_success(status: int, headers: dict[str, str], host: str) -> None:
    if 200 <= status < 300:
        return
    sentence = status_sentence(host, status)
    if status in _TRY_LATER or status >= 500:
        raise FetchUnavailable(sentence, retry_after_s=retry_after_s(headers, most_s=_LONGEST_WAIT_S))
    raise FetchFailed(sentence)


@contextmanager
def _translated(host: str, timeout_s: float) -> Iterator[None]:
    try:
        yield
    except httpcore.TimeoutException as error:
        raise FetchUnavailable(f"{host} did not give the document within {timeout_s:g} s") from error
    except httpcore.ConnectError as error:
        if bad_certificate(error):
            raise FetchFailed(f"the certificate of {host} is not valid") from error
        raise FetchUnavailable(f"{host} could not be connected to") from error
    except (httpcore.LocalProtocolError, httpcore.UnsupportedProtocol) as error:
        raise FetchFailed(f"{host} cannot be requested with this address") from error
    except (httpcore.NetworkError, httpcore.ProtocolError) as error:
        raise FetchUnavailable(f"{host} broke off ({type(error).__name__})") from error


def bad_certificate(error: BaseException | None) -> bool:
    """Return whether a connection failed because of the other side's certificate."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes(error))


PLACES = 16  # documents that one process fetches at a time; the threads mostly wait
_MOST_OF_ONE = 12  # of these for one tenant: others always get some, however slow its servers are


class FetchThreads:
    """Count running fetches and run them in threads that end with the process; leases recover what they leave."""

    def __init__(self) -> None:
        self._taken: Counter[TenantId] = Counter()
        self._running: set[Future[None]] = set()
        self._lock = threading.Lock()

    def room(self, tenant_id: TenantId) -> int:
        """Return how many more documents of the tenant may be fetched now."""
        with self._lock:
            return max(0, min(PLACES - self._taken.total(), _MOST_OF_ONE - self._taken[tenant_id]))

    def take(self, tenant_id: TenantId, count: int) -> None:
        """Occupy threads; the caller must wait when there are too few."""
        with self._lock:
            self._taken[tenant_id] += count

    def give_back(self, tenant_id: TenantId, count: int) -> None:
        """Release threads."""
        with self._lock:
            self._taken[tenant_id] -= count
            if not self._taken[tenant_id]:
                del self._taken[tenant_id]

    def run(self, work: Callable[[], None]) -> None:
        """Call ``work`` in a thread."""
        call = start_call(work)
        self._running.add(call)
        call.add_done_callback(self._running.discard)

    def wait(self, timeout_s: float) -> bool:
        """Wait for all running calls. Return False if they have not ended within ``timeout_s``."""
        deadline = Deadline.after(timeout_s)
        while running := tuple(self._running):  # a call may start others
            if wait(running, timeout=deadline.left_s()).not_done:
                return False
        return True

    def close(self) -> None:
        """Give calls that are about to end a moment to do so."""
        self.wait(1.0)


def read_body(pieces: Iterable[bytes], *, encoding: str | None, declared: str | None, max_bytes: int) -> bytes:
    """Return the unpacked body. ``encoding``, ``declared``: the answer's encoding and length. Raises DocumentTooLarge
    once above ``max_bytes``, packed or not; FetchFailed for an unrequested encoding; FetchUnavailable for a cut-off
    body."""
    if declared is not None and declared.isascii() and declared.isdigit() and int(declared[:18]) > max_bytes:
        raise _too_large(max_bytes)
    names = [name for name in (part.strip().lower() for part in (encoding or "").split(",")) if name]
    names = [name.removeprefix("x-") for name in names if name != "identity"]
    if len(names) > 1 or not set(names) <= set(ENCODINGS):
        raise FetchFailed(f"the answer has the encoding {', '.join(names)[:64]}, which was not requested")
    unpack = _Unpacking(max_bytes) if names else None
    body = bytearray()
    arrived = 0
    for piece in pieces:
        arrived += len(piece)
        if arrived > max_bytes:
            raise _too_large(max_bytes)
        if unpack is None:
            body += piece
        else:
            unpack.feed(piece, body)
    if unpack is not None and arrived and not unpack.finished:
        raise FetchUnavailable("the answer was cut off")
    return bytes(body)


class _Unpacking:
    """A stream to decompress. Servers send deflate with the header of zlib, and some without."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._stream = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._begun = False

    @property
    def finished(self) -> bool:
        """Return whether its end was seen."""
        return self._stream.eof

    def feed(self, piece: bytes, body: bytearray) -> None:
        """Decompress a piece onto the end of ``body``."""
        waiting = piece
        while waiting and not self._stream.eof:
            body += self._unpacked(waiting)
            if len(body) > self._max_bytes:
                raise _too_large(self._max_bytes)
            waiting = self._stream.unconsumed_tail

    def _unpacked(self, waiting: bytes) -> bytes:
        try:
            unpacked = self._stream.decompress(waiting, _GROWTH)
        except zlib.error:
            if self._begun:
                raise FetchFailed("the answer does not have the encoding that it declares") from None
            self._begun = True
            self._stream = zlib.decompressobj(_BARE)
            return self._unpacked(waiting)
        self._begun = True
        return unpacked


def _too_large(max_bytes: int) -> DocumentTooLarge:
    return DocumentTooLarge(f"the document has more than {max_bytes} bytes")
