"""Fuse several channels' rankings of chunks into one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Literal, NamedTuple

from pipeline.records import ChannelName, ChunkId, Ranking

Normalisation = Literal["min_max", "z_score"]
Weights = Mapping[ChannelName, float]
Completed = Mapping[ChannelName, Mapping[ChunkId, float]]
Scales = Mapping[ChannelName, tuple[float | None, float | None]]  # the scores that count 0 and 1

_Z_RANGE = 3.0  # standard deviations from the mean; scores further out count as just as far


# Both are named tuples because a query makes hundreds of them, and frozen dataclasses take nearly twice as long to make.
class Contribution(NamedTuple):
    """One channel's part in a chunk's fused score.

    ``rank``: in the channel's ranking, from 1; None if the channel did not recall the chunk but scored it afterwards.
    ``score``: the channel's own. ``normalized``: in [0, 1]; None where ranks alone count. ``contribution``: this
    channel's part of the fused score; the keyword channel's includes the part of `ranking.coverage`. None where a
    custom fusion gave the score.
    """

    channel: ChannelName
    rank: int | None
    score: float | None
    normalized: float | None
    contribution: float | None


class Fused(NamedTuple):
    """A chunk in the fused order. ``score`` is the sum of its contributions, ordered by channel name, and of
    ``feedback``: the support of its neighbours among the candidates (`ranking.neighbours`). The score of a custom
    fusion is the plug-in's own."""

    chunk_id: ChunkId
    score: float
    contributions: tuple[Contribution, ...]
    feedback: float = 0.0


# One made of its fields, in order. By itself it would be made by a function of Python, which takes half as long again.
as_contribution = partial(tuple.__new__, Contribution)
as_fused = partial(tuple.__new__, Fused)


def reciprocal_rank_fusion(rankings: Iterable[Ranking], *, weights: Weights | None = None, k: int = 60) -> list[Fused]:
    """Merge rankings by position alone; their scores need not be comparable.

    The chunk at position ``r`` of a ranking, counted from 1, earns ``weight / (k + r)`` with the weight of its channel,
    1 where ``weights`` names none; a chunk the ranking does not hold earns nothing from it. Weights are taken as they
    are: a channel that is missing lowers every score alike. Several rankings of one channel (one for each
    sub-query) earn each by itself and are reported together, with the best rank and its score.
    Best first. Equal totals are ordered by chunk id, so a question always gets one answer.
    """
    earned: defaultdict[ChunkId, defaultdict[ChannelName, list[_Earned]]] = defaultdict(lambda: defaultdict(list))
    for ranking in rankings:
        weight = _weight(weights, ranking.channel)
        for rank, (chunk_id, score) in enumerate(zip(ranking.chunk_ids, ranking.scores, strict=True), start=1):
            earned[chunk_id][ranking.channel].append((rank, -score, weight / (k + rank)))
    return _ordered(
        (chunk_id, [_reported(channel, earnings) for channel, earnings in sorted(by_channel.items())])
        for chunk_id, by_channel in earned.items()
    )


def weighted_fusion(
    rankings: Iterable[Ranking],
    *,
    weights: Weights | None = None,
    normalisation: Normalisation = "min_max",
    completed: Completed | None = None,
    scales: Scales | None = None,
) -> list[Fused]:
    """Merge rankings by score: each channel's scores are brought to [0, 1], weighted and added up, which stays in [0,
    1].

    Every chunk in any ranking is a candidate. A channel's scores are those of its ranking and, for candidates that it
    did not recall, those in ``completed``; without one a candidate gets 0 from that channel, as if it came last.
    Several rankings of one channel count as one with the best score of each chunk.

    ``min_max``: ``(score - lowest) / (highest - lowest)``, clipped to [0, 1]; ``lowest`` and ``highest`` are those of
    ``scales`` where it names them, else those of the channel's scores of candidates (theoretical and observed bounds:
    Bruch, Gai and Ingber, An analysis of fusion functions for hybrid retrieval, TOIS 2023). ``z_score``: ``(score -
    mean) / deviation``, cut off at 3 deviations and moved from [-3, 3] to [0, 1]. If all its scores are equal they are
    1 each, unless ``scales`` places them. A channel with an empty ranking counts 0 for every candidate.

    Weights (1 where ``weights`` names none) are divided by their sum over the channels with a ranking. So a missing
    channel does not lower scores, while an empty ranking does. If all are 0, the channels count alike. Best first;
    equal totals are ordered by chunk id. Raises ValueError for a score that is not a finite number.
    """
    recalled: dict[ChannelName, dict[ChunkId, _Place]] = {}
    for ranking in rankings:
        _keep_best(recalled.setdefault(ranking.channel, {}), ranking)
    shares = _shares(recalled, weights)
    candidates = {chunk_id: None for positions in recalled.values() for chunk_id in positions}
    columns: list[dict[ChunkId, Contribution]] = []
    for channel in sorted(recalled):
        positions, share = recalled[channel], shares[channel]
        scores = {chunk_id: position[0] for chunk_id, position in positions.items()}
        ranks: list[int | None] = [-position[1] for position in positions.values()]
        for chunk_id, score in (completed or {}).get(channel, {}).items():
            if chunk_id in candidates and chunk_id not in scores:
                scores[chunk_id] = score
                ranks.append(None)
        scale = (scales or {}).get(channel, (None, None))
        normalized = _normalised(list(scores.values()), normalisation, scale) if positions else [0.0] * len(scores)
        earned = [share * value for value in normalized]
        contributions = map(as_contribution, zip(repeat(channel), ranks, scores.values(), normalized, earned))
        columns.append(dict(zip(scores, contributions, strict=True)))
    parts = zip(*(map(column.get, candidates) for column in columns), strict=True)
    return _ordered((chunk_id, tuple(filter(None, row))) for chunk_id, row in zip(candidates, parts, strict=True))


