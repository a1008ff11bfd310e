"""Sources: what documents came from, listed, looked at and taken away."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chordwise.decoding import Result, decode
from chordwise.requesting import Requesting, segment
from chordwise.transport import Steps


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

    def sources(self, namespace: str, *, kind: str | None, limit: int | None) -> Steps[list[SourceInfo]]:
        """Sources of a namespace, by id."""
        return self._pages(SourceInfo, "/v1/sources", {"namespace": namespace, "kind": kind}, limit=limit)

    def source(self, source_id: str, *, namespace: str) -> Steps[SourceInfo]:
        """One source."""
        path = f"/v1/sources/{segment(source_id)}"
        return decode(SourceInfo, (yield from self._request("GET", path, params={"namespace": namespace})).json())

    def delete_source(self, source_id: str, *, namespace: str) -> Steps[SourceDeletion]:
        """A source with its documents. Asked again, it goes on."""
        path = f"/v1/sources/{segment(source_id)}"
        return decode(
            SourceDeletion, (yield from self._request("DELETE", path, params={"namespace": namespace})).json()
        )


class SourceMethods:
    """The methods of ``Chordwise`` for sources."""

    _operations: SourceOperations
    _run: Callable[[Steps[Any]], Any]

    def sources(self, *, namespace: str, kind: str | None = None, limit: int | None = 100) -> list[SourceInfo]:
        """Sources with a document that is searchable or on its way, by id; ``limit`` None for all."""
        found: list[SourceInfo] = self._run(self._operations.sources(namespace, kind=kind, limit=limit))
        return found

    def source(self, source_id: str, *, namespace: str) -> SourceInfo:
        """A source with its counts; one that is not there raises ProblemError with status 404."""
        found: SourceInfo = self._run(self._operations.source(source_id, namespace=namespace))
        return found

    def delete_source(self, source_id: str, *, namespace: str) -> SourceDeletion:
        """Take a source away with all its documents, also those on their way."""
        found: SourceDeletion = self._run(self._operations.delete_source(source_id, namespace=namespace))
        return found


class AsyncSourceMethods:
    """The methods of ``AsyncChordwise`` for sources."""

    _operations: SourceOperations
    _run: Callable[[Steps[Any]], Coroutine[Any, Any, Any]]

    async def sources(self, *, namespace: str, kind: str | None = None, limit: int | None = 100) -> list[SourceInfo]:
        """See ``Chordwise.sources``."""
        found: list[SourceInfo] = await self._run(self._operations.sources(namespace, kind=kind, limit=limit))
        return found

    async def source(self, source_id: str, *, namespace: str) -> SourceInfo:
        """See ``Chordwise.source``."""
        found: SourceInfo = await self._run(self._operations.source(source_id, namespace=namespace))
        return found

    async def delete_source(self, source_id: str, *, namespace: str) -> SourceDeletion:
        """See ``Chordwise.delete_source``."""
        found: SourceDeletion = await self._run(self._operations.delete_source(source_id, namespace=namespace))
        return found
