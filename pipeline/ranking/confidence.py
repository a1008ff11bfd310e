"""The probability that a hit is relevant, by the evidence of both searches; none where the evidence cannot tell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.keyword.terms import holds_unspaced
from pipeline.local_models import calibrations_of
from pipeline.query.request import Envelope
from pipeline.ranking.fusion import Contribution, Fused
from pipeline.ranking.hits import cosine_of
from pipeline.ranking.query_weights import PAIRS
from pipeline.records import ChannelName


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOdds:
    """The log odds that the first hit is relevant: ``intercept + standing * sqrt(w) * spread + meaning * m``."""

    intercept: float
    standing: float
    meaning: float = 0.0


# Fitted by `python -m benchmarks.confidence` to 23 judged collections in 13 languages, half of the answers of each taken
# out; for every script and model the same: docs/decisions/0102.
BOTH: Final = LogOdds(intercept=-5.3, standing=10.05, meaning=2.23)
WORDS: Final = LogOdds(intercept=-3.8, standing=9.67)
_PLACE: Final = 0.6
_FIRST: Final = 10
_WELL_COVERED: Final = 0.55
_FLAT: Final = 0.5

UNTOLD: Final = (
    "confidence: null, because at least ten passages hold about as much of the query as the first one, so that neither words"
    " nor meaning can tell whether one of them answers it; thresholds take it as 0.5"
)


class Confidences(dict[str, float | None]):
    """Confidences by chunk id, computed on first access: most fused hits never need one.

    ``s(x) / p ** 0.6`` with the logistic function ``s``, the hit's rank ``p`` from 1, and its evidence ``x`` by `LogOdds`.
    ``w``: the share of the query's worth that the hit holds (BM25 over its bound; times 1.8 in pairs of characters).
    ``spread``: how far the tenth score by words lies below the first, as a share of the first. ``m``: how far the hit's
    cosine lies above that of unrelated texts, ``(cosine - background) / (1 - background)``, times the share of the query
    that the model reads. All in [0, 1].

    None for all hits (`is_untold`) if the first hit by words holds much of the query (``sqrt(w)`` from 0.55) and the tenth
    more than half as much: many passages have the query's words, and which of them answers it, if any does, is in no score.
    A hit that only meaning scored has the calibration of its model, and a channel that states a confidence keeps it.
    """

    def __init__(self, query_text: str, fused: Sequence[Fused], envelopes: Mapping[ChannelName, Envelope]) -> None:
        super().__init__()
        self._places = {hit.chunk_id: position for position, hit in enumerate(fused, start=1)}
        self._fused = fused
        self._envelopes = envelopes
        self._is_unspaced = holds_unspaced(query_text)
        words = envelopes.get(ChannelName.KEYWORD)
        scores = words.scores if words is not None else ()
        first, tenth = scores[0] if scores else 0.0, scores[_FIRST - 1] if len(scores) >= _FIRST else 0.0
        self._spread = 1 - tenth / first if first > 0 else 0.0
        covered = self._covered(first, words)
        self.is_untold = covered is not None and math.sqrt(covered) >= _WELL_COVERED and self._spread < _FLAT

    def __missing__(self, chunk_id: str) -> float | None:
        hit = self._fused[self._places[chunk_id] - 1]  # type: ignore[index]
        own = [stated for part in hit.contributions if (stated := _own(part, self._envelopes)) is not None]
        told = None if self.is_untold else self._told(hit)
        known = own if told is None else [*own, told]
        confidence = self[chunk_id] = max(known, default=None if self.is_untold else 0.0)
        return confidence

    def signs(self, hit: Fused) -> tuple[float | None, float | None]:
        """Return ``sqrt(w) * spread`` and ``m`` of a hit; None for a search that did not score it."""
        parts = {part.channel: part for part in hit.contributions}
        part, semantic = parts.get(ChannelName.KEYWORD), self._envelopes.get(ChannelName.SEMANTIC)
        words = None
        if part is not None and part.score is not None:
            words = self._covered(part.score, self._envelopes.get(ChannelName.KEYWORD))
        meaning = _meaning(parts, self._envelopes)
        return (
            None if words is None else math.sqrt(words) * self._spread,
            None if meaning is None or semantic is None else meaning * semantic.trust,
        )

    def _told(self, hit: Fused) -> float:
        standing, read = self.signs(hit)
        place = math.pow(self._places[hit.chunk_id], _PLACE)
        if standing is not None:
            rule = WORDS if read is None else BOTH
            return _logistic(rule.intercept + rule.standing * standing + rule.meaning * (read or 0.0)) / place
        meaning = _meaning({part.channel: part for part in hit.contributions}, self._envelopes)
        if meaning is None:
            return 0.0
        model = calibrations_of(self._envelopes[ChannelName.SEMANTIC].model)[
            "unspaced" if self._is_unspaced else "spaced"
        ]
        return _logistic(model.intercept + model.meaning * meaning) * _logistic(model.leading) / place

    def _covered(self, score: float, words: Envelope | None) -> float | None:
        if words is None or not words.upper_bound:
            return None
        return _share(score / words.upper_bound * (PAIRS if self._is_unspaced else 1.0))


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
