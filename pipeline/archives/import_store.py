"""Parts of an archive that were imported, and what a namespace shows for an export: documents, their chunks and vectors."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, Engine, text

from chordwise.contract.archive import ImportedPart
from pipeline.archives.archive import NewPart
from pipeline.database.engines import mysql_errors, postgres_errors
from pipeline.database.mysql_tables import generations
from pipeline.database.rows import now, record_of
from pipeline.database.statements import columns, same_document, sql
from pipeline.document_sources import SourceKind, SourceRef
from pipeline.documents.chunk_store import chunk_passage, passage_of
from pipeline.documents.document_store import fields_of
from pipeline.errors import PartKnown
from pipeline.records import (
    ChunkId,
    ChunkMark,
    DocumentFields,
    DocumentId,
    Generation,
    JobId,
    Namespace,
    Passage,
    Scope,
    TenantId,
)


class Imports:
    """One tenant's imports into one namespace."""

    def __init__(self, connection: Connection, tenant_id: TenantId, namespace: Namespace) -> None:
        self._connection = connection
        self._key = {"tenant": tenant_id, "namespace": namespace}

    def add(self, part: NewPart, job_id: JobId) -> None:
        """Record that a part became this job. Raises PartKnown if it was recorded before: do not commit then."""
        values = {**self._key, **asdict(part), "job": job_id, "now": now()}
        if not self._connection.execute(_ADD, values).rowcount:
            raise PartKnown(f"part {part.number} of import {part.import_id} was accepted before")

    def parts(self, import_id: str) -> list[ImportedPart]:
        """Return the parts that arrived, in order."""
        rows = self._connection.execute(_PARTS, {**self._key, "import": import_id})
        return [
            record_of(
                ImportedPart,
                row,
                sha256=row.sha256.hex(),
                vectors_kept=bool(row.vectors_kept),
                finished=bool(row.finished),
            )
            for row in rows
        ]

    def forget(self, import_id: str) -> int:
        """Allow the same parts to be imported again; their documents stay. Return how many parts there were."""
        return self._connection.execute(_FORGET, {**self._key, "import": import_id}).rowcount


_ADD = sql(
    "INSERT IGNORE INTO import_parts (tenant_id, namespace, import_id, part, sha256, job_id, documents, chunks, vectors,"
    " vectors_kept, received_at)"
    " VALUES (:tenant, :namespace, :import_id, :number, :sha256, :job, :documents, :chunks, :vectors, :vectors_kept, :now)"
)

_PARTS = sql(
    "SELECT p.part, p.sha256, p.job_id, p.documents, p.chunks, p.vectors, p.vectors_kept, p.received_at,"
    # A job without a row ended long ago.
    " j.job_id IS NULL OR j.finished_at IS NOT NULL AS finished"
    " FROM import_parts p LEFT JOIN jobs j ON j.tenant_id = p.tenant_id AND j.job_id = p.job_id"
    " WHERE p.tenant_id = :tenant AND p.namespace = :namespace AND p.import_id = :import ORDER BY p.part"
)

_FORGET = sql("DELETE FROM import_parts WHERE tenant_id = :tenant AND namespace = :namespace AND import_id = :import")


_HEAD = 4  # bytes before the numbers of a halfvec as PostgreSQL sends it


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDocument:
    """A published generation with everything but its chunks."""

    generation: Generation
    fields: DocumentFields
    source_uri: str | None
    media_type: str
    chunking: Mapping[str, Any]
    source_id: str
    source: SourceRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownChunk:
    """A chunk of a published generation, switched on or off."""

    chunk_id: ChunkId
    ordinal: int
    passage: Passage
    content_hash: bytes
    mark: ChunkMark


@dataclass(frozen=True, slots=True)
class StoredVector:
    """A vector as two bytes per number, little-endian, with its model and the hash of its text."""

    model: str
    content_hash: bytes
    halves: bytes


@contextmanager
def snapshot(mysql: Engine) -> Iterator[Connection]:
    """Open a transaction whose statements all see the same moment. Raises StoreUnavailable."""
    with (
        mysql_errors(),
        mysql.connect() as connection,
        connection.execution_options(isolation_level="REPEATABLE READ").begin(),
    ):
        yield connection


