"""Check a hit before it counts: its fields meet the query's filters, and its data is complete."""

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
    """Return the first filter that these fields do not meet, None if they meet all. Checks the channels' filtering
    against the present fields in MySQL.

    A value of ``metadata`` is also met by a list that contains it, as in both databases.
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
    """Return the flaw of a hit that cannot be shown, and its number; None for nearly all hits.

    A hit needs a text, its ids, and possible scores: a similarity is at most 1 and at least -1; a negative one is shown
    and counts as none.
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
    """Return whether ``held`` contains ``wanted``: an object every key of it, a list every entry, and either a single
    value."""
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
