"""The probability that a hit is relevant, from the evidence of the channels; comparable between queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pipeline.core.fusion import Contribution, Fused
from pipeline.core.local_models import Evidence, Writing, calibrations_of
from pipeline.core.nearest import ORTHOGONAL
from pipeline.core.query import Envelope
from pipeline.core.terms import holds_unspaced
from pipeline.records import ChannelName


def confidences(query_text: str, fused: Sequence[Fused], envelopes: Mapping[ChannelName, Envelope]) -> dict[str, float]:
    """Return the confidence of each hit of the fused order, in [0, 1], by chunk id.

    Words and meaning are calibrated together. A channel other than these two that recalled a hit is taken at its word:
    the confidence is at least its score over its bound. Calibrated are the answers of the model that the semantic channel
    names.
    """
    semantic = envelopes.get(ChannelName.SEMANTIC)
    calibrations = calibrations_of(semantic.model if semantic else None)
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
            model = calibrations[kind, writing]
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
