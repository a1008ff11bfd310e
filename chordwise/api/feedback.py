"""Users' ratings of hits, and the judgments made of them."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict, Unpack

from chordwise.api.queries import QueryResult, query_id_of
from chordwise.contract import ratings
from chordwise.errors import InvalidInput
from chordwise.resource import Resource, given, operation, path
from chordwise.transport import Steps

_PER_PAGE = 200


Feedback = ratings.FeedbackShape
JudgedText = ratings.JudgedQuery


class FeedbackKeywords(TypedDict, total=False):
    """The subject of feedback: a chunk or a document, with the namespace of the latter where several hold it; the session
    of the user, and a note."""

    chunk_id: str | None
    document_id: str | None
    namespace: str | None
    note: str | None
    session_id: str | None


class FeedbackOperations(Resource):
    """Operations on feedback. Every call may be sent twice."""

    @operation
    def feedback(self, query: QueryResult | str, rating: str, **said: Unpack[FeedbackKeywords]) -> Steps[Feedback]:
        """Rate a hit of a query: ``good``, ``bad``, or ``click`` if it was opened.

        ``said``: ``chunk_id`` or ``document_id``, and optionally more, see FeedbackKeywords. A repeated rating counts
        once. ProblemError with status 404 once the query has expired, after an hour by default.
        """
        body = given(rating=rating, **said)
        if ("chunk_id" in body) == ("document_id" in body):
            raise InvalidInput("give either chunk_id or document_id")
        return self._one(Feedback, "POST", path("queries", query_id_of(query), "feedback"), body=body)

    @operation
    def feedback_given(
        self,
        *,
        since: datetime | str | None = None,
        namespace: str | None = None,
        rating: str | None = None,
        limit: int | None = 100,
    ) -> Steps[list[Feedback]]:
        """List feedback that fits every filter, newest first; ``limit`` None for all."""
        filters = {"since": since, "namespace": namespace, "rating": rating}
        return self._pages(Feedback, "/v1/feedback", filters, limit=limit, at_most=_PER_PAGE)

    @operation
    def take_back(self, feedback: Feedback | str) -> Steps[None]:
        """Delete a rating. ProblemError with status 404 if there is none."""
        return self._delete(path("feedback", feedback if isinstance(feedback, str) else feedback.feedback_id))

    @operation
    def judgments(self, *, namespace: str, min_votes: float | None = None) -> Steps[list[JudgedText]]:
        """Return the judged questions with the grades of their documents."""
        filters = {"namespace": namespace, "min_votes": min_votes}
        return self._pages(JudgedText, "/v1/feedback/judgments", filters, at_most=_PER_PAGE)
