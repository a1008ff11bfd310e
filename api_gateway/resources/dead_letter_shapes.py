"""Dead letters on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from api_gateway.http.fields import NamespaceName, Wire
from api_gateway.resources.shapes import Shape, shown
from pipeline.jobs import dead_letter_store as store

Reason = Literal["rejected", "gave_up", "bug"]
Code = Annotated[str, Field(min_length=1, max_length=64, pattern="^[a-z0-9_]+$")]


class PayloadReference(Shape):
    """What was to be ingested, without its text. `available` is false once it cannot be tried again."""

    media_type: str | None
    uri: str | None
    bytes: int
    content_hash: str | None
    available: bool


class DeadLetter(Shape):
    """A document that failed for good. `reason`: it is at fault, something was away at every attempt, or we are at
    fault. `stage`: the last step it had finished."""

    id: str
    job_id: str
    ordinal: int
    namespace: str
    document_id: str
    generation: int
    reason: Reason
    code: str
    detail: str | None
    stage: str
    attempts: int
    failed_at: datetime
    payload: PayloadReference


class DeadLetterPage(Shape):
    """Dead letters, the latest first."""

    data: list[DeadLetter]
    next_cursor: str | None


class Replayed(Shape):
    """How many documents are queued again."""

    replayed: int


class ReplayRequest(Wire):
    """Which dead letters to try again: those that fit every field given, or all with `{"all": true}`."""

    tenant_id: str | None = None
    all: bool = False
    job_id: str | None = None
    namespace: NamespaceName | None = None
    code: Code | None = None
    reason: Reason | None = None

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        chosen = any(value is not None for value in (self.job_id, self.namespace, self.code, self.reason))
        if self.all == chosen:
            raise ValueError('must name job_id, namespace, code or reason, or else be {"all": true}')
        return self


def dead_letter(letter: store.DeadLetter) -> dict[str, Any]:
    """A dead letter as it is sent."""
    place, payload = letter.place, letter.payload
    sent = shown(PayloadReference, payload, uri=payload.source_uri, bytes=payload.body_bytes)
    return shown(DeadLetter, letter, id=place.to_id(), job_id=place.job_id, ordinal=place.ordinal, payload=sent)
