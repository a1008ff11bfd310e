"""Sources, which documents came from, and generations, which became of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chordwise.api.results import Job
from chordwise.records import Result
from chordwise.resource import Requesting, segment
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceInfo(Result):
    """A source with what came from it. ``kind``: text, bytes, file, url or sheet. ``statuses``: how many of its documents
    have which status. ``chunks``: those that searches see. ``encoding`` is None unless all its documents were read in
    one; ``page_start`` and ``page_end`` are the first and the last page of any of them."""

    source_id: str
    namespace: str = ""
    kind: str = ""
    uri: str | None = None
    media_type: str = ""
    encoding: str | None = None
    page_start: int | None = None
    page_end: int | None = None
    documents: int = 0
    statuses: Mapping[str, int] = field(default_factory=dict)
    chunks: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDeletion(Result):
    """How many documents went with a source."""

    source_id: str
    namespace: str = ""
    documents: int = 0


class SourceOperations(Requesting):
    """The part of ``Operations`` for sources."""

    def sources(self, *, namespace: str, kind: str | None = None, limit: int | None = 100) -> Steps[list[SourceInfo]]:
        """Sources with a document that is searchable or on its way, by id; ``limit`` None for all."""
        return self._pages(SourceInfo, "/v1/sources", {"namespace": namespace, "kind": kind}, limit=limit)

    def source(self, source_id: str, *, namespace: str) -> Steps[SourceInfo]:
        """A source with its counts; one that is not there raises ProblemError with status 404."""
        path = f"/v1/sources/{segment(source_id)}"
        return self._one(SourceInfo, "GET", path, params={"namespace": namespace})

    def delete_source(self, source_id: str, *, namespace: str) -> Steps[SourceDeletion]:
        """Take a source away with all its documents, also those on their way."""
        path = f"/v1/sources/{segment(source_id)}"
        return self._one(SourceDeletion, "DELETE", path, params={"namespace": namespace})
