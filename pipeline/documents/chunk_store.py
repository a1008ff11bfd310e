"""Chunks with their text and terms: written before they are published, read only if published."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import bindparam

from pipeline.database.rows import (
    TenantStore,
    as_utc,
    generation_key,
    insert_many,
    metadata_of,
    now,
    placeholders,
    slices,
    to_json,
    to_naive,
)
from pipeline.database.statements import OF_GENERATION, same_document, same_generation, sql
from pipeline.records import Chunk, ChunkId, Chunking, Generation, Segment

_GENERATIONS_AT_ONCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunk:
    """A chunk of a published generation with the fields of its document."""

    chunk_id: ChunkId
    namespace: str
    document_id: str
    generation: int
    ordinal: int
    text: str
    heading_path: tuple[str, ...]
    page: int | None
    page_end: int | None
    start: int
    end: int
    token_count: int
    title: str | None
    author: str | None
    type: str | None
    tags: tuple[str, ...]
    published_at: datetime | None
    story_time: int | None
    metadata: Mapping[str, Any]
    source_uri: str | None
    updated_at: datetime | None
    chunk_type: str = "parent"
    parent_id: str | None = None
    segment: Segment | None = None
    chunking: Chunking = field(default_factory=Chunking)
    reworded: bool = False


class Chunks(TenantStore):
    """One tenant's chunks."""

    def write(self, chunks: Sequence[Chunk], *, again: Sequence[Generation] = ()) -> None:
        """Write chunks of unpublished generations; clear those in ``again`` first, because an earlier attempt may have
        left rows."""
        for generation in again:
            self.drop(generation)
        moment = now()
        insert_many(
            self._connection,
            "INSERT INTO chunks (tenant_id, namespace, document_id, generation, ordinal, chunk_id, text, heading_path,"
            " page, page_end, start_offset, end_offset, token_count, content_hash, terms, term_count, created_at, chunk_type,"
            " parent_id, chunk_index, story_time, segment, title_terms, summary_terms, entity_terms, reworded)"
            f" VALUES ({placeholders(range(26))})",
            [
                (
                    self._tenant_id,
                    chunk.generation.scope.namespace,
                    chunk.generation.document_id,
                    chunk.generation.number,
                    chunk.ordinal,
                    chunk.chunk_id,
                    chunk.passage.text,
                    to_json(list(chunk.passage.heading_path)),
                    chunk.passage.page,
                    chunk.passage.page_end,
                    chunk.passage.start,
                    chunk.passage.end,
                    chunk.passage.token_count,
                    chunk.content_hash,
                    " ".join(chunk.terms),
                    len(chunk.terms),
                    moment,
                    chunk.passage.chunk_type,
                    chunk.parent_id,
                    chunk.passage.index,
                    None if chunk.passage.segment is None else chunk.passage.segment.story_time,
                    None if chunk.passage.segment is None else segment_to_json(chunk.passage.segment),
                    chunk.field_terms.title,
                    chunk.field_terms.summary,
                    chunk.field_terms.entity_names,
                    int(chunk.passage.reworded),
                )
                for chunk in chunks
            ],
        )

    def drop(self, generation: Generation) -> None:
        """Delete the chunks of exactly this generation, and their parents."""
        for table in ("chunks", "parent_chunks"):
            self._connection.execute(
                sql(f"DELETE FROM {table} WHERE {OF_GENERATION}"),
                generation_key(generation),
            )

    def terms_of(self, generations: Sequence[Generation]) -> list[list[str]]:
        """Return the terms of every enabled chunk of these generations, for the statistics."""
        terms: list[list[str]] = []
        for some in slices(
            sorted(generations, key=lambda generation: generation.scope.namespace), _GENERATIONS_AT_ONCE
        ):
            wanted = {(generation.scope.namespace, generation.document_id, generation.number) for generation in some}
            # Lists and not pairs, of which MariaDB makes no range; extra rows are dropped here.
            values = {
                "tenant": self._tenant_id,
                "namespaces": sorted({namespace for namespace, _, _ in wanted}),
                "documents": sorted({document_id for _, document_id, _ in wanted}),
                "numbers": sorted({number for _, _, number in wanted}),
            }
            terms += [
                row.terms.split()
                for row in self._connection.execute(_TERMS, values)
                if (row.namespace, row.document_id, row.generation) in wanted
            ]
        return terms

    def hydrate(
        self, chunk_ids: Sequence[ChunkId], *, namespaces: Sequence[str], since: datetime | None = None
    ) -> dict[ChunkId, StoredChunk]:
        """Return the published chunks among these, by id. Omits missing chunks, those of another tenant or namespace,
        and those of unpublished generations, so a stale vector is never returned.

        With ``since``, chunks of a generation replaced after that moment count as published: a query that began before
        sees the old document rather than none.
        """
        chunks: dict[ChunkId, StoredChunk] = {}
        for ids in slices(list(chunk_ids), 1000):
            rows = self._connection.exec_driver_sql(
                _HYDRATE,
                {
                    "tenant": self._tenant_id,
                    "ids": list(ids),
                    "namespaces": list(namespaces) or [""],
                    "since": to_naive(since) or now(),
                },
            )
            chunks.update((chunk.chunk_id, chunk) for chunk in (stored_chunk(*row) for row in rows))
        return chunks


