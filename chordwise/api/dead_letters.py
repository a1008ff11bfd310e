"""Dead letters: documents that failed for good."""

from __future__ import annotations

from chordwise.contract import job
from chordwise.errors import InvalidInput, UnexpectedAnswer
from chordwise.resource import Resource, given, operation, path
from chordwise.transport import Answer, Steps

PayloadReference = job.PayloadReference
DeadLetter = job.DeadLetter


class DeadLetterOperations(Resource):
    """Operations on dead letters. Every call may be sent twice."""

    @operation
    def dead_letters(
        self,
        *,
        job_id: str | None = None,
        namespace: str | None = None,
        code: str | None = None,
        reason: str | None = None,
        limit: int | None = 100,
    ) -> Steps[list[DeadLetter]]:
        """List documents that failed for good and fit every filter, the latest first. ``reason``: rejected, gave_up or
        bug."""
        filters = {"job_id": job_id, "namespace": namespace, "code": code, "reason": reason}
        return self._pages(DeadLetter, path("dead-letters"), filters, limit=limit)

    @operation
    def dead_letter(self, letter_id: str) -> Steps[DeadLetter]:
        """Return one dead letter."""
        return self._one(DeadLetter, "GET", path("dead-letters", letter_id))

    @operation
    def replay_dead_letter(self, letter_id: str) -> Steps[int]:
        """Queue one document again; returns 1. Raises an error with the code ``not_retryable`` where that cannot help."""
        return _replayed((yield from self._request("POST", path("dead-letters", letter_id, "replay"))))

    @operation
    def replay_dead_letters(
        self,
        *,
        everything: bool = False,
        job_id: str | None = None,
        namespace: str | None = None,
        code: str | None = None,
        reason: str | None = None,
    ) -> Steps[int]:
        """Queue again all that fit every filter, or, without filters, ``everything``, as far as that can help; with ``code``
        the others that have it too. Returns their number."""
        filters = given(job_id=job_id, namespace=namespace, code=code, reason=reason)
        if everything == bool(filters):
            raise InvalidInput("give filters for the dead letters to replay, or everything=True, and not both")
        body = {"all": True} if everything else filters
        return _replayed((yield from self._request("POST", path("dead-letters", "replay"), body=body)))

    @operation
    def drop_dead_letter(self, letter_id: str) -> Steps[None]:
        """Give up one document: delete its bytes; in its job it stays failed."""
        return self._delete(path("dead-letters", letter_id))


def _replayed(answer: Answer) -> int:
    body = answer.json()
    if not isinstance(body, dict) or not isinstance(body.get("replayed"), int):
        raise UnexpectedAnswer("the answer lacks the number of replayed documents")
    return int(body["replayed"])
