"""Sources: the origins of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from chordwise.records import Result
from chordwise.resource import Resource, operation, path
from chordwise.transport import Steps


class SourceInfo(Result):
    """A source with its counts. ``kind``: text, bytes, file, url or sheet. ``statuses``: its documents counted by status.
    ``chunks``: those that searches see. ``encoding`` is None unless all its documents were read in
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


class SourceDeletion(Result):
    """The number of documents deleted with a source."""

    source_id: str
    namespace: str = ""
    documents: int = 0


class SourceOperations(Resource):
    """Operations on sources."""

    @operation
    def sources(self, *, namespace: str, kind: str | None = None, limit: int | None = 100) -> Steps[list[SourceInfo]]:
        """List sources with a searchable or pending document, by id; ``limit`` None for all."""
        return self._pages(SourceInfo, "/v1/sources", {"namespace": namespace, "kind": kind}, limit=limit)

    @operation
    def source(self, source_id: str, *, namespace: str) -> Steps[SourceInfo]:
        """Return a source with its counts. ProblemError with status 404 if there is none."""
        return self._one(SourceInfo, "GET", path("sources", source_id), params={"namespace": namespace})

    @operation
    def delete_source(self, source_id: str, *, namespace: str) -> Steps[SourceDeletion]:
        """Delete a source with all its documents, pending ones too."""
        return self._one(SourceDeletion, "DELETE", path("sources", source_id), params={"namespace": namespace})
