"""Score candidates by the share of the query that they hold, where a channel could not read the query."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from pipeline.ranking.fusion import Fused, Weights, as_fused, best_first
from pipeline.records import ChannelName, ChunkId

CONSIDERED: Final = 50  # best candidates, as many as `ranking.neighbours` reads


def coverage_share(planned: Weights, heard: Weights) -> float:
    """Return the share of all weight that channels lose because they could not read the query, in [0, 1].

    ``planned``: the weight of each channel that answered, by the plan; ``heard``: the same times its trust. 0 if the
    keyword channel does not count beside another one: words replace lost weight, but get none by themselves.
    """
    if len(planned) < 2 or not planned.get(ChannelName.KEYWORD):
        return 0.0
    total = math.fsum(planned.values())
    return min(1.0, max(0.0, 1 - math.fsum(heard.values()) / total))


def covered(fused: Sequence[Fused], coverage: Mapping[ChunkId, float], *, share: float) -> list[Fused]:
    """Replace ``share`` of the best candidates' scores by their coverage of the query; no candidate is added or lost.

    ``score' = (1 - share) * score + share * coverage``, the last part as a contribution of the keyword channel, so a
    score stays the sum of its parts and in [0, 1]. ``coverage``: by chunk, in [0, 1], from `channels.keyword`.

    A candidate without coverage, or that the keyword channel did not score, changes as the others do on average, at
    most by its own score. Candidates after the first 50 have no coverage: they stay behind them, in their order. Best
    first; equal scores are ordered by chunk id. Raises ValueError for a share outside [0, 1].
    """
    if not 0 <= share <= 1:
        raise ValueError(f"a share lies between 0 and 1, not at {share}")
    ordered = best_first(fused)
    first, rest = ordered[:CONSIDERED], ordered[CONSIDERED:]
    scores = {hit.chunk_id: hit.score for hit in first if hit.chunk_id in coverage and _has_words(hit)}
    if not scores or not share:
        return ordered
    total = math.fsum(scores.values())
    usual = min(1.0, math.fsum(coverage[chunk_id] for chunk_id in scores) / total) if total else 1.0
    moved = [
        _parted(hit, 1 - share, share * coverage[hit.chunk_id])
        if hit.chunk_id in scores
        else _parted(hit, 1 - share + share * usual, 0.0)
        for hit in first
    ]
    return best_first(moved) + [_parted(hit, 1 - share, 0.0) for hit in rest]


def _has_words(hit: Fused) -> bool:
    return any(part.channel == ChannelName.KEYWORD for part in hit.contributions)


def _parted(hit: Fused, left: float, added: float) -> Fused:
    """Return the hit with each contribution times ``left``, and ``added`` to the keyword channel's."""

    contributions = tuple(
        part._replace(
            contribution=left * (part.contribution or 0.0) + (added if part.channel == ChannelName.KEYWORD else 0.0)
        )
        for part in hit.contributions
    )
    feedback = left * hit.feedback
    score = math.fsum([part.contribution or 0.0 for part in contributions]) + feedback
    return as_fused((hit.chunk_id, score, contributions, feedback))
