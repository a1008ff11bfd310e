"""Limits on the structure of JSON, checked on the bytes before parsing: one byte may become 60 bytes of objects, so a
limit on bytes does not bound a body's cost."""

from itertools import chain
from typing import Any, Final

import orjson

MOST_VALUES: Final = 1_000_000  # per text: members, array elements, objects and arrays; 10,000 documents have 100 each
MOST_MEMBERS: Final = 10_000  # per object; metadata of 16 KiB has at most a fourth of this
DEEPEST: Final = 512  # levels of nested objects and arrays
_BLOCK: Final = 1024 * 1024  # bytes counted in one step


class TooComplex(ValueError):
    """A text exceeds a limit: ``limit``, called ``name``."""

    def __init__(self, name: str, limit: int, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name
        self.limit = limit


def require_few_values(text: bytes, *, most: int = MOST_VALUES) -> bool:
    """Check the number of values in a JSON text without parsing, in linear time. Return whether the parsed value must
    also pass `require_shape`. Raises TooComplex."""
    containers = text.count(b"{") + text.count(b"[")
    separators = text.count(b",")
    if containers + separators >= most:
        _count_outside_strings(text, most)
    return containers > DEEPEST or separators >= MOST_MEMBERS


def require_shape(value: Any) -> None:
    """Check the members of each object and the depth. Raises TooComplex."""
    level = [value] if isinstance(value, dict | list) else []
    depth = 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise TooComplex("json_depth", DEEPEST, f"is nested more than {DEEPEST} levels deep")
        if any(isinstance(container, dict) and len(container) > MOST_MEMBERS for container in level):
            raise TooComplex("json_members", MOST_MEMBERS, f"has an object of more than {MOST_MEMBERS} members")
        values = chain.from_iterable(item.values() if isinstance(item, dict) else item for item in level)
        level = [value for value in values if isinstance(value, dict | list)]


def loads(text: bytes) -> Any:
    """Return the value of a JSON text that keeps every limit. Raises orjson.JSONDecodeError and TooComplex."""
    intricate = require_few_values(text)
    value = orjson.loads(text)
    if intricate:
        require_shape(value)
    return value


def _count_outside_strings(text: bytes, most: int) -> None:
    """Count exactly, block by block so that other threads can run, outside of strings. Raises TooComplex."""
    values, inside, start = 1, 0, 0
    while start < len(text):
        block = text[start : start + _BLOCK]
        if (len(block) - len(block.rstrip(b"\\"))) % 2:  # keep an escaped character in the block of its backslash
            block = text[start : start + len(block) + 1]
        start += len(block)
        pieces = block.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')
        structure = b"".join(pieces[inside::2])
        inside = (inside + len(pieces) - 1) % 2
        values += structure.count(b",") + structure.count(b"{") + structure.count(b"[")
        if values > most:
            raise TooComplex("json_values", most, f"has more than {most} values")
