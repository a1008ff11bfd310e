"""Explanations of answers, and answers in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from chordwise.contract.answer import Degradation
from chordwise.contract.record import Answered, Complete

TraceMark = Literal["slow", "degraded", "failed", "empty", "requested", "sampled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary(Answered):
    """A kept trace. `marks`: the reasons why it is kept. `text`: the first 300 characters of the question. `total_ms`: from
    the request to the answer."""

    query_id: str
    asked_at: datetime
    text: str
    namespaces: tuple[str, ...]
    profile: str
    marks: tuple[TraceMark, ...]
    total_ms: float
    chunks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot(Answered):
    """The first stage at which the chunk was lost, and the number that decided it. `replayed`: the query had no trace
    and was run again to find out. `channels`: its score and rank in each, and the last recalled score."""

    chunk_id: str
    document_id: str | None
    stage: str
    reason: str
    detail: str
    value: float | None
    limit: float | None
    channels: Mapping[str, Mapping[str, Any]]
    replayed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(Answered):
    """The change of the answer. `plan`: the settings that differ. `overlap`: the share of common chunks."""

    plan: tuple[Mapping[str, Any], ...]
    overlap: float
    same_order: bool
    moved: tuple[Mapping[str, Any], ...]
    added: tuple[Mapping[str, Any], ...]
    removed: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCitation(Answered):
    """The passage that `marker` stands for in the text."""

    marker: str
    chunk_id: str
    document_id: str
    namespace: str
    title: str | None
    page: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAnswer(Complete):
    """An answer in words. `found`: whether the passages hold an answer; null without a text. `citations`: in order of
    first mention; each of them is in the query's answer. `dropped_markers`: cited by the model though no passage has
    them, and removed from the text. `failed`: there is no text, and `degradations` names the reason (`rate_limited`,
    `writer_unavailable`, `unusable_reply`, `uncited_reply`, `no_passages`)."""

    query_id: str
    status: Literal["succeeded", "failed"]
    found: bool | None
    text: str | None
    citations: tuple[WrittenCitation, ...] = ()
    dropped_markers: tuple[str, ...] = ()
    model: str
    latency_ms: float
    degraded: bool = False
    degradations: tuple[Degradation, ...] = ()
