"""Fuse several channels' rankings of chunks into one order, and correct its scores by the candidates' contents: raise those
of candidates that resemble good ones, and score by the query's words where a channel could not read the query."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import attrgetter, itemgetter
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.keyword.matching import SLOT_BITS, slots_of
from pipeline.keyword.scoring import K1, B
from pipeline.records import ChannelName, ChunkId, Ranking
from pipeline.setting_values import RRF_K

Normalisation = Literal["min_max", "z_score"]
Weights = Mapping[ChannelName, float]
Completed = Mapping[ChannelName, Mapping[ChunkId, float]]
Scales = Mapping[ChannelName, tuple[float | None, float | None]]  # the scores that count 0 and 1

_KEYWORD: Final = ChannelName.KEYWORD  # a member of an enum takes a call to read
_Z_RANGE = 3.0  # standard deviations from the mean; scores further out count as just as far


# Both are named tuples because a query makes hundreds of them, and frozen dataclasses take nearly twice as long to make.
class Contribution(NamedTuple):
    """One channel's part in a chunk's fused score.

    ``rank``: in the channel's ranking, from 1; None if the channel did not recall the chunk but scored it afterwards.
    ``score``: the channel's own. ``normalized``: in [0, 1]; None where ranks alone count. ``contribution``: this
    channel's part of the fused score; the keyword channel's includes the part of `covered`. None where a
    custom fusion gave the score.
    """

    channel: ChannelName
    rank: int | None
    score: float | None
    normalized: float | None
    contribution: float | None


class Fused(NamedTuple):
    """A chunk in the fused order. ``score`` is the sum of its contributions, ordered by channel name, and of
    ``feedback``: the support of its neighbours among the candidates (`neighbour_feedback`). The score of a custom
    fusion is the plug-in's own."""

    chunk_id: ChunkId
    score: float
    contributions: tuple[Contribution, ...]
    feedback: float = 0.0


# One made of its fields, in order. By itself it would be made by a function of Python, which takes half as long again.
as_contribution = partial(tuple.__new__, Contribution)
as_fused = partial(tuple.__new__, Fused)


def reciprocal_rank_fusion(
    rankings: Iterable[Ranking], *, weights: Weights | None = None, k: int = RRF_K
) -> list[Fused]:
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


def followed_by(first: Sequence[Fused], every: Iterable[Fused]) -> list[Fused]:
    """Return ``first``, best first, and behind it the other hits of ``every``, in an order that further hits do not change.

    The others are ordered by their best rank in a channel, equal ones by chunk id, and score ``last * best / (rank + 1)``:
    ``last`` is the least score of ``first``, ``best`` the least rank of the others. The score is the contribution of that
    channel.
    """
    known = {hit.chunk_id for hit in first}
    ranked = [(_best_part(hit), hit) for hit in every if hit.chunk_id not in known]
    others = sorted((part.rank or 0, hit.chunk_id, part.channel, hit) for part, hit in ranked)
    last = first[-1].score if first else 1.0
    behind = []
    for rank, chunk_id, channel, hit in others:
        score = last * others[0][0] / (rank + 1)
        parts = tuple(
            as_contribution((*part[:4], score if part.channel == channel else 0.0)) for part in hit.contributions
        )
        behind.append(as_fused((chunk_id, score, parts, 0.0)))
    return [*first, *behind]


def _best_part(hit: Fused) -> Contribution:
    """Return the part of the channel that ranks a hit best, of equal ones the first by name."""
    return min((part for part in hit.contributions if part.rank is not None), key=attrgetter("rank"))


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


# Flat optima on the training queries of one English collection: docs/decisions/0011.
SHARE: Final = 0.2  # of a score that its neighbours decide
NEIGHBOURS: Final = 10
CONSIDERED: Final = 50  # best candidates; twice as many cost twice as much and are no better

_TOKEN: Final = 13  # characters; see keyword.terms.Tokenizer
_TOLD_APART_BY: Final = 8  # of them, the last: as many as go into a machine word

Terms = NDArray[np.unsignedinteger[Any]]  # the tokens of a chunk, in any order: the same number, the same token


def neighbour_feedback(
    fused: Sequence[Fused], terms: Mapping[ChunkId, Terms], *, share: float = SHARE, neighbours: int = NEIGHBOURS
) -> list[Fused]:
    """Let the best candidates' scores follow those of their nearest neighbours among them; no candidate is added or
    lost.

    ``score' = (1 - share) * score + share * support``, where ``support`` is the mean score of the ``neighbours``
    candidates most similar in words, weighted by similarity (score regularisation: Diaz, Regularizing ad hoc retrieval
    scores, CIKM 2005; the cluster hypothesis). The change is the hit's ``feedback``, so its score stays the sum of its
    contributions and that. A score in [0, 1] stays there.

    ``terms``: the tokens of chunks in the keyword index. Similarity is the cosine of BM25's saturated term counts times
    ``ln(1 + (n - df + 0.5) / (df + 0.5))`` over the ``n`` chunks considered: a term that all candidates share
    distinguishes none. Tokens differ between namespaces, so neighbours are of one. A candidate without ``terms`` or
    without a neighbour gets the average support, at most its own score. Candidates after the first 50 have no support:
    they stay behind them, in their order. Fewer than three with terms change nothing. Best first; equal scores are
    ordered by chunk id. Raises
    ValueError for a share outside [0, 1].
    """
    ordered, first, rest = _considered(fused, share)
    comparable = [hit for hit in first if len(terms.get(hit.chunk_id, ()))]
    if len(comparable) < 3 or not share:
        return ordered
    scores = np.array([hit.score for hit in comparable])
    support = _support(similarities([terms[hit.chunk_id] for hit in comparable]), scores, neighbours)
    has_neighbours = ~np.isnan(support)
    total = float(scores[has_neighbours].sum())
    usual = min(1.0, float(support[has_neighbours].sum()) / total) if total else 1.0
    support = np.where(has_neighbours, support, usual * scores)
    supported = dict(zip((hit.chunk_id for hit in comparable), support.tolist(), strict=True))
    moved = [_moved(hit, supported.get(hit.chunk_id, usual * hit.score), share) for hit in first]
    return best_first(moved) + [_moved(hit, 0.0, share) for hit in rest]


