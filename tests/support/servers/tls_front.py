"""TLS before a server that speaks none, on several addresses of loopback that share a port and a certificate."""

from __future__ import annotations

import select
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from tests.support.servers.certificates import Certificates
from tests.support.stacks.processes import free_port

_SSL_REQUEST_BYTES = 8
_LOOK_S = 0.05  # at the end of the block


@contextmanager
def tls_front(
    files: Certificates, target: int, addresses: Sequence[str], *, of_postgres: bool = False
) -> Iterator[int]:
    """Forward connections to the port ``target`` and return the port of the front. ``of_postgres``: the client asks for TLS
    first, as libpq does."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.server, files.server_key)
    port, ended = free_port(), threading.Event()

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                if of_postgres:
                    self.request.recv(_SSL_REQUEST_BYTES, socket.MSG_WAITALL)
                    self.request.sendall(b"S")
                with (
                    context.wrap_socket(self.request, server_side=True) as client,
                    socket.create_connection(("127.0.0.1", target)) as server,
                ):
                    _forward(client, server, ended)

    with ExitStack() as ends:
        for address in addresses:
            front = ends.enter_context(socketserver.ThreadingTCPServer((address, port), Connection))
            thread = threading.Thread(target=front.serve_forever, args=(_LOOK_S,))
            thread.start()
            ends.callback(thread.join)
            ends.callback(front.shutdown)
        ends.callback(ended.set)
        yield port


def _forward(client: ssl.SSLSocket, server: socket.socket, ended: threading.Event) -> None:
    """Carry bytes both ways until one side closes, in one thread: a TLS connection must not be read and written at a time."""
    while not ended.is_set():
        sources = [client] if client.pending() else select.select([client, server], [], [], _LOOK_S)[0]
        for source in sources:
            data = source.recv(65536)
            if not data:
                return
            (server if source is client else client).sendall(data)
