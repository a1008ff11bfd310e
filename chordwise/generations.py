"""Generations of a document: what is left of them, and going back to the one before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chordwise.decoding import Result
from chordwise.requesting import Requesting, segment
from chordwise.results import Job
from chordwise.transport import Steps


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


class GenerationOperations(Requesting):
    """What ``Operations`` can do with generations."""

    def generations(self, document_id: str, *, namespace: str) -> Steps[DocumentGenerations]:
        """What is left of a document's generations, the newest first."""
        path = f"/v1/documents/{segment(document_id)}/generations"
        return self._one(DocumentGenerations, "GET", path, params={"namespace": namespace})

    def rollback(
        self, document_id: str, *, namespace: str, generation: int | None = None, if_match: str | None = None
    ) -> Steps[Job]:
        """Go back to the generation before, or to another that is kept: what was sent then is ingested once more.

        ``if_match``: only if the generations still have this etag, else ProblemError with status 412. ProblemError with
        status 409 if nothing is kept.
        """
        body: dict[str, Any] = {"namespace": namespace}
        if generation is not None:
            body["generation"] = generation
        headers = {} if if_match is None else {"If-Match": if_match}
        path = f"/v1/documents/{segment(document_id)}/rollback"
        return self._one(Job, "POST", path, body=body, headers=headers, safe=False)
