"""Opaque cursors: encoded positions in a list, which clients only pass back."""

import base64
import binascii
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

import orjson

from api_gateway.http.problems import Problem

T = TypeVar("T")


def encode(kind: str, *position: str | int | datetime) -> str:
    """Return the cursor after ``position`` in the list called ``kind``."""
    return base64.urlsafe_b64encode(orjson.dumps([kind, *position])).rstrip(b"=").decode()


def decode(cursor: str | None, kind: str, *types: type) -> tuple[Any, ...] | None:
    """Return the position in a cursor, None without a cursor. ``types`` are those of its parts: str, int, datetime, or
    UUID for the text of one. Raises Problem(422) for a cursor of another list."""
    if cursor is None:
        return None
    try:
        name, *parts = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        if name != kind or [type(part) for part in parts] != [int if one is int else str for one in types]:
            raise foreign()
        return tuple(_READ.get(one, one)(part) for one, part in zip(types, parts, strict=True))
    except (ValueError, TypeError, binascii.Error):
        raise foreign() from None


_READ: Final[dict[type, Callable[[str], Any]]] = {datetime: datetime.fromisoformat, UUID: lambda text: str(UUID(text))}


def foreign() -> Problem:
    """Return Problem(422) for a cursor of another list."""
    errors = [{"pointer": "/cursor", "in": "query", "detail": "is not a cursor that this list gave"}]
    return Problem(422, "invalid_cursor", "The cursor is not one that this list gave.", errors=errors)


def page(entries: Sequence[T], limit: int, cursor_of: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """Return one page of up to ``limit + 1`` entries, and the cursor of the next page if there is one."""
    if len(entries) <= limit:
        return entries, None
    return entries[:limit], cursor_of(entries[limit - 1])
