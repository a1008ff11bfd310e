"""Server-sent events as an ASGI response: the common part of all streams."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api_gateway.live.wakes import disconnected

HEARTBEAT_S = 15.0
_STUCK_S = 60.0  # a client that reads nothing for this long is disconnected
_RETRY_MS = 2000

HEADERS = {"Cache-Control": "no-cache, no-store", "X-Accel-Buffering": "no"}
BEGINNING = b"retry: %d\n\n" % _RETRY_MS
PING = b": still here\n\n"

Write = Callable[[bytes], Awaitable[None]]


class EventStream(Response):
    """A stream of events. Subclasses send theirs from `stream`."""

    def __init__(self) -> None:
        super().__init__(media_type="text/event-stream", headers=HEADERS)

    async def stream(self, receive: Receive, send: Send, send_all: Callable[[Write], Awaitable[None]]) -> None:
        """Send an answer that ``send_all`` writes. Raises ClientDisconnect if the client leaves or stalls for a minute."""
        headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def write(text: bytes, *, more: bool = True) -> None:
            try:
                async with asyncio.timeout(_STUCK_S):
                    await send({"type": "http.response.body", "body": text, "more_body": more})
            except TimeoutError:
                raise ClientDisconnect from None

        async def send_stream() -> None:
            await write(BEGINNING)
            await send_all(write)
            await write(b"", more=False)

        gone = asyncio.ensure_future(disconnected(receive))
        sending = asyncio.ensure_future(send_stream())
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise ClientDisconnect
            sending.result()
        finally:
            gone.cancel()
            sending.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)

    async def nothing_more(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 204, which tells a browser not to reconnect."""
        await Response(status_code=204, headers=HEADERS)(scope, receive, send)


def event(name: str, event_id: str, data: dict[str, Any]) -> bytes:
    """Return one event as it is sent; JSON holds no line break."""
    return raw_event(name, event_id, orjson.dumps(data, option=orjson.OPT_UTC_Z))


def raw_event(name: str, event_id: str, body: bytes) -> bytes:
    """Return one event with a body of encoded JSON without line breaks."""
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (event_id.encode(), name.encode(), body)
