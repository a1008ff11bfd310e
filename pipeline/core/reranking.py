"""What a reranker's scores do to an order, and how much better the order became for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.core.hits import Hit


def rerank(hits: Sequence[Hit], scores: Mapping[str, float], *, weight: float) -> list[Hit]:
    """Reorder the hits that were read, best first; the others stay behind them as they were.

    A hit that was read scores ``(1 - weight) * score / best score + weight * rerank``: with a small weight only
    near-ties change places. Equal scores keep the order there was.
    """
    best = max((hit.score for hit in hits), default=0.0) or 1.0
    placed = [replace(hit, from_rank=place) for place, hit in enumerate(hits, start=1)]
    read = [
        replace(
            hit,
            score=(1 - weight) * hit.score / best + weight * scores[hit.chunk_id],
            rerank=scores[hit.chunk_id],
        )
        for hit in placed
        if hit.chunk_id in scores
    ]
    read.sort(key=lambda hit: (-hit.score, hit.from_rank))
    floor = read[-1].score if read else math.inf
    return read + [replace(hit, score=min(hit.score, floor)) for hit in placed if hit.chunk_id not in scores]


def rerank_lift(order: Sequence[Hit], *, top_k: int) -> float | None:
    """How much the first ``top_k`` places gained by the reranker's own judgement: the ratio of the discounted gains
    ``sum(score / log2(place + 1))`` after and before, minus 1. None when nothing was read or nothing scored."""
    read = [hit for hit in order if hit.rerank is not None]
    after = _gain([hit.rerank or 0.0 for hit in read[:top_k]])
    before = _gain([hit.rerank or 0.0 for hit in sorted(read, key=lambda hit: hit.from_rank)[:top_k]])
    return after / before - 1 if before > 0 else None


def _gain(scores: Sequence[float]) -> float:
    return sum(score / math.log2(place + 1) for place, score in enumerate(scores, start=1))
