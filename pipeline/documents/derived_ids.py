"""Ids of documents that are derived from a name and a hash."""

from __future__ import annotations

LONGEST_ID = 64  # characters


def with_hash(name: str, digest: bytes, digits: int) -> str:
    """Return a name that ends in ``~`` and the first hexadecimal digits of a hash, not longer than an id may be."""
    tail = "~" + digest.hex()[:digits]
    return name[: LONGEST_ID - len(tail)].rstrip() + tail
