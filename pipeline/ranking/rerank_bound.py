"""A bound for the scores of a reranker that reads instructions: a language model may obey a passage that asks for a score."""

from collections.abc import Mapping, Sequence
from typing import Final

from pipeline.ranking.hits import Hit

FEWEST: Final = 6  # hits; among fewer, a place near the end says little
FAR: Final = 0.15  # a departure that is bounded; below it, the reranker decides


def bounded_scores(hits: Sequence[Hit], scores: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    """Return the scores with those bounded that depart from every channel by far, and the chunk ids of these.

    ``hits`` are in fused order. A scored hit is *unsupported* if it is in the last third of the scored hits, and no channel
    has it in its own first third of them. If its score exceeds the best score of a supported hit by more than 0.15, it
    becomes that best score: the hit reaches that level, but does not pass it by its score. A hit that one channel ranks
    high, or that is in the first two thirds, may rise as far as the reranker says. Needs six scored hits, and the ranks of
    a channel.
    """
    read = [hit for hit in hits if hit.chunk_id in scores]
    third = len(read) // 3
    ranks = _ranks_by_channel(read)
    if len(read) < FEWEST or not ranks:
        return dict(scores), []
    high = {chunk_id for of_channel in ranks for chunk_id in sorted(of_channel, key=of_channel.__getitem__)[:third]}
    unsupported = {hit.chunk_id for hit in read[-third:]} - high
    best = max(scores[hit.chunk_id] for hit in read if hit.chunk_id not in unsupported)
    far = [hit.chunk_id for hit in read if hit.chunk_id in unsupported and scores[hit.chunk_id] > best + FAR]
    return {**scores, **dict.fromkeys(far, best)}, far


def _ranks_by_channel(read: Sequence[Hit]) -> list[dict[str, int]]:
    """Return for each channel the ranks of the hits that it found."""
    ranks: dict[str, dict[str, int]] = {}
    for hit in read:
        for contribution in hit.fused.contributions:
            if contribution.rank is not None:
                ranks.setdefault(contribution.channel, {})[hit.chunk_id] = contribution.rank
    return list(ranks.values())
