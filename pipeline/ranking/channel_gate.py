"""Gate channels by the strength of their best hit, and weight the semantic channel by its lead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.records import ChannelName, Ranking

# A channel that gives so many hits one and the same score has put them in no order at all.
_LEAST_TO_BE_FLAT = 3
_FLAT = 1e-9  # spread of the scores, as a share of the highest

# Learnt on three collections and questions derived from them, stable with any one left out: docs/decisions/0056.
_SLOPE = 2.5
_USUAL_LEAD = 0.2
_MOST = 0.5
_CONSIDERED = 100  # best hits, the default pool
_LEAST_TO_TELL = 10  # hits; the lead of fewer says more about the collection than about the query


@dataclass(frozen=True, slots=True, kw_only=True)
class WeakChannel:
    """A channel that the gate excludes. ``strength``: of its best hit, in [0, 1]."""

    channel: ChannelName
    strength: float


def strength_of(scores: Sequence[float], upper_bound: float | None) -> float | None:
    """Return the strength of a channel's best hit: its score over the highest possible score, in [0, 1].

    Three or more hits with equal scores have no meaningful order and count as 0. None without hits or upper bound.
    """
    if not scores:
        return None
    highest, lowest = max(scores), min(scores)
    if len(scores) >= _LEAST_TO_BE_FLAT and highest - lowest <= _FLAT * abs(highest):
        return 0.0
    if not upper_bound or upper_bound < 0:
        return None
    return min(1.0, max(0.0, highest / upper_bound))


def lead_of(scores: Sequence[float]) -> float | None:
    """Return how far the first hit is ahead of the second, as a share of the span from the first to the last of the best
    100, in [0, 1]. ``scores``: best first. None for less than 10 hits and for hits that score alike."""
    first = scores[:_CONSIDERED]
    if len(first) < _LEAST_TO_TELL or not first[0] - first[-1] > _FLAT * abs(first[0]):
        return None
    return (first[0] - first[1]) / (first[0] - first[-1])


def lead_factor(scores: Sequence[float], *, share: float = 1.0) -> float:
    """Return the factor of the semantic channel's weight for this query, from 0.61 to 1.65.

    ``exp(share * min(0.5, 2.5 * (lead - 0.2)))`` with `lead_of`: a vector search always finds a hundred neighbours, and
    if the first does not stand out, it did not recognise the query. ``share``: how long the query is, from 0 to 1
    (`keyword.scoring.long_share`). 1 where `lead_of` is None.
    """
    lead = lead_of(scores)
    return 1.0 if lead is None else math.exp(share * min(_MOST, _SLOPE * (lead - _USUAL_LEAD)))


def gated(
    rankings: Sequence[Ranking], bounds: Mapping[ChannelName, float | None], *, gate: float
) -> tuple[list[Ranking], list[WeakChannel]]:
    """Split channels into the rankings that pass, and the weak channels, whose best hit is below ``gate``. A channel of
    unknown strength passes. If no channel with hits would pass, the strongest one does, the first by name among equals.
    Several rankings of one channel pass or fail together, by the best of them."""
    strengths: dict[ChannelName, float] = {}
    unknown = set()
    for ranking in rankings:
        strength = strength_of(ranking.scores, bounds.get(ranking.channel))
        if strength is not None:
            strengths[ranking.channel] = max(strength, strengths.get(ranking.channel, 0.0))
        elif ranking.scores:
            unknown.add(ranking.channel)
    weak = {channel for channel, strength in strengths.items() if strength < gate and channel not in unknown}
    if weak and weak == {ranking.channel for ranking in rankings if ranking.scores}:
        weak.discard(min(weak, key=lambda channel: (-strengths[channel], channel)))
    kept = [ranking for ranking in rankings if ranking.channel not in weak]
    return kept, [WeakChannel(channel=channel, strength=strengths[channel]) for channel in sorted(weak)]
