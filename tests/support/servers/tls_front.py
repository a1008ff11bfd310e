"""TLS before a server that speaks none, on several addresses of loopback that share a port and a certificate."""

from __future__ import annotations

import asyncio
import ssl
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from tests.support.servers.certificates import Certificates
from tests.support.stacks.processes import free_port

_SSL_REQUEST_BYTES = 8


@contextmanager
def tls_front(
    files: Certificates, target: int, addresses: Sequence[str], *, of_postgres: bool = False
) -> Iterator[int]:
    """Forward connections to the port ``target`` and return the port of the front. ``of_postgres``: the client asks for TLS
    first, as libpq does."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.server, files.server_key)
    port, loop = free_port(), asyncio.new_event_loop()

    async def forward(reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            if of_postgres:
                await reader.readexactly(_SSL_REQUEST_BYTES)
                writer.write(b"S")
                await writer.start_tls(context)
            from_server, to_server = await asyncio.open_connection("127.0.0.1", target)
            await asyncio.gather(_pump(reader, to_server), _pump(from_server, writer))

    listen = partial(asyncio.start_server, forward, port=port, ssl=None if of_postgres else context)
    with ExitStack() as ends:
        ends.callback(loop.close)
        ends.callback(_end_all, loop)
        for address in addresses:
            ends.callback(loop.run_until_complete(listen(host=address)).close)
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        ends.callback(thread.join)
        ends.callback(loop.call_soon_threadsafe, loop.stop)
        yield port


def _end_all(loop: asyncio.AbstractEventLoop) -> None:
    running = asyncio.all_tasks(loop)
    for task in running:
        task.cancel()
    if running:
        loop.run_until_complete(asyncio.wait(running))
    loop.run_until_complete(asyncio.sleep(0.05))  # for the transports that they left


async def _pump(source: StreamReader, target: StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    if not target.transport.is_closing():
        target.close()
