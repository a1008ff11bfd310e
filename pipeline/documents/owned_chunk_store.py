"""Chunks and parents as their owner sees them, read from their rows; and chunks whose terms were made by outdated rules."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection

from chordwise.contract.chunk import ChunkBeginningShape
from pipeline.database.mysql_tables import generations
from pipeline.database.rows import TenantStore, as_utc, chunking_of, generation_key, readers_of, record_of
from pipeline.database.statements import OF_GENERATION, TenantsWith, columns, same_document, same_generation, sql
from pipeline.documents.chunk_store import chunk_passage, passage_of
from pipeline.documents.cut_document import RecordedChunk
from pipeline.documents.document_store import fields_of
from pipeline.documents.document_views import OwnedChunk
from pipeline.filters.readers import Principals, may_read
from pipeline.keyword.indexed_fields import IndexedTokens
from pipeline.keyword.terms import VERSION
from pipeline.records import ChunkId, DocumentFields, DocumentId, FieldTerms, Generation, Namespace, Scope, TenantId

# Columns that chunks and parents have alike; `c` is either table.
COLUMNS = (
    "c.chunk_id, c.namespace, c.document_id, c.generation, c.ordinal, c.text, c.heading_path, c.page, c.page_end,"
    " c.start_offset, c.end_offset, c.token_count, c.version, COALESCE(c.edited_at, c.created_at) AS changed_at,"
    # An upload equal to the published generation is not pending any more.
    " IF(d.latest_generation > d.settled_generation, d.latest_generation, c.generation) AS latest_generation,"
    f" {columns(generations, DocumentFields, 'g')}, g.source_uri, g.source_id, g.chunking"
)
CHUNK_COLUMNS = (
    "c.terms, c.title_terms, c.summary_terms, c.entity_terms, c.content_hash, c.enabled, c.reworded, c.chunk_type,"
    " c.parent_id, c.chunk_index, c.segment"
)
JOINED = (
    f" JOIN documents d ON {same_document('d', 'c')} AND d.published_generation = c.generation"
    f" JOIN generations g ON {same_generation('g', 'c')} WHERE c.tenant_id = :tenant"
)


def owned_chunk(tenant_id: TenantId, row: Mapping[Any, Any]) -> OwnedChunk:
    """Return the chunk in a row of ``chunks``."""
    return _owned(
        tenant_id,
        row,
        terms=tuple(row["terms"].split()),
        field_terms=FieldTerms(
            title=row["title_terms"], summary=row["summary_terms"], entity_names=row["entity_terms"]
        ),
        content_hash=bytes(row["content_hash"]),
        passage=chunk_passage(row),
        searched=True,
    )


def owned_parent(tenant_id: TenantId, row: Mapping[Any, Any]) -> OwnedChunk:
    """Return the parent in a row of ``parent_chunks``."""
    return _owned(
        tenant_id,
        row,
        terms=(),
        field_terms=FieldTerms(),
        content_hash=hashlib.sha256(row["text"].encode()).digest(),
        passage=passage_of(row, index=row["ordinal"], reworded=bool(row["reworded"])),
        searched=False,
    )


def _owned(tenant_id: TenantId, row: Mapping[Any, Any], **others: Any) -> OwnedChunk:
    scope = Scope(tenant_id=tenant_id, namespace=Namespace(row["namespace"]))
    return record_of(
        OwnedChunk,
        row,
        generation=Generation(scope=scope, document_id=DocumentId(row["document_id"]), number=row["generation"]),
        fields=fields_of(row),
        chunking=chunking_of(row["chunking"]),
        enabled=bool(row["enabled"]),
        updated_at=as_utc(row["changed_at"]),
        latest=row["latest_generation"],
        **others,
    )


def recorded_chunk(connection: Connection, tenant_id: TenantId, chunk_id: ChunkId) -> RecordedChunk | None:
    """Return the row of one of the tenant's chunks, None if there is none of this id."""
    row = connection.execute(_RECORDED, {"tenant": tenant_id, "chunk": chunk_id}).mappings().one_or_none()
    if row is None:
        return None
    shown = row["published_generation"] == row["generation"]
    return record_of(RecordedChunk, row, shown=shown, enabled=bool(row["enabled"]), fields=fields_of(row))


