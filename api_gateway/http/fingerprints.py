"""Fingerprints of request bodies, to compare repeated requests; computed while the bodies are read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Protocol

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.types import Message, Receive


class _Digest(Protocol):
    def update(self, data: bytes, /) -> object: ...


class _Parts:
    """Hash a multipart body part by part, because a client that repeats it uses another boundary."""

    def __init__(self, boundary: bytes, digest: _Digest) -> None:
        self._digest = digest
        self._broken = self._in_value = False
        self._length = 0
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._mark(b"\x00"),
                "on_header_begin": self._mark(b"\x01"),
                "on_header_field": self._data,
                "on_header_value": self._value,
                "on_header_end": self._mark(b"\x03"),
                "on_part_data": self._data,
                "on_part_end": self._mark(b"\x04"),
                "on_end": self._mark(b"\x05"),
            },
        )

    def update(self, data: bytes) -> None:
        """Hash the next bytes. A body that is not multipart after all is hashed as it is."""
        if not self._broken:
            try:
                self._parser.write(data)
                return
            except MultipartParseError:
                self._broken = True
        self._digest.update(data)

    def _mark(self, sign: bytes) -> Callable[[], None]:
        """Return a function that ends a piece and adds its length; a piece may arrive in any number of parts."""

        def mark() -> None:
            self._digest.update(sign + self._length.to_bytes(8, "big"))
            self._length = 0
            self._in_value = False

        return mark

    def _value(self, data: bytes, start: int, end: int) -> None:
        if not self._in_value:
            self._mark(b"\x02")()
            self._in_value = True
        self._data(data, start, end)

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._digest.update(data[start:end])
        self._length += end - start


class FingerprintingReceive:
    """A request's ``receive`` that hashes the body as it is read, without storing it."""

    def __init__(self, receive: Receive, *, target: bytes, content_type: str) -> None:
        """Start the hash with ``target``: path and query as they came over the wire."""
        self._receive = receive
        self._digest = hashlib.sha256(target + b"\n")
        kind, options = parse_options_header(content_type)
        self._digest.update(kind.lower() + b"\n")
        self._body: _Digest = self._digest
        boundary = options.get(b"boundary", b"")
        if kind.lower() == b"multipart/form-data" and 0 < len(boundary) <= 256:
            self._body = _Parts(boundary, self._digest)
        self.complete = False

    async def __call__(self) -> Message:
        """Receive a part of the body and add it to the fingerprint."""
        message = await self._receive()
        if message["type"] == "http.request" and not self.complete:
            if body := message.get("body", b""):
                self._body.update(body)
            self.complete = not message.get("more_body", False)
        return message

    @property
    def value(self) -> bytes:
        """Return the fingerprint of the whole request; call only once the body is ``complete``."""
        if not self.complete:
            raise RuntimeError("the body has not been read to its end")
        return self._digest.digest()
