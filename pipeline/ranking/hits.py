"""A hit after fusion, as the later stages receive and return it, and the probability that it is relevant."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args

from pipeline.embedding.distance import ORTHOGONAL
from pipeline.filters.python_filters import fields_named
from pipeline.keyword.terms import holds_unspaced
from pipeline.local_models import Calibration, Evidence, Writing, calibrations_of
from pipeline.query.request import Envelope
from pipeline.ranking.fusion import Contribution, Fused
from pipeline.records import ChannelName


@dataclass(frozen=True, slots=True, kw_only=True)
class Hydrated:
    """A hit's passage with its text, from the store or from the channel that supplied it."""

    chunk_id: str
    document_id: str
    namespace: str
    title: str | None
    text: str
    heading_path: tuple[str, ...] = ()
    published_at: datetime | None = None
    updated_at: datetime | None = None
    story_time: int | None = None
    metadata: Mapping[str, Any]
    parent_id: str | None = None
    window: int = 0
    chunk_type: str | None = None
    chapter_id: str | None = None
    entity_names: tuple[str, ...] = ()
    page: int | None = None
    page_end: int | None = None
    start: int | None = None
    end: int | None = None
    source_uri: str | None = None
    reworded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A hit in its present order. ``score`` orders; each stage that changes it has a field of its own.

    ``confidence``: the probability that it is relevant (`confidences`). ``decay``: the share of the fused score
    that age leaves. ``rerank``: the reranker's score, None if it did not read this hit. ``from_rank``: the rank before
    reranking, from 1. ``duplicates``: the hits merged into this one. ``likeness``: the similarity to the hits above it,
    where diversity is on.
    """

    fused: Fused
    passage: Hydrated
    score: float
    confidence: float = 0.0
    decay: float | None = None
    rerank: float | None = None
    from_rank: int = 0
    duplicates: tuple[str, ...] = ()
    likeness: float | None = None

    @property
    def chunk_id(self) -> str:
        """The id of its chunk."""
        return self.fused.chunk_id

    @property
    def document(self) -> tuple[str, str]:
        """The namespace and the id of its document."""
        return self.passage.namespace, self.passage.document_id

    def as_drop(self, stage: str, reason: str, value: float | None, limit: float | None) -> Drop:
        """Return the record of a stage that drops this hit."""
        return Drop(chunk_id=self.chunk_id, stage=stage, reason=reason, value=value, limit=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A candidate that a stage dropped: the rule, the candidate's number, and the number it needed."""

    chunk_id: str
    stage: str
    reason: str
    value: float | None = None
    limit: float | None = None


def fields_of(hit: Hydrated) -> dict[str, Any]:
    """Return the fields that conditions apply to: the hit's metadata as the answer shows it, its title and its ids."""
    return fields_named(
        hit.metadata, title=hit.title, document_id=hit.document_id, chunk_id=hit.chunk_id, namespace=hit.namespace
    )


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
