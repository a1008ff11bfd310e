"""The probability that a hit is relevant, from the evidence of the channels; comparable between queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import get_args

from pipeline.embedding.distance import ORTHOGONAL
from pipeline.keyword.terms import holds_unspaced
from pipeline.local_models import Calibration, Evidence, Writing, calibrations_of
from pipeline.query.request import Envelope
from pipeline.ranking.fusion import Contribution, Fused
from pipeline.records import ChannelName


def confidences(query_text: str, fused: Sequence[Fused], envelopes: Mapping[ChannelName, Envelope]) -> Confidences:
    """Return the confidence of each fused hit, in [0, 1], by chunk id: keyword and semantic evidence calibrated
    together by the semantic channel's model, at least another channel's score over its bound."""
    semantic = envelopes.get(ChannelName.SEMANTIC)
    calibrations = calibrations_of(semantic.model if semantic else None)
    writing: Writing = "unspaced" if holds_unspaced(query_text) else "spaced"
    return Confidences(fused, envelopes, {kind: calibrations[kind, writing] for kind in get_args(Evidence)})


class Confidences(dict[str, float]):
    """Confidences by chunk id, computed on first access: most fused hits never need one."""

    def __init__(
        self, fused: Sequence[Fused], envelopes: Mapping[ChannelName, Envelope], models: Mapping[Evidence, Calibration]
    ) -> None:
        super().__init__()
        self._places = {hit.chunk_id: position for position, hit in enumerate(fused)}
        self._fused = fused
        self._envelopes = envelopes
        self._models = models
        judged = (evidence for hit in fused if (evidence := self._evidence(hit)[1]) is not None)
        self._first = next(judged, 0.0)

    def __missing__(self, chunk_id: str) -> float:
        position = self._places[chunk_id]  # type: ignore[index]
        hit = self._fused[position]
        own = max((_own(part, self._envelopes) for part in hit.contributions), default=0.0)
        model, evidence = self._evidence(hit)
        calibrated = 0.0
        if model is not None and evidence is not None:
            calibrated = _logistic(evidence) * _logistic(
                model.leading + model.gap * min(0.0, evidence - self._first) + model.place * math.log(position + 1)
            )
        confidence = self[chunk_id] = max(own, calibrated)
        return confidence

    def _evidence(self, hit: Fused) -> tuple[Calibration | None, float | None]:
        """Return the log odds of a hit by its words and meaning, and the model that gives them."""
        parts = {part.channel: part for part in hit.contributions}
        words, meaning = _words(parts, self._envelopes), _meaning(parts, self._envelopes)
        if words is None and meaning is None:
            return None, None
        model = self._models["words" if meaning is None else "meaning" if words is None else "words_and_meaning"]
        return model, model.intercept + model.words * math.sqrt(words or 0.0) + model.meaning * (meaning or 0.0)


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
    """Return the confidence that an uncalibrated channel states for a hit it recalled; 0 for the others."""
    envelope = envelopes.get(part.channel)
    calibrated = part.channel in (ChannelName.KEYWORD, ChannelName.SEMANTIC)
    if calibrated or part.rank is None or part.score is None or envelope is None or not envelope.upper_bound:
        return 0.0
    return _share(part.score / envelope.upper_bound)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-max(-500.0, x)))
