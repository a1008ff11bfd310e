"""How queries and answers are stored: as JSON in the format zlib, which HTTP calls `deflate`."""

import zlib
from typing import Final

_FASTEST: Final = 1
_HEAD: Final = b"\x78\x01"  # of what `compressed` returns; no JSON begins with it


def compressed(document: bytes) -> bytes:
    """Return JSON as it is stored."""
    return zlib.compress(document, _FASTEST)


def is_compressed(value: bytes) -> bool:
    """Return whether a value is as `compressed` returns it."""
    return value.startswith(_HEAD)


def decompressed(value: bytes) -> bytes:
    """Return a stored value as JSON."""
    return zlib.decompress(value)
