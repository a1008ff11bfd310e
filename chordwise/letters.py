"""Dead letters as the server answers them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from chordwise.decoding import Result


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
