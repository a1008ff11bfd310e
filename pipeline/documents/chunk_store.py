"""Chunks with their text and terms: written before they are published, read only if published."""

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any

import orjson

from pipeline.database.mysql_columns import JsonText
from pipeline.database.mysql_tables import generations
from pipeline.database.rows import (
    TenantStore,
    as_utc,
    generation_key,
    insert_many,
    metadata_of,
    now,
    placeholders,
    readers_of,
    record_of,
    slices,
    to_json,
    to_naive,
)
from pipeline.database.statements import OF_GENERATION, generation_columns, same_document, same_generation, sql
from pipeline.filters.readers import Principals, may_read
from pipeline.records import (
    Chunk,
    ChunkId,
    Chunking,
    ChunkMark,
    DocumentFields,
    Generation,
    Passage,
    Segment,
    parent_ordinal,
)

_GENERATIONS_AT_ONCE = 200
PASSAGE_COLUMNS = "text, heading_path, page, page_end, start_offset, end_offset, token_count"  # of chunks and parents


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunk(DocumentFields):
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
        """Write chunks of unpublished generations; clear those in ``again`` first, of which rows may be left."""
        for generation in again:
            self.drop(generation)
        moment = now()
        insert_many(
            self._connection,
            "INSERT INTO chunks (tenant_id, namespace, document_id, generation, ordinal, chunk_id,"
            f" {PASSAGE_COLUMNS}, content_hash, terms, term_count, created_at, chunk_type, parent_id, chunk_index,"
            " story_time, segment, title_terms, summary_terms, entity_terms, reworded)"
            f" VALUES ({placeholders(range(26))})",
            [
                (
                    *generation_columns(chunk.generation),
                    chunk.ordinal,
                    chunk.chunk_id,
                    *passage_columns(chunk.passage),
                    chunk.content_hash,
                    " ".join(chunk.terms),
                    len(chunk.terms),
                    moment,
                    chunk.passage.chunk_type,
                    chunk.parent_id,
                    chunk.passage.index,
                    None if chunk.passage.segment is None else chunk.passage.segment.story_time,
                    None if chunk.passage.segment is None else to_json(asdict(chunk.passage.segment)),
                    chunk.field_terms.title,
                    chunk.field_terms.summary,
                    chunk.field_terms.entity_names,
                    int(chunk.passage.reworded),
                )
                for chunk in chunks
            ],
        )

    def mark(self, marks: Mapping[Generation, Mapping[int, ChunkMark]]) -> None:
        """Write the marks of chunks by ordinal, equal ones in one statement."""
        for generation, by_ordinal in marks.items():
            ordinals_by_mark: defaultdict[ChunkMark, list[int]] = defaultdict(list)
            for ordinal, mark in by_ordinal.items():
                ordinals_by_mark[mark].append(ordinal)
            for mark, ordinals in ordinals_by_mark.items():
                values = {**asdict(mark), "edited_at": to_naive(mark.edited_at), "ordinals": ordinals}
                self._connection.execute(_MARK, {**generation_key(generation), **values})

    def drop(self, generation: Generation) -> None:
        """Delete the chunks of exactly this generation, and their parents."""
        for table in ("chunks", "parent_chunks"):
            self._connection.execute(sql(f"DELETE FROM {table} WHERE {OF_GENERATION}"), generation_key(generation))

    def lengths_of(self, generations: Sequence[Generation]) -> list[int]:
        """Return the number of terms of every enabled chunk of these generations."""
        lengths: list[int] = []
        for batch in slices(sorted(generations, key=lambda g: g.scope.namespace), _GENERATIONS_AT_ONCE):
            keys = {(g.scope.namespace, g.document_id, g.number) for g in batch}
            # Lists and not pairs, of which MariaDB makes no range; extra rows are dropped here.
            rows = self._run(
                _LENGTHS,
                namespaces=sorted({namespace for namespace, _, _ in keys}),
                documents=sorted({document_id for _, document_id, _ in keys}),
                numbers=sorted({number for _, _, number in keys}),
            )
            lengths += [row.term_count for row in rows if (row.namespace, row.document_id, row.generation) in keys]
        return lengths

    def hydrate(
        self,
        chunk_ids: Sequence[ChunkId],
        *,
        namespaces: Sequence[str],
        reads_as: Principals,
        since: datetime | None = None,
    ) -> dict[ChunkId, StoredChunk]:
        """Return the published chunks among these that a caller with the principals ``reads_as`` may read, by id. Omits missing
        chunks, those of another tenant or namespace, and those of unpublished generations, so a stale vector is never
        returned.

        With ``since``, chunks of a generation replaced after that moment count as published: a query that began before
        sees the old document rather than none.
        """
        chunks: dict[ChunkId, StoredChunk] = {}
        for ids in slices(list(chunk_ids), 1000):
            values = {"tenant": self._tenant_id, "ids": list(ids), "namespaces": list(namespaces) or [""]}
            rows = self._connection.exec_driver_sql(_HYDRATE, {**values, "since": to_naive(since) or now()})
            stored = ((stored_chunk(text, fields), readers_of(readers)) for text, fields, readers in rows)
            chunks |= {
                chunk.chunk_id: chunk
                for chunk, readers in stored
                if may_read(chunk.readers, reads_as) and may_read(readers, reads_as)
            }
        return chunks


