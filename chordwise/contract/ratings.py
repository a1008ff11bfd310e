"""Ratings of hits."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from chordwise.contract.record import Answered, Complete

RatingName = Literal["good", "bad", "click"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackShape(Complete):
    """One rating of one hit. `created_at`: when it was first given, `rated_at`: when it was last given. `place` in the
    answer counts from 1; it, `score` and `source` are null for a chunk that was not in the answer."""

    feedback_id: str
    created_at: datetime
    rated_at: datetime
    query_id: str
    query_text: str
    namespaces: tuple[str, ...]
    namespace: str
    document_id: str
    chunk_id: str | None
    rating: RatingName
    note: str | None = None
    place: int | None = None
    score: float | None = None
    source: str | None = None
    profile: str
    config_version: int
    experiment_id: str | None = None
    experiment_bucket: str | None = None
    session_id: str | None = None
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgmentVotes(Answered):
    """The number of raters: sessions, or queries where no session is known. `votes`: good and bad count 1, a click 0.5."""

    good: int
    bad: int
    clicks: int
    votes: float
    rated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedQuery(Answered):
    """A question with the grades of the judged documents: 2 good, 1 opened, 0 bad. Without `query_id` and `votes` it is
    a query for the comparison of two models."""

    query_id: str
    tenant_id: str
    namespaces: tuple[str, ...]
    query_text: str
    relevant: Mapping[str, int]
    votes: Mapping[str, JudgmentVotes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult(Complete):
    """One arm. Of its searches: `failed`, no channel answered; `empty`, only the last resort was found; `degraded`, a
    part was lost; `cached`, answered from the answer cache, and left out of `mean_latency_ms`. Of its feedback:
    `queries` and `sessions`, the number rated in any way."""

    bucket: str
    searches: int = 0
    failed: int = 0
    empty: int = 0
    degraded: int = 0
    cached: int = 0
    mean_latency_ms: float | None = None
    good: int = 0
    bad: int = 0
    clicks: int = 0
    queries: int = 0
    sessions: int = 0
    mean_click_place: float | None = None
