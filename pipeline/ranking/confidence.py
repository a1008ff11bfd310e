"""The probability that a hit is relevant, by the evidence of both searches; none where the evidence cannot tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from chordwise.contract.answer import EVEN
from pipeline.keyword.terms import holds_unspaced
from pipeline.local_models import calibrations_of
from pipeline.query.request import Envelope
from pipeline.ranking.fusion import Contribution, Fused
from pipeline.ranking.hits import cosine_of
from pipeline.ranking.query_weights import PAIRS
from pipeline.records import ChannelName

# Fitted by `python -m benchmarks.confidence` to collections in 13 languages, the same for all: docs/decisions/0103.
_INTERCEPT: Final = -3.28
_STANDING: Final = 6.29
_MEANING: Final = 3.37
_UNREAD: Final = 0.5
_PLACE: Final = 0.6
_FIRST: Final = 10

UNTOLD: Final = (
    "confidence: null, because the first passage holds enough of the query to answer it and does not stand out from the"
    " tenth, so that neither words nor meaning can tell whether one of them answers it; thresholds take it as 0.5"
)


class Confidences(dict[str, float | None]):
    """Confidences by chunk id, computed on first access: most fused hits never need one.

    ``s(-3.28 + held * (6.29 * spread + 3.37 * m)) / p ** 0.6`` with the logistic function ``s`` and the hit's rank ``p`` from
    1. ``held``: the root of the share of the query's worth that the hit holds (BM25 over its bound; times 1.8 in pairs of
    characters). ``spread``: how far the tenth score by words lies below the first, as a share of the first; 1 for less than
    ten hits. ``m``: how far the hit's cosine lies above that of unrelated texts, ``(cosine - background) / (1 - background)``;
    the share of the query that the model does not read, all of it without a model, counts as 0.5. All in [0, 1].

    None for all hits (`is_untold`) if the first has less than even odds and would have them if its ``spread`` were 1: it holds
    enough of the query, but so do other passages, and which of them answers it, if any does, is in no score. So a first hit
    has a number below 0.5 only where too little of the query is held. A hit that only meaning scored has the calibration of
    its model, and a channel that states a confidence keeps it.
    """

    def __init__(self, query_text: str, fused: Sequence[Fused], envelopes: Mapping[ChannelName, Envelope]) -> None:
        super().__init__()
        self._places = {hit.chunk_id: position for position, hit in enumerate(fused, start=1)}
        self._fused = fused
        self._envelopes = envelopes
        self._is_unspaced = holds_unspaced(query_text)
        words = envelopes.get(ChannelName.KEYWORD)
        scores = words.scores if words is not None else ()
        tenth = scores[_FIRST - 1] / scores[0] if len(scores) >= _FIRST and scores[0] > 0 else 0.0
        self._spread = 1 - tenth
        signs = self.signs(fused[0]) if fused else None
        self.is_untold = signs is not None and _first(*signs) < EVEN <= _first(signs[0], 1.0, signs[2])

    def __missing__(self, chunk_id: str) -> float | None:
        hit = self._fused[self._places[chunk_id] - 1]  # type: ignore[index]
        own = [stated for part in hit.contributions if (stated := _own(part, self._envelopes)) is not None]
        told = None if self.is_untold else self._told(hit)
        known = own if told is None else [*own, told]
        confidence = self[chunk_id] = max(known, default=None if self.is_untold else 0.0)
        return confidence

    def signs(self, hit: Fused) -> tuple[float, float, float] | None:
        """Return ``held``, ``spread`` and ``m`` of a hit; None if words did not score it."""
        parts = {part.channel: part for part in hit.contributions}
        part, words = parts.get(ChannelName.KEYWORD), self._envelopes.get(ChannelName.KEYWORD)
        if part is None or part.score is None or words is None or not words.upper_bound:
            return None
        held = _share(part.score / words.upper_bound * (PAIRS if self._is_unspaced else 1.0))
        meaning, semantic = _meaning(parts, self._envelopes), self._envelopes.get(ChannelName.SEMANTIC)
        read = 0.0 if meaning is None or semantic is None else semantic.trust
        return math.sqrt(held), self._spread, read * (meaning or 0.0) + (1 - read) * _UNREAD

    def _told(self, hit: Fused) -> float:
        signs, place = self.signs(hit), math.pow(self._places[hit.chunk_id], _PLACE)
        if signs is not None:
            return _first(*signs) / place
        meaning = _meaning({part.channel: part for part in hit.contributions}, self._envelopes)
        if meaning is None:
            return 0.0
        model = calibrations_of(self._envelopes[ChannelName.SEMANTIC].model)[
            "unspaced" if self._is_unspaced else "spaced"
        ]
        return _logistic(model.intercept + model.meaning * meaning) * _logistic(model.leading) / place


def _first(held: float, spread: float, meaning: float) -> float:
    return _logistic(_INTERCEPT + held * (_STANDING * spread + _MEANING * meaning))


def _meaning(parts: Mapping[ChannelName, Contribution], envelopes: Mapping[ChannelName, Envelope]) -> float | None:
    part, envelope = parts.get(ChannelName.SEMANTIC), envelopes.get(ChannelName.SEMANTIC)
    if part is None or part.score is None or envelope is None:
        return None
    background = min(0.99, envelope.background or 0.0)
    return _share((cosine_of(part.score, envelope.zero) - background) / (1 - background))


def _own(part: Contribution, envelopes: Mapping[ChannelName, Envelope]) -> float | None:
    """Return the confidence that an uncalibrated channel states for a hit it recalled; None for the others."""
    envelope = envelopes.get(part.channel)
    calibrated = part.channel in (ChannelName.KEYWORD, ChannelName.SEMANTIC)
    if calibrated or part.rank is None or part.score is None or envelope is None or not envelope.upper_bound:
        return None
    return _share(part.score / envelope.upper_bound)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-max(-500.0, x)))
