"""The last resort: the queries that get it, and its chunks."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Literal

from pipeline.answer.result import AnswerChunk, HitSource
from pipeline.query.plan import FallbackPlan
from pipeline.ranking.hits import Hydrated
from pipeline.records import ChannelName, TenantId

Reason = Literal["empty", "below_threshold"]
Kind = Literal["faq", "hint"]

MOST_ANSWERS = 3  # curated answers that are given at most: a last resort is no second list of results

_HINTS = uuid.UUID("c0a9c1d4-53c8-4f0e-8a36-2b1a0a54b0c9")  # under which the ids of hints are derived

_WORDS: dict[Reason, str] = {"empty": "nothing was found", "below_threshold": "nothing sure enough was found"}


def reason_for(plan: FallbackPlan, chunks: Sequence[AnswerChunk]) -> Reason | None:
    """Return why an answer gets the last resort: it is empty, or no chunk has a confidence of ``threshold``. None if it
    does not need one, or none is configured."""
    if not plan.enabled or not (plan.faq or plan.hint):
        return None
    if not chunks:
        return "empty"
    return "below_threshold" if max(chunk.confidence for chunk in chunks) < plan.threshold else None


def hint_passage(text: str, *, tenant_id: TenantId, namespace: str) -> Hydrated:
    """Return the hint for people as a passage with a stable id."""
    chunk_id = str(uuid.uuid5(_HINTS, f"{tenant_id}\x1f{text}"))
    return Hydrated(
        chunk_id=chunk_id,
        document_id="fallback-hint",
        namespace=namespace,
        title=None,
        text=text,
        metadata={"fallback": "hint"},
    )


def fallback_chunk(
    passage: Hydrated, kind: Kind, reason: Reason, *, score: float, rank: int, below: float
) -> AnswerChunk:
    """Return a last-resort chunk. ``confidence`` is its own score; ``score``, which orders the answer, is at most
    ``below``, the score of the chunk before it."""
    source = "a curated answer" if kind == "faq" else "a hint"
    capped_score = min(score, below)
    return AnswerChunk(
        chunk_id=passage.chunk_id,
        document_id=passage.document_id,
        namespace=passage.namespace,
        title=passage.title,
        text=passage.text,
        metadata=passage.metadata,
        score=capped_score,
        confidence=round(score, 4),
        source=ChannelName.FALLBACK.value,
        sources=(
            HitSource(
                channel=ChannelName.FALLBACK.value, rank=rank, score=score, normalized=None, contribution=capped_score
            ),
        ),
        reason=f"fallback: {source}, because {_WORDS[reason]}",
        rerank=None,
    )


def with_room(chunks: Sequence[AnswerChunk], more: Sequence[AnswerChunk], *, top_k: int) -> tuple[AnswerChunk, ...]:
    """Return recalled chunks, then last-resort ones. The last of the recalled chunks make room, so that at most
    ``top_k`` are returned."""
    given = list(more)[:top_k]
    return (*list(chunks)[: top_k - len(given)], *given)


def fallback_label(kinds: Sequence[Kind], reason: Reason) -> str | None:
    """Return ``stats.fallback``: ``faq:empty``, ``faq+hint:below_threshold``; None if the last resort gave nothing."""
    return f"{'+'.join(dict.fromkeys(kinds))}:{reason}" if kinds else None
