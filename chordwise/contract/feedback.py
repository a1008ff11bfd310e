"""Ratings of hits."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from chordwise.contract.record import Answered

RatingName = Literal["good", "bad", "click"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackShape(Answered):
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
    note: str | None
    place: int | None
    score: float | None
    source: str | None
    profile: str
    config_version: int
    experiment_id: str | None
    experiment_bucket: str | None
    session_id: str | None
    request_id: str