def _considered(fused: Sequence[Fused], share: float) -> tuple[list[Fused], list[Fused], list[Fused]]:
    """Return the candidates best first, those of them that are considered, and the others. Raises ValueError."""
    if not 0 <= share <= 1:
        raise ValueError(f"a share lies between 0 and 1, not at {share}")
    ordered = best_first(fused)
    return ordered, ordered[:CONSIDERED], ordered[CONSIDERED:]


def feedback_share(weights: Iterable[float]) -> float:
    """Return the share of a score that neighbours decide: two thirds of the relative weight of all channels but the
    heaviest, at most 0.2. 0 for a single channel: its neighbours repeat its mistakes, and no other channel corrects
    them."""
    ordered = sorted(weights)
    total = sum(ordered)
    return min(SHARE, 2 / 3 * sum(ordered[:-1]) / total) if total else 0.0


def terms_of(indexed: bytes) -> Terms:
    """Return a chunk's tokens (joined by spaces in the index) as numbers, one for each: its last eight characters."""
    count = (len(indexed) + 1) // (_TOKEN + 1)
    if not count:
        return np.zeros(0, np.uint64)
    return np.ndarray((count,), np.uint64, indexed, _TOKEN - _TOLD_APART_BY, (_TOKEN + 1,))


def similarities(terms: Sequence[Terms]) -> NDArray[np.float32]:
    """Return the cosine of each two chunks; 0 with itself, and without a shared term."""
    lengths = np.array(list(map(len, terms)))
    count = len(terms)
    kept, column, width = _columns(np.concatenate(terms).astype(np.uint64, copy=False))
    cell = np.repeat(np.arange(count) * width, lengths)[kept] + column
    counts = np.bincount(cell, minlength=count * width).astype(np.float32).reshape(count, width)
    frequency = np.minimum(counts, 1).sum(axis=0)
    rarity = np.where(frequency > 1, np.log1p((count - frequency + 0.5) / (frequency + 0.5)), 0.0)
    damping = K1 * (1 - B) + K1 * B * lengths / max(1.0, float(lengths.mean()))
    weights = counts + damping.astype(np.float32)[:, None]
    np.divide(counts, weights, out=weights)
    weights *= rarity.astype(np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", weights, weights))
    weights /= np.where(norms > 0, norms, np.float32(1))[:, None]
    cosines: NDArray[np.float32] = weights @ weights.T
    np.fill_diagonal(cosines, 0.0)
    return cosines


def _columns(codes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the indexes of terms that may occur more than once, their columns, and the number of columns.

    A term that occurs once joins no two chunks. Most terms do, so a table of hashes excludes them; a few others share
    their slots. The same table numbers the columns: each slot belongs to the term seen
    last in it, and the few other terms of a slot get columns of their own.
    """
    slot = slots_of(codes)
    taken = np.bincount(slot, minlength=1 << SLOT_BITS) > 1
    kept = np.flatnonzero(taken[slot])
    shared_slots = np.flatnonzero(taken)
    column_of = np.empty(1 << SLOT_BITS, np.int64)
    column_of[shared_slots] = np.arange(len(shared_slots))
    column, codes = column_of[slot[kept]], codes[kept]
    owner = np.empty(len(shared_slots), np.uint64)
    owner[column] = codes
    strangers = np.flatnonzero(owner[column] != codes)
    distinct, own = np.unique(codes[strangers], return_inverse=True)
    column[strangers] = len(shared_slots) + own
    return kept, column, len(shared_slots) + len(distinct)


def _support(similar: NDArray[np.float32], scores: NDArray[np.float64], neighbours: int) -> NDArray[np.float64]:
    """Return the mean score of each chunk's nearest neighbours by similarity; NaN without any."""
    nearest = min(neighbours, len(scores) - 1)
    least = np.partition(similar, -nearest, axis=1)[:, -nearest]
    weights = np.where(similar >= least[:, None], similar, 0.0).astype(np.float64)
    total = weights.sum(axis=1)
    mean: NDArray[np.float64] = np.where(total > 0, weights @ scores / np.where(total > 0, total, 1), np.nan)
    return mean


def _moved(hit: Fused, support: float, share: float) -> Fused:
    chunk_id, score, contributions, feedback = hit
    change = share * (support - score)
    return as_fused((chunk_id, score + change, contributions, feedback + change))


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
    ordered, first, rest = _considered(fused, share)
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


def lessened(hit: Fused, factor: float) -> Fused:
    """Return a hit with its score, and each part of it, times ``factor``."""
    return _parted(hit, factor, 0.0)


def _parted(hit: Fused, left: float, added: float) -> Fused:
    """Return the hit with each contribution times ``left``, and ``added`` to the keyword channel's."""
    chunk_id, _, parts, feedback = hit
    contributions = []
    for channel, rank, own, normalized, contribution in parts:
        earned = left * (contribution or 0.0)
        if channel == _KEYWORD:
            earned += added
        contributions.append(as_contribution((channel, rank, own, normalized, earned)))
    feedback *= left
    return as_fused((chunk_id, _total(contributions) + feedback, tuple(contributions), feedback))
