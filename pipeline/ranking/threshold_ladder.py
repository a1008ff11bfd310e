"""Lower a threshold on similarity step by step until enough hits reach it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.query.plan import LadderPlan
from pipeline.ranking.confidence import cosine_of
from pipeline.ranking.hits import Drop, Hit
from pipeline.records import ChannelName


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """The threshold at which the ladder ended. ``hits``: the number that reached it; ``enough``: whether they suffice."""

    threshold: float
    hits: int
    enough: bool


def similarity_of(hit: Hit, *, zero: float | None) -> float:
    """Return the similarity of a hit to the query, in [0, 1]: its cosine, or its confidence if the semantic channel did
    not score it. ``zero``: the semantic channel's score of an unrelated chunk."""
    for part in hit.fused.contributions:
        if part.channel == ChannelName.SEMANTIC and part.score is not None:
            return min(1.0, max(0.0, cosine_of(part.score, zero)))
    return hit.confidence


def stepped_down(
    hits: Sequence[Hit], plan: LadderPlan, *, top_k: int, zero: float | None = None, per_document: int | None = None
) -> tuple[list[Hit], list[Drop], Rung]:
    """Return the hits that reach the highest threshold which ``min_results`` of them reach (or ``top_k``, if less),
    else those that reach the lowest. Their order stays.

    Hits of one document count up to ``per_document``, because no more of them are returned.
    """
    similarity = {hit.chunk_id: similarity_of(hit, zero=zero) for hit in hits}
    wanted = min(plan.min_results, top_k)
    for threshold in plan.thresholds:
        kept = [hit for hit in hits if similarity[hit.chunk_id] >= threshold]
        if _returnable(kept, per_document) >= wanted:
            break
    below = (hit for hit in hits if similarity[hit.chunk_id] < threshold)
    dropped = [hit.drop("ladder", "below_similarity", similarity[hit.chunk_id], threshold) for hit in below]
    enough = _returnable(kept, per_document) >= wanted
    return kept, dropped, Rung(threshold=threshold, hits=len(kept), enough=enough)


def _returnable(hits: Sequence[Hit], per_document: int | None) -> int:
    if per_document is None:
        return len(hits)
    counted = Counter(hit.document for hit in hits)
    return sum(min(count, per_document) for count in counted.values())
