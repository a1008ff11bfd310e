"""Which of the ordered hits are returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pipeline.query.plan import Plan
from pipeline.ranking.diversity import diversified
from pipeline.ranking.grades import graded
from pipeline.ranking.hits import Drop, Hit
from pipeline.records import ChannelName

# How many hits diversity has for each place it fills. What stands further down is too far behind to be worth a place.
CHOICE = 3


def select(hits: Sequence[Hit], plan: Plan) -> tuple[list[Hit], list[Drop]]:
    """Up to ``top_k`` hits, and every one that is left out with the number it had and the one it needed.

    In this order: confidence below ``score_threshold``; graded (X9: before the cut, or there is never anything to choose from);
    beyond ``per_document`` of one document; diversity, or equal shares of the channels under balanced allocation, or
    the first ``top_k`` as they stand.
    """
    how = plan.retrieve.selection
    limit = plan.retrieve.score_threshold
    kept = [hit for hit in hits if hit.confidence >= limit]
    dropped = [
        Drop(
            chunk_id=hit.chunk_id, stage="threshold", reason="below_score_threshold", value=hit.confidence, limit=limit
        )
        for hit in hits
        if hit.confidence < limit
    ]
    if how.quality is not None:
        kept, poor = graded(kept, how.quality)
        dropped += poor
    if how.per_document is not None:
        kept, crowded = capped(kept, how.per_document)
        dropped += crowded
    if how.diversity > 0:
        chosen = diversified(kept[: CHOICE * plan.top_k], diversity=how.diversity, top_k=plan.top_k)
    elif plan.retrieve.allocation == "balanced":
        chosen = balanced(kept, plan.top_k)
    else:
        chosen = kept[: plan.top_k]
    if len(chosen) < len(kept):
        returned = {hit.chunk_id for hit in chosen}
        dropped += [
            Drop(
                chunk_id=hit.chunk_id,
                stage="select",
                reason="too_alike" if place <= plan.top_k else "beyond_top_k",
                value=place,
                limit=plan.top_k,
            )
            for place, hit in enumerate(kept, start=1)
            if hit.chunk_id not in returned
        ]
    return chosen, dropped


def balanced(hits: Sequence[Hit], top_k: int) -> list[Hit]:
    """Choose ``top_k`` hits in the order they had: of each channel that recalled any its best ``top_k // channels`` by its
    own rank, then the best of all. No channel has a share of fewer places than there are channels."""
    ranked: dict[ChannelName, list[tuple[int, Hit]]] = {}
    for hit in hits:
        for part in hit.fused.contributions:
            if part.rank is not None:
                ranked.setdefault(part.channel, []).append((part.rank, hit))
    share = top_k // len(ranked) if ranked else 0
    shared = {
        hit.chunk_id
        for of_channel in ranked.values()
        for _, hit in sorted(of_channel, key=lambda place: place[0])[:share]
    }
    rest = [hit.chunk_id for hit in hits if hit.chunk_id not in shared]
    chosen = shared.union(rest[: max(0, top_k - len(shared))])
    return [hit for hit in hits if hit.chunk_id in chosen]


def capped(hits: Sequence[Hit], per_document: int) -> tuple[list[Hit], list[Drop]]:
    """The first ``per_document`` hits of each document, in the order they had."""
    taken: Counter[tuple[str, str]] = Counter()
    kept, dropped = [], []
    for hit in hits:
        document = (hit.passage.namespace, hit.passage.document_id)
        taken[document] += 1
        if taken[document] <= per_document:
            kept.append(hit)
        else:
            dropped.append(
                Drop(
                    chunk_id=hit.chunk_id,
                    stage="select",
                    reason="beyond_per_document",
                    value=taken[document],
                    limit=per_document,
                )
            )
    return kept, dropped
