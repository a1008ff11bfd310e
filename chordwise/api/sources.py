"""Sources: the origins of documents."""

from __future__ import annotations

from chordwise.contract import source
from chordwise.records import Result
from chordwise.resource import Resource, operation, path
from chordwise.transport import Steps


class SourceInfo(source.SourceInfo, Result):
    """A source with its counts. ``kind``: text, bytes, file, url or sheet. ``statuses``: its documents counted by status.
    ``chunks``: those that searches see. ``encoding`` is None unless all its documents were read in
    one; ``page_start`` and ``page_end`` are the first and the last page of any of them."""


class SourceDeletion(source.SourceDeleted, Result):
    """The number of documents deleted with a source."""


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