_MARK = sql(
    "UPDATE chunks SET enabled = :enabled, version = :version, edited_at = :edited_at"
    f" WHERE {OF_GENERATION} AND ordinal IN :ordinals"
)

_LENGTHS = sql(
    "SELECT namespace, document_id, generation, term_count FROM chunks WHERE tenant_id = :tenant"
    " AND namespace IN :namespaces AND document_id IN :documents AND generation IN :numbers AND enabled = 1"
)

_FIELDS = {
    **{name: f"c.{name}" for name in ("chunk_id", "namespace", "document_id", "generation", "ordinal", "page")},
    **{name: f"c.{name}" for name in ("token_count", "chunk_type", "parent_id", "reworded")},
    **{name: f"CAST(c.{name} AS CHAR)" for name in ("heading_path", "segment")},
    **{
        name: f"CAST(g.{name} AS CHAR)" if isinstance(generations.c[name].type, JsonText) else f"g.{name}"
        for name in (*(described.name for described in fields(DocumentFields)), "chunking", "source_uri")
    },
    "page_end": "COALESCE(c.page_end, c.page)",
    "start": "c.start_offset",
    "end": "c.end_offset",
    "story_time": "COALESCE(c.story_time, g.story_time)",
    "updated_at": "d.updated_at",
}

# Two columns: two dozen are more work to PyMySQL than reading the texts, so all but these come as one document.
STORED = "c.text, JSON_OBJECT(" + ", ".join(f"'{name}', {column}" for name, column in _FIELDS.items()) + ")"
# Every query reads these, so they are written for PyMySQL itself, which puts the lists into the statement. The third column
# has, for a chunk of a replaced generation, the readers that its document has now.
_HYDRATE = (
    f"SELECT {STORED}, IF(d.published_generation = c.generation, NULL, (SELECT p.readers FROM generations p"
    f" WHERE {same_document('p', 'd')} AND p.generation = d.published_generation)) FROM chunks c"
    f" JOIN documents d ON {same_document('d', 'c')}"
    f" JOIN generations g ON {same_generation('g', 'c')} LEFT JOIN retired_generations r ON"
    f" {same_generation('r', 'c')} WHERE c.tenant_id = %(tenant)s AND c.chunk_id IN %(ids)s"
    " AND c.namespace IN %(namespaces)s AND c.enabled = 1 AND d.published_generation IS NOT NULL"
    " AND (d.published_generation = c.generation OR r.replaced_at >= %(since)s)"
)


def stored_chunk(text: str, others: str | bytes) -> StoredChunk:
    """Return the chunk that the two columns of `STORED` describe."""
    columns = orjson.loads(others)
    converted = {
        "text": text,
        "heading_path": tuple(orjson.loads(columns["heading_path"])),
        "tags": tuple(orjson.loads(columns["tags"])),
        "published_at": _moment(columns["published_at"]),
        "metadata": metadata_of(columns["metadata"]),
        "readers": readers_of(columns.get("readers")),  # an index of the version before has none
        "updated_at": _moment(columns["updated_at"]),
        "segment": segment_of(columns["segment"]),
        "chunking": _chunking(columns["chunking"]),
        "reworded": bool(columns["reworded"]),
    }
    return StoredChunk(**columns | converted)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else as_utc(datetime.fromisoformat(text))


def passage_columns(passage: Passage) -> tuple[Any, ...]:
    """Return the values of `PASSAGE_COLUMNS`."""
    headings, offsets = to_json(list(passage.heading_path)), (passage.start, passage.end)
    return passage.text, headings, passage.page, passage.page_end, *offsets, passage.token_count


def passage_of(row: Mapping[Any, Any], **others: Any) -> Passage:
    """Return the passage in a row of ``chunks`` or ``parent_chunks``; ``others``: fields that are not columns there."""
    path = tuple(orjson.loads(row["heading_path"]))
    return record_of(Passage, row, start=row["start_offset"], end=row["end_offset"], heading_path=path, **others)


def chunk_passage(row: Mapping[Any, Any]) -> Passage:
    """Return the passage in a row of ``chunks`` with its structure."""
    return passage_of(
        row,
        parent=None if row["parent_id"] is None else parent_ordinal(row["parent_id"]),
        index=row["chunk_index"],
        segment=segment_of(row["segment"]),
        reworded=bool(row["reworded"]),
    )


@functools.lru_cache(maxsize=256)  # documents are many, ways to cut them few
def _chunking(column: str) -> Chunking:
    return Chunking(**orjson.loads(column))


def segment_of(column: str | None) -> Segment | None:
    """Return the segment in a column ``segment``."""
    if column is None:
        return None
    fields = orjson.loads(column)
    return Segment(**fields | {"entity_names": tuple(fields["entity_names"])})
