"""A sentinel that names whichever server a test says, and knows nothing of any other one."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.servers.clusters import NAME


class LyingSentinel(socketserver.ThreadingTCPServer):
    """``names``: the port of the server that it calls primary, on the address ``host``."""

    daemon_threads = True

    def __init__(self, names: int) -> None:
        self.names, self.host = names, "127.0.0.1"
        super().__init__(("127.0.0.1", 0), _Connection)

    @property
    def port(self) -> int:
        """Return its own port."""
        return int(self.server_address[1])


class _Connection(socketserver.StreamRequestHandler):
    server: LyingSentinel

    def handle(self) -> None:
        """Answer commands in the protocol of Redis 2 until the client leaves."""
        while command := self._command():
            if command[0].upper() == "HELLO":
                self.wfile.write(b"-ERR unknown command 'HELLO'\r\n")
            elif [word.upper() for word in command[:2]] == ["SENTINEL", "MASTERS"]:
                self.wfile.write(_array([[part for field in self._primary().items() for part in field]]))
            else:
                self.wfile.write(b"+PONG\r\n" if command[0].upper() == "PING" else b"+OK\r\n")

    def _primary(self) -> dict[str, str]:
        address = {"name": NAME, "ip": self.server.host, "port": str(self.server.names)}
        return address | {"flags": "master", "num-other-sentinels": "2"}

    def _command(self) -> list[str]:
        head = self.rfile.readline()
        if not head.startswith(b"*"):
            return []
        words = []
        for _ in range(int(head[1:])):
            size = int(self.rfile.readline()[1:])
            words.append(self.rfile.read(size + 2)[:size].decode())
        return words


def _array(value: Any) -> bytes:
    if isinstance(value, list):
        return b"*%d\r\n" % len(value) + b"".join(map(_array, value))
    text = str(value).encode()
    return b"$%d\r\n%s\r\n" % (len(text), text)


@contextmanager
def lying_sentinel(names: int) -> Iterator[LyingSentinel]:
    """Run one."""
    with LyingSentinel(names) as sentinel:
        thread = threading.Thread(target=sentinel.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield sentinel
        finally:
            sentinel.shutdown()
            thread.join()
