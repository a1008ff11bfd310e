"""What a reranker's scores do to an order, and how much better the order became for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A hit in its final place. ``from_rank`` counts from 1 in the order before; ``rerank`` is None if it was not read."""

    chunk_id: str
    score: float
    from_rank: int
    rerank: float | None = None


def rerank(fused: Sequence[tuple[str, float]], scores: Mapping[str, float], *, weight: float) -> list[Placed]:
    """Reorder the hits that were read, best first; the others stay behind them as they were.

    A hit that was read scores ``(1 - weight) * fused / best fused + weight * rerank``: with a small weight only
    near-ties change places. Equal scores keep the fused order.
    """
    places = {chunk_id: place for place, (chunk_id, _) in enumerate(fused, start=1)}
    best = max((score for _, score in fused), default=0.0) or 1.0
    read = [
        Placed(
            chunk_id=chunk_id,
            score=(1 - weight) * score / best + weight * scores[chunk_id],
            from_rank=places[chunk_id],
            rerank=scores[chunk_id],
        )
        for chunk_id, score in fused
        if chunk_id in scores
    ]
    read.sort(key=lambda hit: (-hit.score, hit.from_rank))
    floor = read[-1].score if read else math.inf
    rest = [
        Placed(chunk_id=chunk_id, score=min(score, floor), from_rank=places[chunk_id])
        for chunk_id, score in fused
        if chunk_id not in scores
    ]
    return read + rest


def rerank_lift(order: Sequence[Placed], *, top_k: int) -> float | None:
    """How much the first ``top_k`` places gained by the reranker's own judgement: the ratio of the discounted gains
    ``sum(score / log2(place + 1))`` after and before, minus 1. None when nothing was read or nothing scored."""
    read = [hit for hit in order if hit.rerank is not None]
    after = _gain([hit.rerank or 0.0 for hit in read[:top_k]])
    before = _gain([hit.rerank or 0.0 for hit in sorted(read, key=lambda hit: hit.from_rank)[:top_k]])
    return after / before - 1 if before > 0 else None


def _gain(scores: Sequence[float]) -> float:
    return sum(score / math.log2(place + 1) for place, score in enumerate(scores, start=1))
