"""The last look at a hit before it counts: is it what the query asked for, and is it whole?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pipeline.filters.conditions import holds
from pipeline.ranking.fusion import Fused
from pipeline.ranking.hits import Hydrated
from pipeline.records import ChannelName, DocumentFields, Filters

# Vectors are kept in half precision, so that a cosine may come out this far beyond 1.
_ROUNDING = 5e-3


def unmet(filters: Filters, fields: DocumentFields) -> str | None:
    """The first filter that these fields do not satisfy, None if they satisfy all: what every channel was to see to,
    by the fields as the system of record has them now.

    A value of ``metadata`` is also met by what contains it, as in both databases.
    """
    if filters.type is not None and fields.type != filters.type:
        return "type"
    if filters.author is not None and fields.author != filters.author:
        return "author"
    if not set(filters.tags) <= set(fields.tags):
        return "tags"
    if not _contains(fields.metadata, filters.metadata):
        return "metadata"
    if filters.where is not None and not holds(filters.where, fields.metadata):
        return "where"
    if filters.start is not None and (fields.published_at is None or _utc(fields.published_at) < _utc(filters.start)):
        return "start"
    if filters.end is not None and (fields.published_at is None or _utc(fields.published_at) > _utc(filters.end)):
        return "end"
    has_both = filters.story_time is not None and fields.story_time is not None
    if has_both and fields.story_time > filters.story_time:  # type: ignore[operator]  # both are known
        return "story_time"
    return None


def flaw(fused: Fused, passage: Hydrated) -> tuple[str, float | None] | None:
    """What is wrong with a hit that cannot be shown, and the number that is; None for nearly all of them.

    It needs a text, the ids it is known by, and scores that can be: a similarity is at most 1, and at least -1, which is
    shown as it is and counts as none.
    """
    if not passage.text or passage.text.isspace():
        return "empty_text", None
    if not (passage.chunk_id and passage.document_id and passage.namespace):
        return "incomplete_metadata", None
    if not math.isfinite(fused.score):
        return "impossible_score", fused.score
    for part in fused.contributions:
        if part.channel == ChannelName.SEMANTIC and part.score is not None and not abs(part.score) <= 1 + _ROUNDING:
            return "impossible_similarity", part.score
    return None


def _contains(held: Any, wanted: Any) -> bool:
    """Whether ``held`` has what is asked for: an object every key of it, a list every entry, and either one value."""
    if isinstance(wanted, Mapping):
        return isinstance(held, Mapping) and all(
            name in held and _contains(held[name], wanted[name]) for name in wanted
        )
    if isinstance(wanted, list | tuple):
        return isinstance(held, list | tuple) and all(any(_contains(entry, one) for entry in held) for one in wanted)
    if isinstance(held, list | tuple):
        return any(_contains(entry, wanted) for entry in held)
    return bool(held == wanted) and isinstance(held, bool) == isinstance(wanted, bool)


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
