"""Turn fused and hydrated hits into the chunks of an answer, in the shape of the contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pipeline.answer.result import AnswerChunk, HitSource, RerankMove, UnderstoodQuery
from pipeline.filters.hit_conditions import as_sent
from pipeline.query.request import Envelope, Query, Understanding, filters_as_sent
from pipeline.ranking.fusion import Contribution
from pipeline.ranking.hits import Hit
from pipeline.records import ChannelName


def answer_chunks(hits: Sequence[Hit], *, envelopes: Mapping[ChannelName, Envelope]) -> tuple[AnswerChunk, ...]:
    """Return the chunks of the answer, in order."""
    return tuple(_chunk(hit, envelopes) for hit in hits)


def understood(query: Query) -> UnderstoodQuery:
    """Return the query as it was understood, for confirmation."""
    plan = query.plan
    understanding = query.understanding or Understanding(route=plan.retrieve.method)
    return UnderstoodQuery(
        query_text=query.query_text,
        namespaces=query.namespaces,
        top_k=query.top_k,
        filters=filters_as_sent(query.filters) | (as_sent(query.conditions) if query.conditions else {}),
        method=plan.retrieve.method,
        channels=tuple(query.channels),
        strategy=plan.retrieve.fusion.strategy,
        enable_expand=plan.understand.enabled,
        enable_rerank=plan.rerank.enabled,
        route=understanding.route,
        rewritten=understanding.rewritten,
        keywords=understanding.keywords,
        entities=understanding.entities,
    )


def source_share(chunks: Sequence[AnswerChunk]) -> dict[str, float]:
    """Return the share of the chunks that each channel brought, by the strongest channel of each chunk."""
    counted = Counter(chunk.source for chunk in chunks)
    return {source: round(count / len(chunks), 4) for source, count in sorted(counted.items())}


def _chunk(hit: Hit, envelopes: Mapping[ChannelName, Envelope]) -> AnswerChunk:
    fused, hydrated = hit.fused, hit.passage
    strongest = max(fused.contributions, key=_strength)
    sources = tuple(HitSource(**part._asdict()) for part in fused.contributions)
    return AnswerChunk(
        chunk_id=hydrated.chunk_id,
        document_id=hydrated.document_id,
        namespace=hydrated.namespace,
        title=hydrated.title,
        text=hydrated.text,
        metadata=hydrated.metadata,
        score=hit.score,
        confidence=round(hit.confidence, 4),
        source=strongest.channel,
        sources=sources,
        reason=_reason(sources, fused.feedback, hit, envelopes),
        rerank=None if hit.rerank is None else RerankMove(score=hit.rerank, from_rank=hit.from_rank),
        decay=hit.decay,
        feedback=round(fused.feedback, 6),
    )


def _reason(sources: Sequence[HitSource], feedback: float, hit: Hit, envelopes: Mapping[ChannelName, Envelope]) -> str:
    parts = []
    for source in sources:
        envelope = envelopes.get(ChannelName(source.channel))
        total = len(envelope.chunk_ids) if envelope else 0
        rank = f"{source.rank} of {total}" if source.rank else "not recalled, scored afterwards"
        parts.append(f"{source.channel}: {rank}")
    if feedback:
        parts.append(f"{feedback:+.3f} from the candidates like it")
    if hit.decay is not None:
        parts.append(f"age left {hit.decay:.3f} of its score")
    if hit.duplicates:
        parts.append(f"stands for {len(hit.duplicates)} more that are the same")
    if hit.likeness is not None:
        parts.append(f"{hit.likeness:.2f} like what stands above it")
    if hit.rerank is not None:
        parts.append(f"reranked from place {hit.from_rank}")
    return "; ".join(parts)


def _strength(part: Contribution) -> tuple[float, bool, int]:
    """Return the sort key of a channel's part in a hit: its contribution, or its rank where a custom fusion gives none."""
    return part.contribution or 0.0, part.rank is not None, -(part.rank or 0)
