"""The protocol of a process and the one that it starts: requests and answers in turn, one JSON header and one body each."""

import os
import struct
from collections.abc import Callable
from typing import Any, BinaryIO

import orjson

_LENGTHS = struct.Struct("!II")  # bytes of the header, bytes of the body
LARGEST_FRAME = 512 * 1024 * 1024  # bytes


class BrokenFrame(Exception):
    """The other side sent an invalid frame."""


def packed(header: dict[str, Any], body: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    encoded = orjson.dumps(header)
    return b"".join((_LENGTHS.pack(len(encoded), len(body)), encoded, body))


def read_frame(read: Callable[[int], bytes]) -> tuple[dict[str, Any], bytes]:
    """Return the next frame. ``read`` returns exactly the requested number of bytes, or raises EOFError."""
    header_bytes, body_bytes = _LENGTHS.unpack(read(_LENGTHS.size))
    if header_bytes + body_bytes > LARGEST_FRAME:
        raise BrokenFrame("a frame is too large")
    header = orjson.loads(read(header_bytes))
    if not isinstance(header, dict):
        raise BrokenFrame("a header is no object")
    return header, read(body_bytes)


def own_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return the pipes of this process for requests and answers; output of libraries is discarded, so that it does not
    corrupt frames."""
    requests, answers = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    return os.fdopen(requests, "rb"), os.fdopen(answers, "wb")


def read_exactly(stream: BinaryIO, count: int) -> bytes:
    """Return so many bytes of a stream. Raises EOFError if it ends before."""
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data