def chunk_beginnings(
    connection: Connection, tenant_id: TenantId, chunk_ids: Sequence[ChunkId], *, reads_as: Principals
) -> list[ChunkBeginningShape]:
    """Return the beginnings of those of these chunks that exist, of any generation, in the order of the ids, as far as the
    principals may read them."""
    rows = connection.execute(_BEGINNINGS, {"tenant": tenant_id, "ids": list(chunk_ids)}).mappings()
    found = {
        row["chunk_id"]: record_of(
            ChunkBeginningShape, row, shown=bool(row["shown"]), heading_path=tuple(orjson.loads(row["heading_path"]))
        )
        for row in rows
        if may_read(readers_of(row["readers"]), reads_as)
    }
    return [found[chunk_id] for chunk_id in chunk_ids if chunk_id in found]


_BEGINNINGS = sql(
    "SELECT c.chunk_id, c.namespace, c.document_id, g.title, g.source_uri, g.readers, c.heading_path, c.page,"
    " COALESCE(c.page_end, c.page) AS page_end, LEFT(c.text, 160) AS beginning,"
    " c.enabled AND COALESCE(d.published_generation = c.generation, 0) AS shown FROM chunks c"
    f" JOIN documents d ON {same_document('d', 'c')} JOIN generations g ON {same_generation('g', 'c')}"
    " WHERE c.tenant_id = :tenant AND c.chunk_id IN :ids"
)

_RECORDED = sql(
    "SELECT c.namespace, c.document_id, c.generation, c.enabled, d.published_generation,"
    f" {columns(generations, DocumentFields, 'g', story_time='COALESCE(c.story_time, g.story_time)')} FROM chunks c"
    f" JOIN documents d ON {same_document('d', 'c')} JOIN generations g ON {same_generation('g', 'c')}"
    " WHERE c.tenant_id = :tenant AND c.chunk_id = :chunk"
)


class OutdatedTerms(TenantStore):
    """One tenant's generations with outdated terms."""

    def due(self, *, limit: int) -> list[tuple[Generation, int]]:
        """Return up to ``limit`` generations that are or were shown, each with the number of its chunks. One that is being
        ingested lacks its title, and gets the terms of this version anyway."""
        return [(self._generation(*key), count) for *key, count in self._run(_DUE, version=VERSION, limit=limit)]

    def chunks(self, generation: Generation) -> tuple[list[OwnedChunk], bool]:
        """Return the chunks of a generation, and whether searches see it now."""
        rows = self._connection.execute(_OUTDATED_CHUNKS, generation_key(generation)).mappings().all()
        return [owned_chunk(self._tenant_id, row) for row in rows], bool(rows and rows[0]["is_shown"])

    def rewrite(self, changed: Sequence[tuple[ChunkId, IndexedTokens]]) -> None:
        """Replace the terms of chunks. Text, hash, version and time of the last edit stay."""
        values = [
            {
                "tenant": self._tenant_id,
                "id": chunk_id,
                "terms": " ".join(indexed.terms),
                "count": len(indexed.terms),
                "title": indexed.fields.title,
                "summary": indexed.fields.summary,
                "names": indexed.fields.entity_names,
            }
            for chunk_id, indexed in changed
        ]
        if values:
            self._connection.execute(_REWRITE, values)

    def mark_renewed(self, generations: Sequence[Generation]) -> None:
        """Note that the terms of these generations are up to date."""
        values = [{**generation_key(generation), "version": VERSION} for generation in generations]
        if values:
            self._connection.execute(_SETTLE, values)


tenants_with_outdated_terms = TenantsWith(
    f"SELECT DISTINCT tenant_id FROM generations WHERE terms_version < {VERSION:d} AND chunk_count IS NOT NULL"
)


_DUE = sql(
    "SELECT namespace, document_id, generation, chunk_count FROM generations"
    " WHERE terms_version < :version AND tenant_id = :tenant AND chunk_count IS NOT NULL"
    " ORDER BY namespace, document_id, generation LIMIT :limit"
)
_OUTDATED_CHUNKS = sql(
    f"SELECT {COLUMNS}, {CHUNK_COLUMNS}, d.published_generation <=> c.generation AS is_shown"
    f" FROM chunks c{JOINED.replace(' AND d.published_generation = c.generation', '')}"
    " AND c.namespace = :namespace AND c.document_id = :document AND c.generation = :generation"
)
_REWRITE = sql(
    "UPDATE chunks SET terms = :terms, term_count = :count, title_terms = :title, summary_terms = :summary,"
    " entity_terms = :names WHERE tenant_id = :tenant AND chunk_id = :id"
)
_SETTLE = sql(f"UPDATE generations SET terms_version = :version WHERE {OF_GENERATION}")
