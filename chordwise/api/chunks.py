"""Chunks: read, edit, delete and preview them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from chordwise.api.documents import Document, document_json
from chordwise.api.files import find_files
from chordwise.contract import chunk
from chordwise.errors import InvalidInput
from chordwise.resource import Resource, entries, given, operation
from chordwise.transport import Steps

Chunk = chunk.OwnedChunkShape
ChunkResult = chunk.ChunkResult
PreviewedChunk = chunk.PreviewChunk
Preview = chunk.PreviewAnswer
ChunkBeginning = chunk.ChunkBeginningShape


_PER_REQUEST = 500


class ChunkOperations(Resource):
    """Operations on chunks."""

    @operation
    def chunks(
        self,
        *,
        namespace: str,
        document_id: str | None = None,
        source_id: str | None = None,
        enabled: bool | None = None,
        chunk_type: str | None = None,
        parent_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        order_by: str | None = None,
        offset: int | None = None,
        limit: int | None = 100,
    ) -> Steps[list[Chunk]]:
        """List published chunks and parents, disabled ones too, that fit every filter; ``limit`` None for all. ``filters`` are
        those of a query. ``order_by`` is document_id, updated_at or -updated_at. ``offset``: how many to skip, at most
        10,000."""
        chosen = {
            "namespace": namespace,
            "document_id": document_id,
            "source_id": source_id,
            "enabled": enabled,
            "chunk_type": chunk_type,
            "parent_id": parent_id,
            "filters": filters,
            "order_by": order_by,
            "offset": offset,
        }
        return self._pages(Chunk, "/v1/chunks", chosen, limit=limit)

    @operation
    def name_chunks(self, chunk_ids: Iterable[str]) -> Steps[list[ChunkBeginning]]:
        """Return title and first words of chunks, such as those that a trace names; unknown ids are left out."""
        ids, names = list(chunk_ids), list[ChunkBeginning]()
        for start in range(0, len(ids), _PER_REQUEST):
            body = {"chunk_ids": ids[start : start + _PER_REQUEST]}
            answer = yield from self._request("POST", "/v1/chunks/lookup", body=body)
            names += entries(ChunkBeginning, answer.json(), "/v1/chunks/lookup")
        return names

    @operation
    def edit_chunks(self, edits: Iterable[Mapping[str, Any]]) -> Steps[list[ChunkResult]]:
        """Change chunks: each edit has a ``chunk_id`` and ``text``, ``enabled`` or both, and may have an ``etag``.

        Returns once the chunks are embedded again. Failures are in the results; only if every edit failed for one reason,
        ProblemError is raised.
        """
        return self._in_parts("PUT", "chunks", [dict(edit) for edit in edits])

    @operation
    def delete_chunks(self, chunk_ids: Iterable[str]) -> Steps[list[ChunkResult]]:
        """Delete exactly these chunks; a parent goes with its children, a document with its last chunk."""
        ids = [chunk_ids] if isinstance(chunk_ids, str) else list(chunk_ids)
        return self._in_parts("DELETE", "chunk_ids", ids)

    @operation
    def preview(
        self,
        what: Document | Mapping[str, Any] | str | Path,
        *,
        chunking: Mapping[str, Any] | None = None,
        title: str | None = None,
    ) -> Steps[Preview]:
        """Return the chunks that a document, or the file at a path, would have. Nothing is stored. Up to 1 MiB."""
        path = "/v1/chunks/preview"
        if isinstance(what, str | Path):
            files = find_files([what]).files
            if len(files) != 1:
                raise InvalidInput("name exactly one file to preview")
            form = given(
                title=title or None,
                chunking=None if chunking is None else json.dumps(dict(chunking), ensure_ascii=False),
            )
            return self._one(Preview, "POST", path, files=(files[0].read(),), form=form)
        document = document_json(what) | given(title=title or None)
        body = given(document=document, chunking=None if chunking is None else dict(chunking))
        return self._one(Preview, "POST", path, body=body)

    def _in_parts(self, method: str, name: str, changes: list[Any]) -> Steps[list[ChunkResult]]:
        if not changes:
            raise InvalidInput("no chunk is named")
        results: list[ChunkResult] = []
        for start in range(0, len(changes), _PER_REQUEST):
            body = {name: changes[start : start + _PER_REQUEST]}
            answer = yield from self._request(method, "/v1/chunks", body=body)
            results += entries(ChunkResult, answer.json(), "/v1/chunks")
        return results
