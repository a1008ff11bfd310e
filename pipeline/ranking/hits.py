"""A hit after fusion, as the later stages receive and return it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline.distances import MEASURES
from pipeline.filters.python_filters import fields_named
from pipeline.ranking.fusion import Fused


@dataclass(frozen=True, slots=True, kw_only=True)
class Hydrated:
    """A hit's passage with its text, from the store or from the channel that supplied it."""

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
    """A hit in its present order. ``score`` orders; each stage that changes it has a field of its own.

    ``confidence``: the probability that it is relevant (`ranking.confidence`), None where nothing can be told. ``decay``:
    the share of the fused score that age leaves. ``rerank``: the reranker's score, None if it did not read this hit.
    ``from_rank``: the rank before reranking, from 1. ``duplicates``: the hits merged into this one. ``likeness``: the
    similarity to the hits above it, where diversity is on.
    """

    fused: Fused
    passage: Hydrated
    score: float
    confidence: float | None = 0.0
    decay: float | None = None
    rerank: float | None = None
    from_rank: int = 0
    duplicates: tuple[str, ...] = ()
    likeness: float | None = None

    @property
    def chunk_id(self) -> str:
        """The id of its chunk."""
        return self.fused.chunk_id

    @property
    def document(self) -> tuple[str, str]:
        """The namespace and the id of its document."""
        return self.passage.namespace, self.passage.document_id

    def as_drop(self, stage: str, reason: str, value: float | None, limit: float | None) -> Drop:
        """Return the record of a stage that drops this hit."""
        return Drop(chunk_id=self.chunk_id, stage=stage, reason=reason, value=value, limit=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A candidate that a stage dropped: the rule, the candidate's number, and the number it needed."""

    chunk_id: str
    stage: str
    reason: str
    value: float | None = None
    limit: float | None = None


def fields_of(hit: Hydrated) -> dict[str, Any]:
    """Return the fields that conditions apply to: the hit's metadata as the answer shows it, its title and its ids."""
    return fields_named(
        hit.metadata, title=hit.title, document_id=hit.document_id, chunk_id=hit.chunk_id, namespace=hit.namespace
    )


def cosine_of(score: float, zero: float | None) -> float:
    """Return the cosine of two unit vectors from their score. A ``zero`` above 0 says that the score is
    ``1 / (1 + distance)`` of the euclidean distance d, and the cosine is ``1 - d² / 2``."""
    if zero != MEASURES["euclidean"].orthogonal or score <= 0:
        return score
    return 1 - (1 / score - 1) ** 2 / 2
