"""The body of an answer, decompressed as it arrives, up to the size limit of a document."""

import zlib
from collections.abc import Iterable

from pipeline.errors import DocumentTooLarge, FetchFailed, FetchUnavailable

ENCODINGS = ("gzip", "deflate")  # the accepted encodings
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_BARE = -zlib.MAX_WBITS
_GROWTH = 64 * 1024  # bytes that are decompressed between two checks of the size


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
