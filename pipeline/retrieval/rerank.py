"""Rerank the best hits by their text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import structlog

from pipeline.errors import PipelineError
from pipeline.ranking.hits import Hit
from pipeline.ranking.rerank_order import rerank, wishes
from pipeline.records import Candidate, ChunkId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.charge_model import charge_model
from pipeline.retrieval.journal import Journal
from pipeline.tenants.usage import Purpose

log = structlog.get_logger(__name__)

# Reserved of a query's time for composing the answer after a reranker that uses all it has.
_RESERVE_S = 0.1


def rerank_hits(arrived: Arrived, hits: Sequence[Hit], use: Resources, journal: Journal) -> list[Hit]:
    """Return the hits ordered by the reranker's scores; in their fused order when it fails or is late."""
    scores, weight = _scores(arrived, hits, use, journal) if arrived.query.plan.rerank.enabled and hits else ({}, 0.0)
    if scores:
        journal.rerank_weight = weight
    ordered = rerank(hits, scores, weight=weight if scores else 0.0)
    journal.saw("rerank", ordered)
    return ordered


def _scores(arrived: Arrived, hits: Sequence[Hit], use: Resources, journal: Journal) -> tuple[dict[str, float], float]:
    """Return the reranker's scores by chunk, none if it failed or was late, and their weight."""
    query, plan = arrived.query, arrived.query.plan.rerank
    started = time.perf_counter()
    provider = use.settings.reranker_for(plan.provider)
    if plan.provider not in ("auto", provider):
        detail = f"no reranker of kind {plan.provider} is configured; the {provider} one read the hits"
        journal.lost("rerank", "reranker_not_configured", detail)
    candidates = [_candidate(hit) for hit in hits[: plan.top_n]]
    deadline = arrived.deadline.before(_RESERVE_S)
    scores: dict[str, float] = {}
    weight = 0.0
    try:
        if deadline.has_passed:
            raise TimeoutError  # before a reranker is created, which may take longer than all the rest
        reranker = use.rerankers.of(provider)
        weight = reranker.weight if plan.weight is None else plan.weight
        wanted = wishes(query.plan.retrieve, query.filters)
        options: dict[str, Any] = {"wishes": wanted} if wanted else {}
        if provider == "llm":
            options["counted"] = partial(charge_model, query.tenant_id, Purpose.RERANK, use)
        scores = reranker.rerank(
            query.query_text, candidates, timeout_s=deadline.within(plan.budget_ms / 1000), **options
        )
    except TimeoutError:
        journal.lost("rerank", "timeout", "reranking did not end in time; the fused order stands")
    except PipelineError as error:
        log.warning("rerank_failed", provider=provider, code=error.code, detail=str(error))
        journal.lost("rerank", error.code, "reranking failed; the fused order stands")
    except Exception as error:
        log.exception("reranker_bug", provider=provider, query_id=query.query_id)
        detail = f"reranking failed with an unexpected {type(error).__name__}; the fused order stands"
        journal.lost("rerank", "internal_error", detail)
    journal.took("rerank", started)
    return scores, weight


def _candidate(hit: Hit) -> Candidate:
    kind = hit.passage.metadata.get("type")
    return Candidate(
        chunk_id=ChunkId(hit.chunk_id),
        title=hit.passage.title,
        text=hit.passage.text,
        published_at=hit.passage.published_at,
        type=kind if isinstance(kind, str) else None,
    )
