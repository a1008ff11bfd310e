"""A chunk or a parent as its owner sees it, read from its row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, text

from pipeline.database.rows import as_utc, record_of
from pipeline.documents.chunk_store import segment_of
from pipeline.documents.document_store import fields_of
from pipeline.documents.document_views import OwnedChunk
from pipeline.documents.edited_chunk import RecordedChunk
from pipeline.records import (
    ChunkId,
    Chunking,
    DocumentId,
    FieldTerms,
    Generation,
    Namespace,
    Passage,
    Scope,
    TenantId,
    parent_ordinal,
)

# Columns that chunks and parents have alike; `c` is either table.
COLUMNS = (
    "c.chunk_id, c.namespace, c.document_id, c.generation, c.ordinal, c.text, c.heading_path, c.page, c.page_end,"
    " c.start_offset, c.end_offset, c.token_count, c.version, COALESCE(c.edited_at, c.created_at) AS changed_at,"
    # An upload equal to the published generation is not pending any more.
    " IF(d.latest_generation > d.settled_generation, d.latest_generation, c.generation) AS latest_generation,"
    " g.title, g.author, g.type, g.tags, g.published_at, g.story_time, g.metadata, g.source_uri, g.source_id,"
    " g.chunking"
)
JOINED = (
    " JOIN documents d ON d.tenant_id = c.tenant_id AND d.namespace = c.namespace AND d.document_id = c.document_id"
    " AND d.published_generation = c.generation"
    " JOIN generations g ON g.tenant_id = c.tenant_id AND g.namespace = c.namespace AND g.document_id = c.document_id"
    " AND g.generation = c.generation"
    " WHERE c.tenant_id = :tenant"
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
        passage=_passage(
            row,
            chunk_type=row["chunk_type"],
            parent=None if row["parent_id"] is None else parent_ordinal(row["parent_id"]),
            index=row["chunk_index"],
            segment=segment_of(row["segment"]),
        ),
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
        passage=_passage(row, index=row["ordinal"]),
        searched=False,
    )


def _owned(tenant_id: TenantId, row: Mapping[Any, Any], **others: Any) -> OwnedChunk:
    scope = Scope(tenant_id=tenant_id, namespace=Namespace(row["namespace"]))
    return record_of(
        OwnedChunk,
        row,
        generation=Generation(scope=scope, document_id=DocumentId(row["document_id"]), number=row["generation"]),
        fields=fields_of(row),
        chunking=Chunking(**json.loads(row["chunking"])),
        enabled=bool(row["enabled"]),
        updated_at=as_utc(row["changed_at"]),
        latest=row["latest_generation"],
        **others,
    )


def _passage(row: Mapping[Any, Any], **structure: Any) -> Passage:
    return record_of(
        Passage,
        row,
        start=row["start_offset"],
        end=row["end_offset"],
        heading_path=tuple(json.loads(row["heading_path"])),
        reworded=bool(row["reworded"]),
        **structure,
    )


def standing_of(connection: Connection, tenant_id: TenantId, chunk_id: ChunkId) -> RecordedChunk | None:
    """Return the row of one of the tenant's chunks, None if there is none of this id."""
    row = connection.execute(_STANDING, {"tenant": tenant_id, "chunk": chunk_id}).mappings().one_or_none()
    if row is None:
        return None
    return RecordedChunk(
        namespace=row["namespace"],
        document_id=row["document_id"],
        shown=row["published_generation"] == row["generation"],
        enabled=bool(row["enabled"]),
        fields=fields_of(row),
    )


_STANDING = text(
    "SELECT c.namespace, c.document_id, c.generation, c.enabled, d.published_generation, g.title, g.author, g.type,"
    " g.tags, g.published_at, COALESCE(c.story_time, g.story_time) AS story_time, g.metadata"
    " FROM chunks c"
    " JOIN documents d ON d.tenant_id = c.tenant_id AND d.namespace = c.namespace AND d.document_id = c.document_id"
    " JOIN generations g ON g.tenant_id = c.tenant_id AND g.namespace = c.namespace AND g.document_id = c.document_id"
    " AND g.generation = c.generation"
    " WHERE c.tenant_id = :tenant AND c.chunk_id = :chunk"
)
