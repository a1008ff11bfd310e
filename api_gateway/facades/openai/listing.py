"""Pages as this dialect has them: after an object, or before one, in the order of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Literal, TypeVar

from fastapi import Query as Parameter

from api_gateway.facades.openai.errors import wrong
from pipeline.stores.attachments import Place

T = TypeVar("T")

Order = Annotated[Literal["asc", "desc"], Parameter(description="By the time of creation; the newest first in `desc`.")]
Limit = Annotated[int, Parameter(ge=1, le=100, description="Entries per page.")]
After = Annotated[str | None, Parameter(max_length=64, description="The last entry of the page before.")]
Before = Annotated[str | None, Parameter(max_length=64, description="The first entry of the page after.")]
Filter = Annotated[
    Literal["in_progress", "completed", "failed", "cancelled"] | None,
    Parameter(description="Only those of this status."),
]


def place_of(after: str | None, before: str | None, position: Callable[[str], datetime | None]) -> Place | None:
    """The place that a request names. ``position`` says when an entry was made. Raises Problem for an entry that is
    unknown, or for two places."""
    if after is not None and before is not None:
        raise wrong("before", "cannot be given together with after")
    named, param = (after, "after") if after is not None else (before, "before")
    if named is None:
        return None
    found = position(named)
    if found is None:
        raise wrong(param, "is not the id of an entry of this list")
    return Place(at=found, name=named, backwards=param == "before")


def cut(entries: Sequence[T], limit: int, place: Place | None) -> tuple[Sequence[T], bool]:
    """One page out of up to ``limit + 1`` entries, and whether there are more the way it goes."""
    if len(entries) <= limit:
        return entries, False
    return (entries[1:] if place is not None and place.backwards else entries[:limit]), True
