"""The probability that a hit is relevant, from the evidence of the channels; comparable between queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pipeline.core.fusion import Contribution, Fused
from pipeline.core.nearest import ORTHOGONAL
from pipeline.core.query import Envelope
from pipeline.core.terms import holds_unspaced
from pipeline.records import ChannelName

Evidence = Literal["words_and_meaning", "words", "meaning"]
Writing = Literal["spaced", "unspaced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Two logistic models, multiplied: is the query answered here at all, and is it this hit that answers it.

    ``x = intercept + words * sqrt(w) + meaning * m`` is the evidence for a hit. ``w``: its BM25 score over the query's
    bound, in [0, 1]. ``m``: how far its cosine lies above that of unrelated texts, ``(cosine - background) / (1 -
    background)``, in [0, 1]. The probability is ``s(x) * s(leading + gap * min(0, x - x1) + place * ln(p))``, where ``s``
    is the logistic function, ``x1`` the evidence for the first hit, and ``p`` the hit's place, from 1.
    """

    intercept: float
    words: float = 0.0
    meaning: float = 0.0
    leading: float
    gap: float
    place: float


# Fitted by maximum likelihood on judged collections, and on the same collections asked about other subjects, four
# answerable queries to an unanswerable one. Method and reliability: docs/retrieval.md, docs/decisions/0044.
CALIBRATIONS: Final[Mapping[tuple[Evidence, Writing], Calibration]] = {
    ("words_and_meaning", "spaced"): Calibration(
        intercept=-12.71, words=17.88, meaning=14.14, leading=0.8, gap=0.22, place=-0.9
    ),
    ("words_and_meaning", "unspaced"): Calibration(
        intercept=-10.18, words=19.67, meaning=5.04, leading=1.52, gap=1.19, place=-1.72
    ),
    ("words", "spaced"): Calibration(intercept=-12.12, words=27.41, leading=0.82, gap=0.25, place=-0.95),
    ("words", "unspaced"): Calibration(intercept=-8.71, words=21.24, leading=1.62, gap=1.16, place=-2.2),
    ("meaning", "spaced"): Calibration(intercept=-13.15, meaning=32.8, leading=0.08, gap=0.04, place=-1.07),
    ("meaning", "unspaced"): Calibration(intercept=-3.21, meaning=8.62, leading=-0.09, gap=1.23, place=-1.76),
}


def confidences(query_text: str, fused: Sequence[Fused], envelopes: Mapping[ChannelName, Envelope]) -> dict[str, float]:
    """Return the confidence of each hit of the fused order, in [0, 1], by chunk id.

    Words and meaning are calibrated together. A channel other than these two that recalled a hit is taken at its word:
    the confidence is at least its score over its bound.
    """
    writing: Writing = "unspaced" if holds_unspaced(query_text) else "spaced"
    found: dict[str, float] = {}
    first: float | None = None
    for place, hit in enumerate(fused, start=1):
        parts = {part.channel: part for part in hit.contributions}
        own = max((_own(part, envelopes) for part in hit.contributions), default=0.0)
        words, meaning = _words(parts, envelopes), _meaning(parts, envelopes)
        calibrated = 0.0
        if words is not None or meaning is not None:
            kind: Evidence = "words" if meaning is None else "meaning" if words is None else "words_and_meaning"
            model = CALIBRATIONS[kind, writing]
            evidence = model.intercept + model.words * math.sqrt(words or 0.0) + model.meaning * (meaning or 0.0)
            first = evidence if first is None else first
            calibrated = _logistic(evidence) * _logistic(
                model.leading + model.gap * min(0.0, evidence - first) + model.place * math.log(place)
            )
        found[hit.chunk_id] = max(own, calibrated)
    return found


def cosine_of(score: float, zero: float | None) -> float:
    """Return the cosine of two unit vectors from their score. A ``zero`` above 0 says that the score is
    ``1 / (1 + distance)`` of the euclidean distance d, and the cosine is ``1 - d² / 2``."""
    if zero != ORTHOGONAL["euclidean"] or score <= 0:
        return score
    return 1 - (1 / score - 1) ** 2 / 2


def _words(parts: Mapping[ChannelName, Contribution], envelopes: Mapping[ChannelName, Envelope]) -> float | None:
    part, envelope = parts.get(ChannelName.KEYWORD), envelopes.get(ChannelName.KEYWORD)
    if part is None or part.score is None or envelope is None or not envelope.upper_bound:
        return None
    return _share(part.score / envelope.upper_bound)


def _meaning(parts: Mapping[ChannelName, Contribution], envelopes: Mapping[ChannelName, Envelope]) -> float | None:
    part, envelope = parts.get(ChannelName.SEMANTIC), envelopes.get(ChannelName.SEMANTIC)
    if part is None or part.score is None or envelope is None:
        return None
    background = min(0.99, envelope.background or 0.0)
    return _share((cosine_of(part.score, envelope.zero) - background) / (1 - background))


def _own(part: Contribution, envelopes: Mapping[ChannelName, Envelope]) -> float:
    """The confidence that a channel of its own kind states of a hit that it recalled; 0 for keyword and semantic."""
    envelope = envelopes.get(part.channel)
    calibrated = part.channel in (ChannelName.KEYWORD, ChannelName.SEMANTIC)
    if calibrated or part.rank is None or part.score is None or envelope is None or not envelope.upper_bound:
        return 0.0
    return _share(part.score / envelope.upper_bound)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-max(-500.0, x)))