def _keep_best(best: dict[ChunkId, _Place], ranking: Ranking) -> None:
    """Merge the ranking into its channel's positions: the best score of each chunk, at its best rank."""
    positions = zip(ranking.scores, range(-1, -len(ranking.scores) - 1, -1), strict=True)
    for chunk_id, position in zip(ranking.chunk_ids, positions, strict=True):
        if chunk_id not in best or position > best[chunk_id]:
            best[chunk_id] = position


# The score of a chunk, and its negated rank: the greater pair is the better.
_Place = tuple[float, int]


def _weight(weights: Weights | None, channel: ChannelName) -> float:
    return 1.0 if weights is None else weights.get(channel, 1.0)


def _shares(channels: Iterable[ChannelName], weights: Weights | None) -> dict[ChannelName, float]:
    own = {channel: _weight(weights, channel) for channel in channels}
    total = math.fsum(own.values())
    return {channel: weight / total if total else 1 / len(own) for channel, weight in own.items()}


_Earned = tuple[int, float, float]  # rank, negated score, and earned share


def _reported(channel: ChannelName, earnings: Sequence[_Earned]) -> Contribution:
    rank, score, _ = min(earnings)
    return Contribution(channel, rank, -score, None, math.fsum(earned for _, _, earned in earnings))


def _normalised(
    scores: Sequence[float], normalisation: Normalisation, scale: tuple[float | None, float | None]
) -> list[float]:
    if not all(map(math.isfinite, scores)):
        raise ValueError("a channel gave a score that is not a finite number")
    lowest, highest = min(scores), max(scores)
    if normalisation == "z_score":
        # Moved and scaled to [0, 1] first, which changes no z-score and keeps squares of huge scores finite.
        scores = _between(scores, lowest, highest)
        mean = math.fsum(scores) / len(scores)
        deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
        lowest, highest = mean - _Z_RANGE * deviation, mean + _Z_RANGE * deviation
        scores = [min(max(score, lowest), highest) for score in scores]
    elif scale != (None, None):
        lowest, highest = (own if own is not None else seen for own, seen in zip(scale, (lowest, highest), strict=True))
        scores = [min(max(score, lowest), highest) for score in scores] if highest > lowest else scores
    if not highest > lowest:
        return [1.0] * len(scores)
    return _between(scores, lowest, highest)


def _between(scores: Sequence[float], lowest: float, highest: float) -> list[float]:
    """Return each score's position from ``lowest`` (0) to ``highest`` (1). Halved so that no span is infinite."""
    start, span = lowest / 2, highest / 2 - lowest / 2
    if span <= 0:
        return [0.0] * len(scores)
    return [(score / 2 - start) / span for score in scores]


def _ordered(parts: Iterable[tuple[ChunkId, Sequence[Contribution]]]) -> list[Fused]:
    """Return the fused chunks, best first; contributions come in the order of channel names."""
    return best_first([as_fused((chunk_id, _total(given), tuple(given), 0.0)) for chunk_id, given in parts])


def _total(parts: Sequence[Contribution]) -> float:
    """Return the exact sum, rounded once, whatever the order of the parts."""
    if len(parts) == 2:
        return (parts[0][4] or 0.0) + (parts[1][4] or 0.0)
    return math.fsum([part[4] or 0.0 for part in parts])


def best_first(hits: Iterable[Fused]) -> list[Fused]:
    """Sort by score, descending; equal scores by chunk id."""
    ordered = sorted(hits, key=itemgetter(1), reverse=True)
    if len(set(map(itemgetter(1), ordered))) < len(ordered):
        ordered.sort(key=lambda hit: (-hit.score, hit.chunk_id))
    return ordered
