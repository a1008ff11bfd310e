"""Users' ratings of hits, and the judgments made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict, Unpack

from chordwise.api.queries import QueryResult
from chordwise.errors import InvalidInput
from chordwise.records import Result
from chordwise.resource import Resource, operation, segment
from chordwise.transport import Steps

_PER_PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback(Result):
    """One rating of one hit: good, bad or click. ``created_at``: when it was first given, ``rated_at``: when last.
    ``place`` in the answer counts from 1, and is None for what the answer did not hold."""

    feedback_id: str
    query_id: str
    rating: str
    namespace: str
    document_id: str
    chunk_id: str | None = None
    query_text: str = ""
    note: str | None = None
    place: int | None = None
    score: float | None = None
    profile: str = ""
    config_version: int | None = None
    experiment_id: str | None = None
    experiment_bucket: str | None = None
    session_id: str | None = None
    created_at: datetime | None = None
    rated_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedText(Result):
    """A question that people judged answers to; ``relevant`` has the grade of each document: 2 good, 1 opened, 0 bad."""

    query_id: str
    query_text: str
    tenant_id: str = ""
    namespaces: tuple[str, ...] = ()
    relevant: Mapping[str, int] = field(default_factory=dict)


class FeedbackKeywords(TypedDict, total=False):
    """What feedback is about: a chunk or a document, the namespace of the latter where several hold it; who says it, and
    why."""

    chunk_id: str | None
    document_id: str | None
    namespace: str | None
    note: str | None
    session_id: str | None


class FeedbackOperations(Resource):
    """Operations on feedback. Every call may be sent twice."""

    @operation
    def feedback(self, query: QueryResult | str, rating: str, **said: Unpack[FeedbackKeywords]) -> Steps[Feedback]:
        """Say what a hit of a query was worth: ``good``, ``bad``, or ``click`` for having opened it.

        ``said``: ``chunk_id`` or ``document_id``, and perhaps more, see FeedbackKeywords. The same said twice counts
        once. ProblemError with status 404 once the query is forgotten, after an hour by default.
        """
        given = {name: value for name, value in said.items() if value is not None}
        if ("chunk_id" in given) == ("document_id" in given):
            raise InvalidInput("feedback is about either a chunk or a document")
        query_id = query if isinstance(query, str) else query.query_id
        return self._one(
            Feedback, "POST", f"/v1/queries/{segment(query_id)}/feedback", body={"rating": rating, **given}
        )

    @operation
    def feedback_given(
        self,
        *,
        since: datetime | str | None = None,
        namespace: str | None = None,
        rating: str | None = None,
        limit: int | None = 100,
    ) -> Steps[list[Feedback]]:
        """Feedback that fits every filter given, the newest first; ``limit`` None for all."""
        asked = {"since": since, "namespace": namespace, "rating": rating}
        return self._pages(Feedback, "/v1/feedback", asked, limit=limit, at_most=_PER_PAGE)

    @operation
    def take_back(self, feedback: Feedback | str) -> Steps[None]:
        """Forget a rating; one that is not there raises ProblemError with status 404."""
        feedback_id = _id(feedback)
        yield from self._request("DELETE", f"/v1/feedback/{segment(feedback_id)}")

    @operation
    def judgments(self, *, namespace: str, min_votes: float | None = None) -> Steps[list[JudgedText]]:
        """The questions that people judged answers to, with the grades of their documents."""
        asked = {"namespace": namespace, "min_votes": min_votes}
        return self._pages(JudgedText, "/v1/feedback/judgments", asked, at_most=_PER_PAGE)


def _id(feedback: Feedback | str) -> str:
    return feedback if isinstance(feedback, str) else feedback.feedback_id
