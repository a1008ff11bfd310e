"""Dead letters: documents that failed for good."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict, Unpack

from chordwise.errors import InvalidInput, UnexpectedAnswer
from chordwise.records import Result
from chordwise.resource import Resource, operation, segment
from chordwise.transport import Answer, Steps

_LETTERS = "/v1/dead-letters"


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadReference(Result):
    """What was to be ingested, without its text. ``available``: it can still be tried again."""

    media_type: str | None = None
    uri: str | None = None
    bytes: int = 0
    content_hash: str | None = None
    available: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(Result):
    """A document that failed for good. ``reason``: rejected (it is at fault), gave_up (something was away at every
    attempt) or bug. ``stage``: the last step it had finished."""

    id: str
    job_id: str
    document_id: str
    namespace: str = ""
    generation: int = 0
    reason: str = ""
    code: str = ""
    detail: str | None = None
    stage: str = ""
    attempts: int = 0
    failed_at: datetime | None = None
    payload: PayloadReference = PayloadReference()


class DeadLetterFilters(TypedDict, total=False):
    """Which dead letters: those that fit every filter given. ``reason``: rejected, gave_up or bug."""

    job_id: str | None
    namespace: str | None
    code: str | None
    reason: str | None


class DeadLetterOperations(Resource):
    """Operations on dead letters. Every call may be sent twice."""

    @operation
    def dead_letters(self, *, limit: int | None = 100, **chosen: Unpack[DeadLetterFilters]) -> Steps[list[DeadLetter]]:
        """Documents that failed for good, the latest first: those that fit every filter given."""
        return self._pages(DeadLetter, _LETTERS, chosen, limit=limit)

    @operation
    def dead_letter(self, letter_id: str) -> Steps[DeadLetter]:
        """One dead letter."""
        return self._one(DeadLetter, "GET", f"{_LETTERS}/{segment(letter_id)}")

    @operation
    def replay_dead_letter(self, letter_id: str) -> Steps[int]:
        """Try one again; gives 1."""
        return _replayed((yield from self._request("POST", f"{_LETTERS}/{segment(letter_id)}/replay")))

    @operation
    def replay_dead_letters(self, *, everything: bool = False, **chosen: Unpack[DeadLetterFilters]) -> Steps[int]:
        """Try again those that fit every filter given, or, with no filter, ``everything``. Gives how many."""
        body = {name: value for name, value in chosen.items() if value is not None}
        if everything == bool(body):
            raise InvalidInput("name which dead letters to replay, or say that it is all of them")
        answer = yield from self._request("POST", f"{_LETTERS}/replay", body={"all": True} if everything else body)
        return _replayed(answer)

    @operation
    def drop_dead_letter(self, letter_id: str) -> Steps[None]:
        """Give one up: its bytes are deleted, in its job it stays failed."""
        yield from self._request("DELETE", f"{_LETTERS}/{segment(letter_id)}")


def _replayed(answer: Answer) -> int:
    said = answer.json()
    if not isinstance(said, dict) or not isinstance(said.get("replayed"), int):
        raise UnexpectedAnswer("the answer does not say how many were replayed")
    return int(said["replayed"])
