"""Vector stores, their files with status, and the ids of both."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from pipeline.records import Chunking

Status = Literal["in_progress", "completed", "failed", "cancelled"]
STATUSES: tuple[Status, ...] = ("in_progress", "completed", "failed", "cancelled")
_ID_DIGITS = 12  # of the time in an id: milliseconds since the epoch, hexadecimal


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPosition:
    """A position in a list by time: the entries after it or, if ``backwards``, the last ones before it."""

    at: datetime
    name: str
    backwards: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """A file of a namespace. ``error_code``, ``error_detail`` and ``failure`` (the party at fault) only if it failed."""

    document_id: str
    namespace: str
    filename: str
    status: Status
    attributes: Mapping[str, Any]
    chunking: Chunking | None
    body_bytes: int
    created_at: datetime
    error_code: str | None = None
    error_detail: str | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The number of files of a namespace, or of a job, by status, and the bytes of the searchable ones."""

    counts: Mapping[Status, int] = field(default_factory=dict)
    body_bytes: int = 0

    def of(self, status: Status) -> int:
        """Return the number of files of this status."""
        return self.counts.get(status, 0)

    @property
    def total(self) -> int:
        """The number of files."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStore:
    """A namespace as a vector store. ``expires_after_days``: its lifetime after the last use."""

    namespace: str
    name: str
    description: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    expires_after_days: int | None = None
    created_at: datetime
    last_active_at: datetime
    expires_at: datetime | None = None

    def has_expired(self, at: datetime) -> bool:
        """Return whether it has expired at a moment."""
        return self.expires_at is not None and self.expires_at <= at


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file without its bytes. ``declared_type``: the media type that its sender stated."""

    file_id: str
    filename: str
    purpose: str
    declared_type: str | None
    body_bytes: int
    created_at: datetime
    expires_at: datetime | None = None


def new_id(prefix: str) -> str:
    """Return a new random id that contains its time, so that it is a position in a list even after its object is gone."""
    return f"{prefix}{time.time_ns() // 1_000_000:0{_ID_DIGITS}x}{secrets.token_hex(10)}"


def made_at(prefix: str, identifier: str) -> datetime | None:
    """Return the time in an id of `new_id`; None for other ids."""
    digits = identifier.removeprefix(prefix)
    if not identifier.startswith(prefix) or len(digits) != _ID_DIGITS + 20:
        return None
    try:
        return datetime.fromtimestamp(int(digits[:_ID_DIGITS], 16) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
