"""Reorder hits by rerank scores, drop weak ones, and measure the gain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.query.plan import RetrievePlan
from pipeline.ranking.hits import Drop, Hit
from pipeline.records import Filters

_DAY_S = 86_400


def rerank(hits: Sequence[Hit], scores: Mapping[str, float], *, weight: float) -> list[Hit]:
    """Reorder the hits with a rerank score, best first; the others stay behind them in their order.

    A scored hit gets ``(1 - weight) * score + weight * best * rerank``, where ``best`` is the highest score before:
    with a small weight only near-ties change ranks, and no rerank score makes a weak result look strong. Equal scores
    keep their order.
    """
    best = max((hit.score for hit in hits), default=0.0)
    placed = [replace(hit, from_rank=rank) for rank, hit in enumerate(hits, start=1)]
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
        hit.drop("rerank", "not_reranked" if hit.rerank is None else "below_rerank_threshold", hit.rerank, threshold)
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