_TERMS = sql(
    "SELECT namespace, document_id, generation, terms FROM chunks WHERE tenant_id = :tenant"
    " AND namespace IN :namespaces AND document_id IN :documents AND generation IN :numbers AND enabled = 1"
).bindparams(*(bindparam(name, expanding=True) for name in ("namespaces", "documents", "numbers")))

_FIELDS = {
    "chunk_id": "c.chunk_id",
    "namespace": "c.namespace",
    "document_id": "c.document_id",
    "generation": "c.generation",
    "ordinal": "c.ordinal",
    "heading_path": "CAST(c.heading_path AS CHAR)",
    "page": "c.page",
    "page_end": "COALESCE(c.page_end, c.page)",
    "start": "c.start_offset",
    "end": "c.end_offset",
    "token_count": "c.token_count",
    "title": "g.title",
    "author": "g.author",
    "type": "g.type",
    "tags": "CAST(g.tags AS CHAR)",
    "published_at": "g.published_at",
    "story_time": "COALESCE(c.story_time, g.story_time)",
    "metadata": "CAST(g.metadata AS CHAR)",
    "source_uri": "g.source_uri",
    "updated_at": "d.updated_at",
    "chunk_type": "c.chunk_type",
    "parent_id": "c.parent_id",
    "segment": "CAST(c.segment AS CHAR)",
    "chunking": "CAST(g.chunking AS CHAR)",
    "reworded": "c.reworded",
}

# Two columns: two dozen are more work to PyMySQL than reading the texts, so all but these come as one document.
STORED = "c.text, JSON_OBJECT(" + ", ".join(f"'{name}', {column}" for name, column in _FIELDS.items()) + ")"
# Every query reads these, so they are written for PyMySQL itself, which puts the lists into the statement.
_HYDRATE = (
    f"SELECT {STORED} FROM chunks c JOIN documents d ON {same_document('d', 'c')}"
    f" JOIN generations g ON {same_generation('g', 'c')} LEFT JOIN retired_generations r ON"
    f" {same_generation('r', 'c')} WHERE c.tenant_id = %(tenant)s AND c.chunk_id IN %(ids)s"
    " AND c.namespace IN %(namespaces)s AND c.enabled = 1 AND d.published_generation IS NOT NULL"
    " AND (d.published_generation = c.generation OR r.replaced_at >= %(since)s)"
)


def stored_chunk(text_: str, others: str | bytes) -> StoredChunk:
    """Return the chunk that the two columns of `STORED` describe."""
    columns = orjson.loads(others)
    changed = {
        "text": text_,
        "heading_path": tuple(orjson.loads(columns["heading_path"])),
        "tags": tuple(orjson.loads(columns["tags"])),
        "published_at": _moment(columns["published_at"]),
        "metadata": metadata_of(columns["metadata"]),
        "updated_at": _moment(columns["updated_at"]),
        "segment": segment_of(columns["segment"]),
        "chunking": _chunking(columns["chunking"]),
        "reworded": bool(columns["reworded"]),
    }
    return StoredChunk(**columns | changed)


def _moment(written: str | None) -> datetime | None:
    return None if written is None else as_utc(datetime.fromisoformat(written))


@functools.lru_cache(maxsize=256)  # documents are many, ways to cut them few
def _chunking(column: str) -> Chunking:
    return Chunking(**orjson.loads(column))


def segment_to_json(segment: Segment) -> str:
    """Return the value of the column ``segment``."""
    return to_json(
        {
            "chapter_id": segment.chapter_id,
            "story_time": segment.story_time,
            "entity_names": list(segment.entity_names),
            "summary": segment.summary,
            "attributes": dict(segment.attributes),
        }
    )


def segment_of(column: str | None) -> Segment | None:
    """Return the segment in a column ``segment``."""
    if column is None:
        return None
    fields = orjson.loads(column)
    return Segment(**{**fields, "entity_names": tuple(fields["entity_names"])})
