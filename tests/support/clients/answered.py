"""Records of the client as an answer gives them."""

from __future__ import annotations

from typing import Any, TypeVar

from chordwise.records import decode

T = TypeVar("T")


def answered(kind: type[T], **fields: Any) -> T:
    """Return the record that the client reads from an answer with these fields of JSON; others are empty."""
    return decode(kind, fields)
