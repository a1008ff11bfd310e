"""Feedback and the judgments made of it, on the wire."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from api_gateway.http.fields import Label, NamespaceName, Wire
from api_gateway.resources.shapes import Shape, shown
from pipeline.administration import rate as flow
from pipeline.feedback import judgments as core
from pipeline.records import TenantId

RatingName = Literal["good", "bad", "click"]
HitId = Annotated[str, Field(min_length=1, max_length=255)]


class FeedbackRequest(Wire):
    """What somebody thought of one hit: `good`, `bad`, or `click` for having opened it. Either `chunk_id` or `document_id`
    says which. `namespace`: where the document is, should several namespaces of the query hold it. `session_id`: who
    says so, by default the query's session."""

    rating: RatingName
    chunk_id: HitId | None = None
    document_id: HitId | None = None
    namespace: NamespaceName | None = None
    note: Annotated[str, Field(max_length=2000)] | None = None
    session_id: Label | None = None
    tenant_id: str | None = None

    @model_validator(mode="after")
    def _names_one_thing(self) -> Self:
        if (self.chunk_id is None) == (self.document_id is None):
            raise ValueError("must name either chunk_id or document_id")
        return self

    @property
    def said(self) -> flow.RatingRequest:
        """What is said."""
        return flow.RatingRequest(
            rating=core.Rating(self.rating),
            chunk_id=self.chunk_id,
            document_id=self.document_id,
            namespace=self.namespace,
            note=self.note,
            session_id=self.session_id,
        )


class FeedbackShape(Shape):
    """One rating of one hit. `created_at`: when it was first given, `rated_at`: when it was last given. `place` in the
    answer counts from 1; it, `score` and `source` are null for what the answer did not hold."""

    feedback_id: str
    created_at: datetime
    rated_at: datetime
    query_id: str
    query_text: str
    namespaces: list[str]
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


class FeedbackPage(Shape):
    """Feedback, the newest first."""

    data: list[FeedbackShape]
    next_cursor: str | None


class JudgmentVotes(Shape):
    """Who said so: by session, or by query where no session is known. `votes`: good and bad count 1, a click 0.5."""

    good: int
    bad: int
    clicks: int
    votes: float
    rated_at: datetime


class JudgedQuery(Shape):
    """A question with the grades of the documents that people judged: 2 good, 1 opened, 0 bad. With `query_id` and
    `votes` left out it is a query for the comparison of two models."""

    query_id: str
    tenant_id: str
    namespaces: list[str]
    query_text: str
    relevant: dict[str, int]
    votes: dict[str, JudgmentVotes]


class JudgmentPage(Shape):
    """Judged questions, in the order of their ids. A page may hold fewer than were asked for."""

    data: list[JudgedQuery]
    next_cursor: str | None


class ArmResult(Shape):
    """One arm. Of its searches: `failed`, no channel answered; `empty`, nothing but the last resort was found;
    `degraded`, something was lost; `cached`, answered by what the same question got before, and left out of
    `mean_latency_ms`. Of what people thought: `queries` and `sessions`, how many were rated, any way."""

    bucket: str
    searches: int
    failed: int
    empty: int
    degraded: int
    cached: int
    mean_latency_ms: float | None
    good: int
    bad: int
    clicks: int
    queries: int
    sessions: int
    mean_click_place: float | None


class ExperimentResults(Shape):
    """What came of the searches and what people thought, by arm; the first is what the others are compared with."""

    experiment_id: str
    buckets: list[ArmResult]


def feedback(given: core.Feedback) -> dict[str, Any]:
    """One rating as it is sent."""
    return shown(FeedbackShape, given)


def judged_query(tenant_id: TenantId, namespace: str, judged: core.JudgedText) -> dict[str, Any]:
    """One judged question as it is sent."""
    return {
        "query_id": judged.key,
        "tenant_id": tenant_id,
        "namespaces": [namespace],
        "query_text": judged.query_text,
        "relevant": {each.document_id: each.grade for each in judged.documents},
        "votes": {each.document_id: shown(JudgmentVotes, each) for each in judged.documents},
    }


def arm(result: flow.ArmResult) -> dict[str, Any]:
    """One arm as it is sent."""
    counted = {**asdict(result.thought), **asdict(result.searched)}
    return {name: counted[name] for name in ArmResult.model_fields}
