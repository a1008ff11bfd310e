"""Hits for tests of what follows fusion, written as briefly as they can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from chordwise.contract.answer import AnswerChunk
from pipeline.ranking.fusion import Contribution, Fused
from pipeline.ranking.hits import Hit, Hydrated
from pipeline.records import ChannelName, ChunkId


def hit(
    chunk_id: str,
    score: float = 1.0,
    *,
    document: str | None = None,
    text: str | None = None,
    semantic: float | None = None,
    keyword: float | None = None,
    metadata: Mapping[str, Any] | None = None,
    published_at: datetime | None = None,
    updated_at: datetime | None = None,
    story_time: int | None = None,
    confidence: float | None = None,
) -> Hit:
    """A hit that channels gave these scores, each contributing half of its own; of a document of its own, with its
    score as its confidence."""
    given = {ChannelName.KEYWORD: keyword, ChannelName.SEMANTIC: semantic}
    contributions = tuple(
        Contribution(channel=channel, rank=1, score=given_score, normalized=given_score, contribution=given_score / 2)
        for channel, given_score in given.items()
        if given_score is not None
    )
    return Hit(
        fused=Fused(chunk_id=ChunkId(chunk_id), score=score, contributions=contributions),
        passage=Hydrated(
            chunk_id=chunk_id,
            document_id=document or f"document of {chunk_id}",
            namespace="n",
            title=None,
            text=text or f"text of {chunk_id}",
            published_at=published_at,
            updated_at=updated_at,
            story_time=story_time,
            metadata=metadata or {},
        ),
        score=score,
        confidence=score if confidence is None else confidence,
    )


def ids(hits: Sequence[Hit]) -> str:
    """The order of hits."""
    return " ".join(each.chunk_id for each in hits)


def answer_chunk(
    name: str, text: str, *, document_id: str = "d", title: str | None = None, **metadata: Any
) -> AnswerChunk:
    """Return a chunk as an answer holds it, brought by the keyword channel."""
    return AnswerChunk(
        chunk_id=name,
        document_id=document_id,
        namespace="n",
        title=title,
        text=text,
        metadata=metadata,
        score=0.5,
        confidence=0.5,
        source="keyword",
        sources=(),
        reason="",
        rerank=None,
        decay=None,
        feedback=0.0,
    )
