"""Generations of a document: what is left of them, and going back to the one before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from chordwise.decoding import Result, decode
from chordwise.results import Job
from chordwise.retries import RetryPolicy, exchange
from chordwise.transport import Call, Steps, encode


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationInfo(Result):
    """One ingestion of a document. ``state``: shown, previous (can be gone back to until ``kept_until``), pending,
    failed, cancelled or retired. ``bytes``: the size of what was sent."""

    generation: int
    state: str = ""
    title: str | None = None
    created_at: datetime | None = None
    kept_until: datetime | None = None
    chunks: int | None = None
    content_hash: str = ""
    bytes: int = 0
    job_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentGenerations(Result):
    """What is left of a document's generations, the newest first. ``etag`` names this state."""

    namespace: str = ""
    document_id: str = ""
    etag: str = ""
    data: tuple[GenerationInfo, ...] = ()


class GenerationOperations:
    """What ``Operations`` can do with generations."""

    _policy: RetryPolicy
    _clock: Callable[[], float]

    def generations(self, document_id: str, *, namespace: str) -> Steps[DocumentGenerations]:
        """The generations of one document."""
        path = f"/v1/documents/{_segment(document_id)}/generations"
        call = Call(method="GET", path=path, params=(("namespace", namespace),))
        answer = yield from exchange(call, self._policy, clock=self._clock)
        return decode(DocumentGenerations, answer.json())

    def rollback(self, document_id: str, *, namespace: str, generation: int | None, etag: str | None) -> Steps[Job]:
        """Go back to a kept generation. Sent twice it would be undone, so it is not repeated."""
        body: dict[str, Any] = {"namespace": namespace}
        if generation is not None:
            body["generation"] = generation
        call = Call(
            method="POST",
            path=f"/v1/documents/{_segment(document_id)}/rollback",
            content=encode(body),
            headers={} if etag is None else {"If-Match": etag},
            safe=False,
        )
        answer = yield from exchange(call, self._policy, clock=self._clock)
        return decode(Job, answer.json())


def _segment(identifier: str) -> str:
    return quote(identifier, safe="", errors="surrogatepass")
