"""Steering jobs, and dead letters: documents that failed for good."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from chordwise.api.options import DeadLetterFilters
from chordwise.api.results import Job
from chordwise.errors import InvalidInput, UnexpectedAnswer
from chordwise.records import Result
from chordwise.resource import Requesting, segment
from chordwise.transport import Answer, Steps


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


_LETTERS = "/v1/dead-letters"


class ControlOperations(Requesting):
    """What ``Operations`` can do to jobs and dead letters. Every call may be sent twice."""

    def cancel_job(self, job_id: str) -> Steps[Job]:
        """Call back every document of a job that is not done. ProblemError with status 409 if it ended by itself."""
        return self._one(Job, "POST", f"/v1/jobs/{segment(job_id)}/cancel")

    def retry_job(self, job_id: str) -> Steps[Job]:
        """Queue what failed or was cancelled again. ProblemError with status 409 if there is nothing to try."""
        return self._one(Job, "POST", f"/v1/jobs/{segment(job_id)}/retry")

    def pause_job(self, job_id: str) -> Steps[Job]:
        """Let workers take nothing more of a job until it is resumed."""
        return self._one(Job, "POST", f"/v1/jobs/{segment(job_id)}/pause")

    def resume_job(self, job_id: str) -> Steps[Job]:
        """Let workers go on with a paused job."""
        return self._one(Job, "POST", f"/v1/jobs/{segment(job_id)}/resume")

    def dead_letters(self, *, limit: int | None = 100, **chosen: Unpack[DeadLetterFilters]) -> Steps[list[DeadLetter]]:
        """Documents that failed for good, the latest first: those that fit every filter given."""
        return self._pages(DeadLetter, _LETTERS, chosen, limit=limit)

    def dead_letter(self, letter_id: str) -> Steps[DeadLetter]:
        """One dead letter."""
        return self._one(DeadLetter, "GET", f"{_LETTERS}/{segment(letter_id)}")

    def replay_dead_letter(self, letter_id: str) -> Steps[int]:
        """Try one again; gives 1."""
        return _replayed((yield from self._request("POST", f"{_LETTERS}/{segment(letter_id)}/replay")))

    def replay_dead_letters(self, *, everything: bool = False, **chosen: Unpack[DeadLetterFilters]) -> Steps[int]:
        """Try again those that fit every filter given, or, with no filter, ``everything``. Gives how many."""
        body = {name: value for name, value in chosen.items() if value is not None}
        if everything == bool(body):
            raise InvalidInput("name which dead letters to replay, or say that it is all of them")
        answer = yield from self._request("POST", f"{_LETTERS}/replay", body={"all": True} if everything else body)
        return _replayed(answer)

    def drop_dead_letter(self, letter_id: str) -> Steps[None]:
        """Give one up: its bytes are deleted, in its job it stays failed."""
        yield from self._request("DELETE", f"{_LETTERS}/{segment(letter_id)}")


def _replayed(answer: Answer) -> int:
    said = answer.json()
    if not isinstance(said, dict) or not isinstance(said.get("replayed"), int):
        raise UnexpectedAnswer("the answer does not say how many were replayed")
    return int(said["replayed"])
