"""Several channels' rankings of chunks to one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline.records import ChannelName, ChunkId, Ranking

Normalisation = Literal["min_max", "z_score"]
Weights = Mapping[ChannelName, float]
Completed = Mapping[ChannelName, Mapping[ChunkId, float]]

_Z_RANGE = 3.0  # standard deviations from the mean that are told apart; what is further out counts as just as far


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What one channel gave to one chunk's fused score.

    ``rank``: its place in the channel's ranking, from 1; None if the channel did not recall it but scored it
    afterwards. ``score``: the channel's own. ``normalized``: in [0, 1]; None where ranks alone count.
    ``contribution``: the part of the fused score that is this channel's; the keyword channel's holds what
    `core.coverage` gives for the query's words.
    """

    channel: ChannelName
    rank: int | None
    score: float | None
    normalized: float | None
    contribution: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """A chunk in the fused order. ``score`` is the sum of its contributions, which are in the order of channel names, and
    of its ``feedback``: what its neighbours among the candidates added or took away (`core.feedback`)."""

    chunk_id: ChunkId
    score: float
    contributions: tuple[Contribution, ...]
    feedback: float = 0.0


def reciprocal_rank_fusion(rankings: Iterable[Ranking], *, weights: Weights | None = None, k: int = 60) -> list[Fused]:
    """Merge rankings by position alone; their scores need not be comparable.

    The chunk at position ``r`` of a ranking, counted from 1, earns ``weight / (k + r)`` with the weight of its channel,
    1 where ``weights`` names none; a chunk the ranking does not hold earns nothing from it. Weights are taken as they
    are: a channel that is missing lowers every score alike. Several rankings of one channel (one for each
    sub-query) earn each by itself and are reported together, with the best rank and its score.
    Best first. Equal totals are ordered by chunk id, so a question always gets one answer.
    """
    earned: defaultdict[ChunkId, defaultdict[ChannelName, list[_Place]]] = defaultdict(lambda: defaultdict(list))
    for ranking in rankings:
        weight = _weight(weights, ranking.channel)
        for rank, (chunk_id, score) in enumerate(zip(ranking.chunk_ids, ranking.scores, strict=True), start=1):
            earned[chunk_id][ranking.channel].append(_Place(rank, score, weight / (k + rank)))
    return _ordered(
        (chunk_id, [_reported(channel, places) for channel, places in by_channel.items()])
        for chunk_id, by_channel in earned.items()
    )


def weighted_fusion(
    rankings: Iterable[Ranking],
    *,
    weights: Weights | None = None,
    normalisation: Normalisation = "min_max",
    completed: Completed | None = None,
) -> list[Fused]:
    """Merge rankings by score: each channel's scores are brought to [0, 1], weighted and added up, which stays in [0, 1].

    Every chunk that any ranking holds is a candidate. A channel's scores are those of its ranking and, for candidates
    that it did not recall, those in ``completed``; without one a candidate gets 0 from that channel, as if it came
    last. Several rankings of one channel count as one with the best score of each chunk.

    ``min_max``: ``(score - lowest) / (highest - lowest)`` over the channel's scores of candidates.
    ``z_score``: ``(score - mean) / deviation``, cut off at 3 deviations and moved from [-3, 3] to [0, 1].
    If all its scores are equal they are 1 each, or 0 if the channel recalled nothing itself.

    Weights (1 where ``weights`` names none) are divided by their sum over the channels that have a ranking. So a
    channel that is missing does not lower scores, while one that answered with nothing does. If all are 0, the
    channels count alike. Best first; equal totals are ordered by chunk id.
    Raises ValueError for a score that is not a finite number.
    """
    recalled: dict[ChannelName, dict[ChunkId, _Place]] = {}
    for ranking in rankings:
        best = recalled.setdefault(ranking.channel, {})
        for rank, (chunk_id, score) in enumerate(zip(ranking.chunk_ids, ranking.scores, strict=True), start=1):
            known = best.get(chunk_id)
            if known is None or score > known.score or (score == known.score and rank < known.rank):
                best[chunk_id] = _Place(rank, score, 0.0)
    candidates = {chunk_id for places in recalled.values() for chunk_id in places}
    shares = _shares(recalled, weights)
    parts: dict[ChunkId, list[Contribution]] = {chunk_id: [] for chunk_id in candidates}
    for channel, places in recalled.items():
        extra = (completed or {}).get(channel, {})
        scores = {chunk_id: score for chunk_id, score in extra.items() if chunk_id in candidates}
        scores.update((chunk_id, place.score) for chunk_id, place in places.items())
        for chunk_id, normalized in _normalised(scores, normalisation, any_recalled=bool(places)).items():
            parts[chunk_id].append(
                Contribution(
                    channel=channel,
                    rank=places[chunk_id].rank if chunk_id in places else None,
                    score=scores[chunk_id],
                    normalized=normalized,
                    contribution=shares[channel] * normalized,
                )
            )
    return _ordered(parts.items())


@dataclass(frozen=True, slots=True)
class _Place:
    rank: int
    score: float
    earned: float


def _weight(weights: Weights | None, channel: ChannelName) -> float:
    return 1.0 if weights is None else weights.get(channel, 1.0)


def _shares(channels: Iterable[ChannelName], weights: Weights | None) -> dict[ChannelName, float]:
    own = {channel: _weight(weights, channel) for channel in channels}
    total = math.fsum(own.values())
    return {channel: weight / total if total else 1 / len(own) for channel, weight in own.items()}


def _reported(channel: ChannelName, places: Sequence[_Place]) -> Contribution:
    best = min(places, key=lambda place: (place.rank, -place.score))
    earned = math.fsum(place.earned for place in places)
    return Contribution(channel=channel, rank=best.rank, score=best.score, normalized=None, contribution=earned)


def _normalised(
    scores: Mapping[ChunkId, float], normalisation: Normalisation, *, any_recalled: bool
) -> dict[ChunkId, float]:
    if not scores:
        return {}
    if not all(map(math.isfinite, scores.values())):
        raise ValueError("a channel gave a score that is not a finite number")
    lowest, highest = min(scores.values()), max(scores.values())
    if normalisation == "z_score":
        # Moved and scaled to [0, 1] first, which changes no z-score and keeps squares of huge scores finite.
        scores = _between(scores, lowest, highest)
        mean = math.fsum(scores.values()) / len(scores)
        deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scores.values()) / len(scores))
        lowest, highest = mean - _Z_RANGE * deviation, mean + _Z_RANGE * deviation
    if not highest > lowest:
        return dict.fromkeys(scores, 1.0 if any_recalled else 0.0)
    return _between(scores, lowest, highest)


def _between(scores: Mapping[ChunkId, float], lowest: float, highest: float) -> dict[ChunkId, float]:
    """Where each score lies from ``lowest`` (0) to ``highest`` (1), cut off there; halved so that no span is infinite."""
    span = highest / 2 - lowest / 2
    if span <= 0:
        return dict.fromkeys(scores, 0.0)
    return {chunk_id: min(1.0, max(0.0, (score / 2 - lowest / 2) / span)) for chunk_id, score in scores.items()}


def _ordered(parts: Iterable[tuple[ChunkId, list[Contribution]]]) -> list[Fused]:
    fused = [
        Fused(
            chunk_id=chunk_id,
            score=math.fsum(part.contribution for part in contributions),
            contributions=tuple(sorted(contributions, key=lambda part: part.channel)),
        )
        for chunk_id, contributions in parts
    ]
    return sorted(fused, key=lambda hit: (-hit.score, hit.chunk_id))
