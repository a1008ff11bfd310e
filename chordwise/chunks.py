"""Looking at single chunks and changing them, and seeing chunks before there are any."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

from chordwise.chunk_results import Chunk, ChunkResult, Preview
from chordwise.decoding import decode
from chordwise.documents import Document, document_json, plain
from chordwise.errors import InvalidInput, UnexpectedAnswer
from chordwise.files import find_files
from chordwise.retries import RetryPolicy, exchange
from chordwise.transport import Answer, Call, Steps, encode

T = TypeVar("T")
_PER_PAGE = 100
_PER_REQUEST = 500


class ChunkFilters(TypedDict, total=False):
    """Which chunks: those that fit every filter given. ``filters`` are those of a query. ``order_by`` is document_id,
    updated_at or -updated_at. ``offset``: how many to leave out, at most 10,000."""

    document_id: str | None
    source_id: str | None
    enabled: bool | None
    chunk_type: str | None
    parent_id: str | None
    filters: Mapping[str, Any] | None
    order_by: str | None
    offset: int | None


class ChunkOperations:
    """What ``Operations`` can do with chunks."""

    _policy: RetryPolicy
    _clock: Callable[[], float]

    def chunks(self, namespace: str, *, limit: int | None, chosen: ChunkFilters) -> Steps[list[Chunk]]:
        """Chunks and parents of a namespace."""
        found: list[Chunk] = []
        cursor: str | None = None
        told = {name: _told(value) for name, value in chosen.items() if value is not None}
        while limit is None or len(found) < limit:
            size = _PER_PAGE if limit is None else min(_PER_PAGE, limit - len(found))
            asked = {"namespace": namespace, **told, "limit": str(size)}
            if cursor:
                asked["cursor"] = cursor
                asked.pop("offset", None)
            page = (yield from self._chunk_call("GET", "/v1/chunks", params=tuple(asked.items()))).json()
            if not isinstance(page, dict) or not isinstance(page.get("data"), list):
                raise UnexpectedAnswer("/v1/chunks does not answer with a list")
            found += [decode(Chunk, entry) for entry in page["data"]]
            cursor = page.get("next_cursor")
            if not cursor:
                break
        return found

    def edit_chunks(self, edits: Iterable[Mapping[str, Any]]) -> Steps[list[ChunkResult]]:
        """Change chunks, some hundred in a request."""
        return self._in_parts("PUT", "chunks", [dict(edit) for edit in edits])

    def delete_chunks(self, chunk_ids: Iterable[str]) -> Steps[list[ChunkResult]]:
        """Delete exactly these chunks."""
        ids = [chunk_ids] if isinstance(chunk_ids, str) else list(chunk_ids)
        return self._in_parts("DELETE", "chunk_ids", ids)

    def preview(
        self, what: Document | Mapping[str, Any] | str | Path, *, chunking: Mapping[str, Any] | None, title: str | None
    ) -> Steps[Preview]:
        """The chunks that a document or a file would have."""
        path = "/v1/chunks/preview"
        if isinstance(what, str | Path):
            files = find_files([what]).files
            if len(files) != 1:
                raise InvalidInput("a preview is of one file")
            form = {"title": title} if title else {}
            if chunking is not None:
                form["chunking"] = json.dumps(dict(chunking), ensure_ascii=False)
            call = Call(method="POST", path=path, files=(files[0].read(),), form=form)
            answer = yield from exchange(call, self._policy, clock=self._clock)
        else:
            document = document_json(what) | ({"title": title} if title else {})
            body = {"document": document} | ({} if chunking is None else {"chunking": dict(chunking)})
            answer = yield from self._chunk_call("POST", path, content=_encoded(body))
        return decode(Preview, answer.json())

    def _in_parts(self, method: str, name: str, things: list[Any]) -> Steps[list[ChunkResult]]:
        if not things:
            raise InvalidInput("no chunk is named")
        found: list[ChunkResult] = []
        for start in range(0, len(things), _PER_REQUEST):
            content = _encoded({name: things[start : start + _PER_REQUEST]})
            said = (yield from self._chunk_call(method, "/v1/chunks", content=content)).json()
            if not isinstance(said, dict) or not isinstance(said.get("data"), list):
                raise UnexpectedAnswer("/v1/chunks does not say what became of the chunks")
            found += [decode(ChunkResult, entry) for entry in said["data"]]
        return found

    def _chunk_call(
        self, method: str, path: str, *, params: tuple[tuple[str, str], ...] = (), content: bytes | None = None
    ) -> Steps[Answer]:
        return exchange(Call(method=method, path=path, params=params, content=content), self._policy, clock=self._clock)


class ChunkMethods:
    """The methods of ``Chordwise`` for chunks."""

    _operations: ChunkOperations
    _run: Callable[[Steps[Any]], Any]

    def chunks(self, *, namespace: str, limit: int | None = 100, **chosen: Unpack[ChunkFilters]) -> list[Chunk]:
        """Chunks and parents of what is published, switched off ones too; ``limit`` None for every one."""
        return list(self._run(self._operations.chunks(namespace, limit=limit, chosen=chosen)))

    def edit_chunks(self, edits: Iterable[Mapping[str, Any]]) -> list[ChunkResult]:
        """Change chunks: each edit has a ``chunk_id`` and ``text``, ``enabled`` or both, and may have an ``etag``.

        Embedded again before it returns. What failed is told in the results; only if everything failed for one reason,
        ProblemError is raised.
        """
        return list(self._run(self._operations.edit_chunks(edits)))

    def delete_chunks(self, chunk_ids: Iterable[str]) -> list[ChunkResult]:
        """Delete exactly these chunks; a parent goes with its children, a document with its last chunk."""
        return list(self._run(self._operations.delete_chunks(chunk_ids)))

    def preview(
        self,
        what: Document | Mapping[str, Any] | str | Path,
        *,
        chunking: Mapping[str, Any] | None = None,
        title: str | None = None,
    ) -> Preview:
        """The chunks that a document, or the file at a path, would have. Nothing is stored. Up to 1 MiB."""
        found: Preview = self._run(self._operations.preview(what, chunking=chunking, title=title))
        return found


class AsyncChunkMethods:
    """The methods of ``AsyncChordwise`` for chunks."""

    _operations: ChunkOperations
    _run: Callable[[Steps[Any]], Coroutine[Any, Any, Any]]

    async def chunks(self, *, namespace: str, limit: int | None = 100, **chosen: Unpack[ChunkFilters]) -> list[Chunk]:
        """See ``Chordwise.chunks``."""
        return list(await self._run(self._operations.chunks(namespace, limit=limit, chosen=chosen)))

    async def edit_chunks(self, edits: Iterable[Mapping[str, Any]]) -> list[ChunkResult]:
        """See ``Chordwise.edit_chunks``."""
        return list(await self._run(self._operations.edit_chunks(edits)))

    async def delete_chunks(self, chunk_ids: Iterable[str]) -> list[ChunkResult]:
        """See ``Chordwise.delete_chunks``."""
        return list(await self._run(self._operations.delete_chunks(chunk_ids)))

    async def preview(
        self,
        what: Document | Mapping[str, Any] | str | Path,
        *,
        chunking: Mapping[str, Any] | None = None,
        title: str | None = None,
    ) -> Preview:
        """See ``Chordwise.preview``."""
        found: Preview = await self._run(self._operations.preview(what, chunking=chunking, title=title))
        return found


def _told(value: object) -> str:
    if isinstance(value, Mapping):
        return _encoded({name: plain(each) for name, each in value.items()}).decode()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _encoded(value: Mapping[str, Any]) -> bytes:
    try:
        return encode(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the request is not JSON: {error}") from error
