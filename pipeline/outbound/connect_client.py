"""Connections to checked addresses, all within one time limit."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

import httpcore

from pipeline.deadline import Deadline
from pipeline.errors import FetchFailed, FetchRefused, FetchUnavailable
from pipeline.outbound.addresses import Network, is_address, may_connect
from pipeline.threads import start_call

Result = TypeVar("Result")

_MOST: Final = 64  # look-ups of one process at a time; abandoned ones continue until the system ends them
_LOOK_UPS = threading.BoundedSemaphore(_MOST)
Resolve = Callable[[str, int], Sequence[str]]

REFUSED_AFTER_S = 1.0  # from the start of a look-up to the refusal of the name, the same for every reason
_MOMENT_S = 0.05
_AGAIN_S = 0.3  # between look-ups of a name while DNS fails
_ONE_ADDRESS_S = 5.0  # for one of several addresses of a host, so that a dead one leaves time for the others


def start_look_up(
    look_up: Callable[[], Result], *, patience: Deadline, places: threading.BoundedSemaphore = _LOOK_UPS
) -> Future[Result]:
    """Start a look-up in a thread. ``places``: the most at a time. Raises TimeoutError if no place or thread is free."""
    if not places.acquire(timeout=patience.left_s()):
        raise TimeoutError("too many names are being looked up")
    try:
        reply = start_call(look_up)
    except RuntimeError:
        places.release()
        raise TimeoutError("no thread could be started") from None
    reply.add_done_callback(lambda _: places.release())
    return reply


def within(look_up: Callable[[], Result], *, seconds: float, places: threading.BoundedSemaphore = _LOOK_UPS) -> Result:
    """Return or raise the result of ``look_up``; TimeoutError when late. ``places``: the most at a time."""
    deadline = Deadline.after(seconds)
    return start_look_up(look_up, patience=deadline, places=places).result(timeout=deadline.left_s())


def resolved(host: str, port: int) -> list[str]:
    """Return every address of a host. Raises FetchFailed for a host without one, FetchUnavailable if DNS fails."""
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno == socket.EAI_NONAME:
            raise FetchFailed(f"there is no host {host}") from error
        raise FetchUnavailable(f"the name {host} could not be looked up") from error
    except UnicodeError as error:
        raise FetchFailed(f"there is no host {host[:64]}") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def refused(host: str) -> FetchRefused:
    """Return the same refusal for a host without an address, without a public one, or without an answer from DNS."""
    return FetchRefused(f"{host[:253]} has no address that this installation may ask")


def _left_s(deadline: Deadline) -> float:
    """Return the seconds left. Raises httpcore's own error once there are none, which leaves its connection in order."""
    left_s = deadline.left_s()
    if not left_s:
        raise httpcore.ReadTimeout("the time for this document is used up")
    return left_s


class GuardedBackend(httpcore.NetworkBackend):
    """Makes the connections of one fetch: looks up a name once per connection, checks all its addresses, and connects
    to one of them. Certificates are checked for the name. The look-up is part of the time limit."""

    def __init__(
        self, deadline: Deadline, *, permitted: Iterable[Network] = (), resolve: Resolve | None = None
    ) -> None:
        self._deadline = deadline
        self._permitted = tuple(permitted)
        self._resolve = resolve or resolved
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to one of the host's addresses. Raises FetchRefused if any is not public or none exists: with the
        same sentence after the same time, so that callers cannot probe the network's names."""
        refusal = Deadline.after(REFUSED_AFTER_S)
        addresses = self._addresses(host, port)
        if not addresses or not all(may_connect(address, permitted=self._permitted) for address in addresses):
            if not is_address(host):
                time.sleep(max(0.0, refusal.within(_left_s(self._deadline) - _MOMENT_S)))
            raise refused(host)
        for number, address in enumerate(addresses, start=1):
            left_s = _left_s(self._deadline)
            allowed_s = left_s if number == len(addresses) else min(left_s, _ONE_ADDRESS_S)
            try:
                stream = self._inner.connect_tcp(address, port, timeout=allowed_s, socket_options=socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if number == len(addresses):
                    raise
            else:
                return _BoundedStream(stream, self._deadline)
        raise httpcore.ConnectError(host)

    def _addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host; empty if it has none or if the look-up fails for a while."""
        refusal = Deadline.after(REFUSED_AFTER_S)
        while True:
            try:
                return within(lambda: self._resolve(host, port), seconds=_left_s(self._deadline))
            except TimeoutError as error:
                raise httpcore.ConnectTimeout(f"the name {host} was not looked up in time") from error
            except FetchFailed:
                return []
            except FetchUnavailable:
                if refusal.within(_left_s(self._deadline)) <= _AGAIN_S:
                    return []
                time.sleep(_AGAIN_S)


class _BoundedStream(httpcore.NetworkStream):
    """A connection on which every step gets the remaining time of the whole fetch, however slowly the other side sends."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left_s(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left_s(self._deadline))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        encrypted = self._inner.start_tls(ssl_context, server_hostname, _left_s(self._deadline))
        return _BoundedStream(encrypted, self._deadline)

    def get_extra_info(self, info: str) -> object:
        return self._inner.get_extra_info(info)
