"""Buffer an answer until it is complete, so that middleware can inspect it before it is sent."""

from dataclasses import dataclass

from starlette.types import Message, Send

_WITHOUT_BODY = frozenset({204, 304})


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A complete answer. ``headers`` as ASGI has them."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    async def send(self, send: Send, *, more_headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        """Send the answer."""
        headers = [*self.headers, *more_headers]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})

    def header(self, name: bytes) -> bytes | None:
        """Return the first header with this lower-case name."""
        return next((value for key, value in self.headers if key.lower() == name), None)


class Capture:
    """A ``send`` that buffers an answer of up to ``limit`` bytes. Larger answers and streams pass through unbuffered."""

    def __init__(self, send: Send, *, limit: int) -> None:
        self._send = send
        self._limit = limit
        self._start: Message | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._is_complete = False
        self.passed_on = False  # too large to buffer, and already being sent

    async def __call__(self, message: Message) -> None:
        """Keep a part of the response, or pass it on."""
        if self.passed_on:
            await self._send(message)
        elif message["type"] == "http.response.start":
            self._start = message
            length = next((value for name, value in message["headers"] if name == b"content-length"), None)
            if (length is None and message["status"] not in _WITHOUT_BODY) or int(length or 0) > self._limit:
                await self.release()
        elif message["type"] == "http.response.body":
            self._parts.append(message.get("body", b""))
            self._size += len(self._parts[-1])
            self._is_complete = not message.get("more_body", False)
            if self._size > self._limit:
                await self.release()
        else:
            await self.release()
            await self._send(message)

    async def release(self) -> None:
        """Send the buffered part, and pass the rest through."""
        if self.passed_on:
            return
        self.passed_on = True
        if self._start is not None:
            await self._send(self._start)
            if self._parts:
                body = b"".join(self._parts)
                await self._send({"type": "http.response.body", "body": body, "more_body": not self._is_complete})

    @property
    def answer(self) -> Captured | None:
        """Return the answer if it is complete and nothing of it has been sent."""
        if self._start is None or self.passed_on or not self._is_complete:
            return None
        return Captured(status=self._start["status"], headers=tuple(self._start["headers"]), body=b"".join(self._parts))
