"""Rerank the best hits by their text, drop weak ones, and measure the gain."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from pipeline.errors import PipelineError
from pipeline.query.plan import RetrievePlan
from pipeline.ranking.hits import Drop, Hit
from pipeline.ranking.rerank_bound import bounded_scores
from pipeline.records import Candidate, ChunkId, Filters
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived, Journal
from pipeline.retrieval.ask_channels import RESERVE_S
from pipeline.retrieval.measure import charge_model
from pipeline.tenants.usage import Purpose

log = structlog.get_logger(__name__)

_DAY_S = 86_400


def rerank_hits(arrived: Arrived, hits: Sequence[Hit], use: Resources) -> list[Hit]:
    """Return the hits ordered by the reranker's scores; in their fused order when it fails or is late."""
    scores, weight = _scores(arrived, hits, use) if arrived.query.plan.rerank.enabled and hits else ({}, 0.0)
    if scores:
        arrived.journal.rerank_weight = weight
    return arrived.journal.step("rerank", rerank(hits, scores, weight=weight if scores else 0.0))


def _scores(arrived: Arrived, hits: Sequence[Hit], use: Resources) -> tuple[dict[str, float], float]:
    """Return the reranker's scores by chunk, none if it failed or was late, and their weight."""
    query, plan, journal = arrived.query, arrived.query.plan.rerank, arrived.journal
    started = time.perf_counter()
    provider = use.settings.reranker_for(plan.provider)
    if plan.provider not in ("auto", provider):
        detail = f"no reranker of kind {plan.provider} is configured; the {provider} one read the hits"
        journal.lost("rerank", "reranker_not_configured", detail)
    candidates = [_candidate(hit) for hit in hits[: plan.top_n]]
    deadline = arrived.query.deadline.before(RESERVE_S)
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
        if missing := len(candidates) - len(scores):
            detail = f"{missing} of {len(candidates)} hits got no rerank score and follow the others"
            journal.lost("rerank", "partly_reranked", detail)
        if provider == "llm":
            scores = _within_bound(journal, hits, scores)
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


def _within_bound(journal: Journal, hits: Sequence[Hit], scores: Mapping[str, float]) -> dict[str, float]:
    """Return the scores of a language model, those bounded that depart far from the channels; `stats` names them."""
    bounded, far = bounded_scores(hits, scores)
    if far:
        log.warning("rerank_scores_bounded", chunk_ids=far)
        remark = (
            f"the language model scored {len(far)} hits far above their ranks in every channel; the scores were bounded"
        )
        journal.remarks.append(f"{remark}: {', '.join(far)}")
    return bounded


def _candidate(hit: Hit) -> Candidate:
    kind = hit.passage.metadata.get("type")
    return Candidate(
        chunk_id=ChunkId(hit.chunk_id),
        title=hit.passage.title,
        text=hit.passage.text,
        published_at=hit.passage.published_at,
        type=kind if isinstance(kind, str) else None,
    )


def rerank(hits: Sequence[Hit], scores: Mapping[str, float], *, weight: float) -> list[Hit]:
    """Reorder the hits with a rerank score, best first; the others stay behind them in their order. A weight of 0 keeps
    the order and the scores of all hits.

    A scored hit gets ``(1 - weight) * score + weight * best * rerank``, where ``best`` is the highest score before:
    with a small weight only near-ties change ranks, and no rerank score makes a weak result look strong. Equal scores
    keep their order.
    """
    best = max((hit.score for hit in hits), default=0.0)
    placed = [replace(hit, from_rank=rank) for rank, hit in enumerate(hits, start=1)]
    if weight == 0:
        return [replace(hit, rerank=scores.get(hit.chunk_id)) for hit in placed]
    read = [
        replace(hit, score=(1 - weight) * hit.score + weight * best * scores[hit.chunk_id], rerank=scores[hit.chunk_id])
        for hit in placed
        if hit.chunk_id in scores
    ]
    read.sort(key=lambda hit: (-hit.score, hit.from_rank))
    floor = read[-1].score if read else math.inf
    return read + [replace(hit, score=min(hit.score, floor)) for hit in placed if hit.chunk_id not in scores]


def passing(hits: Sequence[Hit], *, threshold: float | None, min_results: int) -> tuple[list[Hit], list[Drop]]:
    """Return the hits that reach ``threshold``, in the order given, and a Drop for every other one.

    A hit without a rerank score does not reach it. If fewer than ``min_results`` hits reach it, the best of the scored
    hits fill up, then the first of the unscored ones. If no hit has a score, because reranking failed or is off, all
    pass.
    """
    if threshold is None or all(hit.rerank is None for hit in hits):
        return list(hits), []
    below = [hit for hit in hits if hit.rerank is None or hit.rerank < threshold]
    missing = max(0, min_results - (len(hits) - len(below)))
    best = sorted(below, key=lambda hit: (hit.rerank is None, -(hit.rerank or 0.0)))[:missing]
    going = {hit.chunk_id for hit in below} - {hit.chunk_id for hit in best}
    dropped = [
        hit.as_drop("rerank", "not_reranked" if hit.rerank is None else "below_rerank_threshold", hit.rerank, threshold)
        for hit in hits
        if hit.chunk_id in going
    ]
    return [hit for hit in hits if hit.chunk_id not in going], dropped


def wishes(retrieve: RetrievePlan, filters: Filters) -> str:
    """Return the preferences for recency and type in the language of the rerank prompt; empty without any."""
    phrases = []
    decay = retrieve.time_decay
    if decay is not None and decay.by == "published_at" and decay.shape == "half_life":
        phrases.append(f"越新越好，每过 {decay.half_life_days:g} 天价值减半")
    elif decay is not None and decay.by == "published_at":
        phrases.append(f"越新越好，{decay.scale / _DAY_S:g} 天以内算新")
    if filters.start is not None:
        phrases.append(f"不早于 {filters.start.date().isoformat()}")
    if filters.end is not None:
        phrases.append(f"不晚于 {filters.end.date().isoformat()}")
    if filters.type is not None:
        phrases.append(f"文档类型：{filters.type}")
    return "；".join(phrases)


def rerank_lift(order: Sequence[Hit], *, top_k: int) -> float | None:
    """Return the gain of the first ``top_k`` ranks by the reranker's own scores: the ratio of the discounted gains
    ``sum(score / log2(rank + 1))`` after and before, minus 1. None if nothing was scored.

    Both sums are over the same scored hits in their two orders, so a reranker that returns few hits gains nothing by
    it. Measured before any threshold, because dropping hits is no gain. It shows how much the order follows the
    reranker; only human judgments show whether that was right (`chordwise eval`).
    """
    read = [hit for hit in order if hit.rerank is not None]
    after = _gain([hit.rerank or 0.0 for hit in read[:top_k]])
    before = _gain([hit.rerank or 0.0 for hit in sorted(read, key=lambda hit: hit.from_rank)[:top_k]])
    return after / before - 1 if before > 0 else None


def _gain(scores: Sequence[float]) -> float:
    return sum(score / math.log2(rank + 1) for rank, score in enumerate(scores, start=1))
