"""A hit on its way from fusion to the answer: what every stage after fusion takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline.filters.hit_conditions import fields_named
from pipeline.ranking.fusion import Fused


@dataclass(frozen=True, slots=True, kw_only=True)
class Hydrated:
    """A hit's passage with its text, as the store gave it, or the channel that brought it."""

    chunk_id: str
    document_id: str
    namespace: str
    title: str | None
    text: str
    heading_path: tuple[str, ...] = ()
    published_at: datetime | None = None
    updated_at: datetime | None = None
    story_time: int | None = None
    metadata: Mapping[str, Any]
    parent_id: str | None = None
    window: int = 0
    chunk_type: str | None = None
    chapter_id: str | None = None
    entity_names: tuple[str, ...] = ()
    page: int | None = None
    page_end: int | None = None
    start: int | None = None
    end: int | None = None
    source_uri: str | None = None
    reworded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A hit in its present place. ``score`` orders; each stage that changes it says how in a field of its own.

    ``confidence``: the probability that it is relevant (`ranking.confidence`). ``decay``: what age left of the fused
    score. ``rerank``: the reranker's score, None if it did not read this one. ``from_rank``: the place before reranking,
    from 1. ``duplicates``: the hits that were the same, and went into this one. ``likeness``: how like it is to what
    stands above it, where diversity was asked for.
    """

    fused: Fused
    passage: Hydrated
    score: float
    confidence: float = 0.0
    decay: float | None = None
    rerank: float | None = None
    from_rank: int = 0
    duplicates: tuple[str, ...] = ()
    likeness: float | None = None

    @property
    def chunk_id(self) -> str:
        """Which chunk."""
        return self.fused.chunk_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A candidate that a stage left out: the rule, the number it had, and the one it needed."""

    chunk_id: str
    stage: str
    reason: str
    value: float | None = None
    limit: float | None = None


def fields_of(hit: Hydrated) -> dict[str, Any]:
    """Return the fields that conditions apply to: the hit's metadata as the answer shows it, its title and its ids."""
    return fields_named(
        hit.metadata,
        title=hit.title,
        document_id=hit.document_id,
        chunk_id=hit.chunk_id,
        namespace=hit.namespace,
    )
