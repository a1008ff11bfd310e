"""Add curated answers and a contact hint where nothing, or nothing reliable, was found."""

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from chordwise.contract.answer import AnswerChunk, HitSource, sureness
from pipeline.channels.channel import Channel
from pipeline.query.channel_options import FaqOptions, options_of, searched_namespaces
from pipeline.query.plan import ChannelPlan, FallbackPlan
from pipeline.query.request import Query, Recalled, copied
from pipeline.ranking.hits import Drop, Hydrated
from pipeline.records import ChannelName, Filters, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.ask_channels import in_time
from pipeline.retrieval.load_text import read
from pipeline.threads import start_call

_RESERVE_S = 0.05  # reserved of the query's time for the steps after the fallback


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """The chunks after the fallback, the ``passages`` of those it added, and ``stats.fallback``."""

    chunks: tuple[AnswerChunk, ...]
    passages: Mapping[str, Hydrated] = field(default_factory=dict)
    given: str | None = None


def fall_back(
    arrived: Arrived,
    chunks: tuple[AnswerChunk, ...],
    use: Resources,
    channels: Mapping[ChannelName, Channel],
    *,
    hints: bool = True,
) -> Fallback:
    """Return the same chunks, unless the plan has a fallback and they are too few or too unsure; never for a query that
    was routed nowhere. Unavailable curated answers are a loss. ``hints`` is false where the search itself failed: a
    hint states that nothing was found."""
    query, journal = arrived.query, arrived.journal
    plan = query.plan.fallback
    reason = reason_for(plan, chunks)
    if reason is None or (query.understanding is not None and query.understanding.route is None):
        return Fallback(chunks=chunks)
    if not (plan.faq or plan.hint):
        return Fallback(chunks=chunks, given=NONE_CONFIGURED if hints else None)
    started = time.perf_counter()
    lowest = chunks[-1].score if chunks else 1.0
    more: list[AnswerChunk] = []
    passages: dict[str, Hydrated] = {}
    kinds: list[Kind] = []
    if plan.faq:
        curated = _answers(arrived, use, channels)[:MOST_ANSWERS]
        for rank, (passage, score) in enumerate(curated, start=1):
            more.append(fallback_chunk(passage, "faq", reason, score=score, rank=rank, below=lowest))
            passages[passage.chunk_id] = passage
            kinds.append("faq")
    if plan.hint and hints:
        passage = hint_passage(plan.hint, tenant_id=query.tenant_id, namespace=query.namespaces[0])
        more.append(fallback_chunk(passage, "hint", reason, score=0.0, rank=len(more) + 1, below=lowest))
        passages[passage.chunk_id] = passage
        kinds.append("hint")
    journal.took("fallback", started)
    # Return a curated answer below the threshold once, with its fallback score.
    others = [chunk for chunk in chunks if chunk.chunk_id not in passages]
    given = with_room(others, more, top_k=query.top_k)
    room = query.top_k - min(len(more), query.top_k)
    journal.dropped(
        Drop(chunk_id=chunk.chunk_id, stage="fallback", reason="made_room", value=position, limit=room)
        for position, chunk in enumerate(others[room:], start=room + 1)
    )
    return Fallback(chunks=given, passages=passages, given=fallback_label(kinds[: query.top_k], reason))


def _answers(arrived: Arrived, use: Resources, channels: Mapping[ChannelName, Channel]) -> list[tuple[Hydrated, float]]:
    """Return the best curated answers with their scores, best first; fewer, or none, where they are unavailable."""
    channel = channels.get(ChannelName.FAQ)
    deadline = arrived.query.deadline.before(_RESERVE_S)
    if channel is None or deadline.has_passed:
        arrived.journal.lost("fallback", "no_time", "there was no time to look for curated answers")
        return []
    query = _faq_query(arrived.query)
    deadline = deadline.at_most(query.timeout_ms_of(ChannelName.FAQ) / 1000)
    namespaces = searched_namespaces(options_of(FaqOptions, query.plan.channels[ChannelName.FAQ]), query.namespaces)

    def ask_pairs() -> tuple[Recalled, dict[str, Hydrated]]:
        recalled = channel.recall(query)
        return recalled, read(query, recalled.chunk_ids, namespaces, use) if recalled.chunk_ids else {}

    answers = in_time(
        start_call(ask_pairs),
        arrived,
        deadline=deadline,
        part="fallback",
        otherwise="curated answers could not be looked for",
        bug="fallback_bug",
    )
    if answers is None:
        return []
    recalled, texts = answers
    if recalled.guard and "lost" in recalled.guard:
        arrived.journal.lost("fallback", recalled.guard["lost"]["code"], recalled.guard["lost"]["detail"])
    pairs = zip(recalled.chunk_ids, recalled.scores, strict=True)
    return [(texts[chunk_id], score) for chunk_id, score in pairs if chunk_id in texts]


def _faq_query(query: Query) -> Query:
    """Return the query for the faq channel: in the fallback's namespaces, without filters and conditions."""
    plan = query.plan
    own = plan.retrieve.channels.get("faq", ChannelPlan())
    options = {"namespaces": list(plan.fallback.namespaces)} if plan.fallback.namespaces else dict(own.options)
    faq = replace(own, weight=1.0, options=options)
    retrieve = replace(plan.retrieve, method="hybrid", channels={**plan.retrieve.channels, "faq": faq})
    filters = Filters(readers=query.filters.readers)
    return replace(query, filters=filters, conditions=None, plan=replace(plan, retrieve=retrieve))


Reason = Literal["empty", "below_threshold"]
Kind = Literal["faq", "hint"]

NONE_CONFIGURED = "none_configured"  # an answer needed a last resort, and there is none
MOST_ANSWERS = 3  # curated answers that are given at most: a last resort is no second list of results

_HINTS = uuid.UUID("c0a9c1d4-53c8-4f0e-8a36-2b1a0a54b0c9")  # under which the ids of hints are derived

_WORDS: dict[Reason, str] = {"empty": "nothing was found", "below_threshold": "nothing sure enough was found"}


def reason_for(plan: FallbackPlan, chunks: Sequence[AnswerChunk]) -> Reason | None:
    """Return why an answer needs the last resort: it is empty, or no chunk has a confidence of ``threshold``. None if it
    does not, or if the plan has none."""
    if not plan.enabled:
        return None
    if not chunks:
        return "empty"
    return "below_threshold" if max(sureness(chunk.confidence) for chunk in chunks) < plan.threshold else None


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
    return copied(
        AnswerChunk,
        passage,
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
        decay=None,
        feedback=0.0,
    )


def with_room(chunks: Sequence[AnswerChunk], more: Sequence[AnswerChunk], *, top_k: int) -> tuple[AnswerChunk, ...]:
    """Return recalled chunks, then last-resort ones, for which the last recalled ones make room in ``top_k``."""
    given = list(more)[:top_k]
    return (*list(chunks)[: top_k - len(given)], *given)


def fallback_label(kinds: Sequence[Kind], reason: Reason) -> str | None:
    """Return ``stats.fallback``: ``faq:empty``, ``faq+hint:below_threshold``; None if the last resort gave nothing."""
    return f"{'+'.join(dict.fromkeys(kinds))}:{reason}" if kinds else None
