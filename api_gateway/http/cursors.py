"""Opaque cursors: encoded positions in a list, which clients only pass back."""

import base64
import binascii
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import orjson

from api_gateway.http.problems import Problem

T = TypeVar("T")


def encode(kind: str, *position: str | int) -> str:
    """Return the cursor after ``position`` in the list called ``kind``."""
    return base64.urlsafe_b64encode(orjson.dumps([kind, *position])).rstrip(b"=").decode()


def decode(cursor: str | None, kind: str, *types: type[str] | type[int]) -> tuple[Any, ...] | None:
    """Return the position in a cursor, None without a cursor. Raises Problem(422) for a cursor of another list."""
    if cursor is None:
        return None
    try:
        decoded = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        raise foreign() from None
    if not isinstance(decoded, list) or decoded[:1] != [kind] or [type(value) for value in decoded[1:]] != [*types]:
        raise foreign()
    return tuple(decoded[1:])


def before(cursor: str | None, kind: str, *, is_uuid: bool = True) -> tuple[datetime, str] | None:
    """Return the time and id in a cursor of a list ordered by them, None without a cursor. Raises Problem(422)."""
    position = decode(cursor, kind, str, str)
    if position is None:
        return None
    try:
        return datetime.fromisoformat(position[0]), str(uuid.UUID(position[1])) if is_uuid else position[1]
    except ValueError:
        raise foreign() from None


def foreign() -> Problem:
    """Return Problem(422) for a cursor of another list."""
    errors = [{"pointer": "/cursor", "in": "query", "detail": "is not a cursor that this list gave"}]
    return Problem(422, "invalid_cursor", "The cursor is not one that this list gave.", errors=errors)


def page(entries: Sequence[T], limit: int, cursor_of: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """Return one page of up to ``limit + 1`` entries, and the cursor of the next page if there is one."""
    if len(entries) <= limit:
        return entries, None
    return entries[:limit], cursor_of(entries[limit - 1])
