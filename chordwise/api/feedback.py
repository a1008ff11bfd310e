"""Users' ratings of hits, and the judgments made of them."""

from __future__ import annotations

from datetime import datetime

from chordwise.api.queries import QueryResult, query_id_of
from chordwise.contract import ratings
from chordwise.errors import InvalidInput
from chordwise.resource import Resource, given, operation, path
from chordwise.transport import Steps

_PER_PAGE = 200


Feedback = ratings.FeedbackShape
JudgedText = ratings.JudgedQuery


class FeedbackOperations(Resource):
    """Operations on feedback. Every call may be sent twice."""

    @operation
    def feedback(
        self,
        query: QueryResult | str,
        rating: str,
        *,
        chunk_id: str | None = None,
        document_id: str | None = None,
        namespace: str | None = None,
        note: str | None = None,
        session_id: str | None = None,
    ) -> Steps[Feedback]:
        """Rate a hit of a query: ``good``, ``bad``, or ``click`` if it was opened.

        Give ``chunk_id`` or ``document_id``, the latter with its ``namespace`` where several hold it; ``session_id``: of the
        user. A repeated rating counts once. ProblemError with status 404 once the query has expired, after an hour by
        default.
        """
        subject = {"chunk_id": chunk_id, "document_id": document_id, "namespace": namespace}
        body = given(rating=rating, **subject, note=note, session_id=session_id)
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