class Exports:
    """One tenant's namespace, for an export."""

    def __init__(self, connection: Connection, tenant_id: TenantId, namespace: Namespace) -> None:
        self._connection = connection
        self._scope = Scope(tenant_id=tenant_id, namespace=namespace)
        self._key: dict[str, Any] = {"tenant": tenant_id, "namespace": namespace}

    def listed(self, *, after: str, limit: int) -> list[tuple[DocumentId, int]]:
        """Return published documents in order of their ids, after the given one, with their numbers of chunks."""
        rows = self._connection.execute(_LISTED, {**self._key, "after": after, "limit": limit})
        return [(DocumentId(document_id), count or 0) for document_id, count in rows]

    def documents(self, document_ids: Sequence[DocumentId]) -> list[ShownDocument]:
        """Return those of these documents that are published, in order of their ids."""
        rows = self._connection.execute(_DOCUMENTS, {**self._key, "ids": list(document_ids)})
        return [
            record_of(
                ShownDocument,
                row,
                generation=Generation(scope=self._scope, document_id=row.document_id, number=row.generation),
                fields=fields_of(row._mapping),
                chunking=json.loads(row.chunking),
                source=SourceRef(
                    kind=SourceKind(row.kind), uri=row.origin_uri, media_type=row.origin_media_type or row.media_type
                ),
            )
            for row in rows
        ]

    def chunks(self, document_ids: Sequence[DocumentId]) -> dict[DocumentId, list[ShownChunk]]:
        """Return the chunks of the published documents, in the order of the text."""
        chunks: defaultdict[DocumentId, list[ShownChunk]] = defaultdict(list)
        for row in self._connection.execute(_CHUNKS, {**self._key, "ids": list(document_ids)}).mappings():
            mark = record_of(ChunkMark, row, enabled=bool(row["enabled"]))
            chunks[row["document_id"]].append(record_of(ShownChunk, row, passage=chunk_passage(row), mark=mark))
        return chunks

    def parents(self, document_ids: Sequence[DocumentId]) -> dict[DocumentId, list[tuple[int, Passage]]]:
        """Return the parents of the published documents, with their ordinals."""
        parents: defaultdict[DocumentId, list[tuple[int, Passage]]] = defaultdict(list)
        for row in self._connection.execute(_SHOWN_PARENTS, {**self._key, "ids": list(document_ids)}).mappings():
            parents[row["document_id"]].append((row["ordinal"], passage_of(row)))
        return parents


def stored_vectors(postgres: Engine, generations: Sequence[Generation], *, table: str) -> dict[ChunkId, StoredVector]:
    """Return the vectors of these generations of one namespace. Raises StoreUnavailable."""
    if not generations:
        return {}
    scope = generations[0].scope
    values = {
        "tenant": scope.tenant_id,
        "namespace": scope.namespace,
        "documents": [generation.document_id for generation in generations],
        "numbers": [generation.number for generation in generations],
    }
    with postgres_errors(), postgres.connect() as connection:
        return {
            ChunkId(chunk_id): StoredVector(model, bytes(content_hash), _little_endian(sent))
            for chunk_id, model, content_hash, sent in connection.execute(text(_VECTORS.format(table=table)), values)
        }


def _little_endian(sent: bytes) -> bytes:
    return np.frombuffer(sent, dtype=">f2", offset=_HEAD).astype("<f2").tobytes()


def _of_published(table: str, sources: str = "") -> str:
    """Return the rest of a statement on the rows of ``table`` that belong to published generations of a namespace."""
    return (
        f" FROM documents d JOIN {table} x ON {same_document('x', 'd')} AND x.generation = d.published_generation"
        f"{sources} WHERE d.tenant_id = :tenant AND d.namespace = :namespace"
    )


_SOURCES = (
    " LEFT JOIN sources s ON s.tenant_id = x.tenant_id AND s.namespace = x.namespace AND s.source_id = x.source_id"
)

_LISTED = sql(
    f"SELECT d.document_id, x.chunk_count{_of_published('generations')}"
    " AND d.document_id > :after ORDER BY d.document_id LIMIT :limit"
)

_DOCUMENTS = sql(
    f"SELECT x.document_id, x.generation, {columns(generations, DocumentFields, 'x')},"
    " x.source_uri, x.media_type, x.chunking, x.source_id, COALESCE(s.kind, 'text') AS kind, s.uri AS origin_uri,"
    f" s.media_type AS origin_media_type{_of_published('generations', _SOURCES)}"
    " AND d.document_id IN :ids ORDER BY d.document_id"
)

_CHUNKS = sql(
    "SELECT x.document_id, x.chunk_id, x.ordinal, x.text, x.heading_path, x.page, x.page_end, x.start_offset, x.end_offset,"
    " x.token_count, x.content_hash, x.enabled, x.version, x.edited_at, x.reworded, x.chunk_type, x.parent_id,"
    f" x.chunk_index, x.segment{_of_published('chunks')} AND d.document_id IN :ids ORDER BY d.document_id, x.ordinal"
)

_SHOWN_PARENTS = sql(
    "SELECT x.document_id, x.ordinal, x.text, x.heading_path, x.page, x.page_end, x.start_offset, x.end_offset,"
    f" x.token_count{_of_published('parent_chunks')} AND d.document_id IN :ids ORDER BY d.document_id, x.ordinal"
)

_VECTORS = (
    "SELECT CAST(e.chunk_id AS text), e.model, e.content_hash, halfvec_send(e.embedding) FROM {table} e"
    " JOIN unnest(CAST(:documents AS text[]), CAST(:numbers AS integer[])) AS selected(document_id, generation)"
    " ON e.document_id = selected.document_id AND e.generation = selected.generation"
    " WHERE e.tenant_id = :tenant AND e.namespace = :namespace"
)
