"""A TCP proxy on loopback that can be cut, frozen and healed: how tests take a server away from one process only."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Self

_BUFFER = 65536


class Proxy:
    """Forwards one local port to another. ``cut``: refuses and drops connections; ``freeze``: takes bytes, gives none;
    ``slow``: everything arrives later."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._healthy = threading.Event()
        self._healthy.set()
        self._delay_s = 0.0
        self._listener: socket.socket | None = None
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.port = self._listen(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._healthy.set()

    def cut(self) -> None:
        """Refuse new connections and drop those there are."""
        if self._listener is not None:
            # Closing alone leaves the accepting thread, and with it the port, waiting for one more connection.
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    @property
    def connected(self) -> int:
        """Return how many connections there are."""
        return len(self._connections) // 2

    def freeze(self) -> None:
        """Keep every connection open and let nothing through."""
        self._healthy.clear()

    def turn_to(self, host: str, port: int) -> None:
        """Forward further connections to another server; those that are there stay."""
        self._target = (host, port)

    def slow(self, seconds: float) -> None:
        """Let everything through, later by so many seconds each way."""
        self._delay_s = seconds

    def heal(self) -> None:
        """Be a wire again."""
        self._delay_s = 0.0
        self._healthy.set()
        if self._listener is None:
            self._listen(self.port)

    def _listen(self, port: int) -> int:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return int(listener.getsockname()[1])

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                incoming, _ = listener.accept()
            except OSError:
                return
            try:
                outgoing = socket.create_connection(self._target, timeout=5)
            except OSError:  # nothing listens there now
                incoming.close()
                continue
            outgoing.settimeout(None)
            with self._lock:
                self._connections |= {incoming, outgoing}
            for source, target in ((incoming, outgoing), (outgoing, incoming)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_BUFFER):
                self._healthy.wait()
                time.sleep(self._delay_s)
                target.sendall(data)
        for connection in (source, target):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        with self._lock:
            self._connections -= {source, target}
