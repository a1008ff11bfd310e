"""Dead letters: documents that failed for good."""

from __future__ import annotations

from typing import TypedDict, Unpack

from chordwise.contract import job
from chordwise.errors import InvalidInput, UnexpectedAnswer
from chordwise.resource import Resource, given, operation, path
from chordwise.transport import Answer, Steps

PayloadReference = job.PayloadReference
DeadLetter = job.DeadLetter


class DeadLetterFilters(TypedDict, total=False):
    """Filters of dead letters; a letter must fit all of them. ``reason``: rejected, gave_up or bug."""

    job_id: str | None
    namespace: str | None
    code: str | None
    reason: str | None


class DeadLetterOperations(Resource):
    """Operations on dead letters. Every call may be sent twice."""

    @operation
    def dead_letters(self, *, limit: int | None = 100, **chosen: Unpack[DeadLetterFilters]) -> Steps[list[DeadLetter]]:
        """List documents that failed for good and fit every filter, the latest first."""
        return self._pages(DeadLetter, path("dead-letters"), chosen, limit=limit)

    @operation
    def dead_letter(self, letter_id: str) -> Steps[DeadLetter]:
        """Return one dead letter."""
        return self._one(DeadLetter, "GET", path("dead-letters", letter_id))

    @operation
    def replay_dead_letter(self, letter_id: str) -> Steps[int]:
        """Queue one document again; returns 1. Raises an error with the code ``not_retryable`` where that cannot help."""
        return _replayed((yield from self._request("POST", path("dead-letters", letter_id, "replay"))))

    @operation
    def replay_dead_letters(self, *, everything: bool = False, **chosen: Unpack[DeadLetterFilters]) -> Steps[int]:
        """Queue again all that fit every filter, or, without filters, ``everything``, as far as that can help; with ``code``
        the others that have it too. Returns their number."""
        filters = given(**chosen)
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
