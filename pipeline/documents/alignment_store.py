"""Read the contents of both stores for some documents in the same terms, to compare them page by page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from sqlalchemy import Connection, Engine, text

from pipeline.database.engines import postgres_errors
from pipeline.database.rows import record_of, slices
from pipeline.database.statements import OF_DOCUMENTS, rows_of_documents, same_document, sql
from pipeline.records import ChunkId, DocumentId, Namespace, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPage:
    """Some documents of a namespace in order. ``last``: the next page begins after it, None at the end."""

    document_ids: tuple[DocumentId, ...]
    last: DocumentId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRow:
    """The row of one vector in PostgreSQL."""

    chunk_id: ChunkId
    namespace: str
    document_id: str
    generation: int
    model: str
    content_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRow:
    """The row of one chunk in MySQL."""

    chunk_id: ChunkId
    document_id: str
    generation: int
    ordinal: int
    content_hash: bytes
    enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """The pointer of a document. ``chunk_count``: the chunks of the published generation, less deleted ones."""

    document_id: str
    published: int | None
    chunk_count: int | None


def page_of_documents(
    connection: Connection, tenant_id: TenantId, namespace: Namespace, *, after: str, documents: int, chunks: int
) -> DocumentPage:
    """Return the documents in MySQL after the given id, within both bounds, at least one."""
    values = {"tenant": tenant_id, "namespace": namespace, "after": after, "limit": documents}
    rows = connection.execute(_DOCUMENT_PAGE, values)
    return _page([(row.document_id, row.chunk_count or 0) for row in rows], documents=documents, chunks=chunks)


def page_of_vectors(
    postgres: Engine, tenant_id: TenantId, namespace: Namespace, *, table: str, after: str, documents: int, chunks: int
) -> DocumentPage:
    """Return the documents that have vectors in ``table``, in PostgreSQL's own order; see `page_of_documents`."""
    values = {"tenant": tenant_id, "namespace": namespace, "after": after, "limit": documents}
    with postgres_errors(), postgres.connect() as connection:
        rows = connection.execute(text(_VECTOR_PAGE.format(table=table)), values).all()
    return _page([(row.document_id, row.vectors) for row in rows], documents=documents, chunks=chunks)


def _page(counts: Sequence[tuple[str, int]], *, documents: int, chunks: int) -> DocumentPage:
    sizes = accumulate(count for _, count in counts)
    ids = tuple(DocumentId(document_id) for (document_id, _), size in zip(counts, sizes, strict=True) if size <= chunks)
    ids = ids or tuple(DocumentId(document_id) for document_id, _ in counts[:1])
    is_last = len(ids) == len(counts) < documents
    return DocumentPage(document_ids=ids, last=None if is_last or not ids else ids[-1])


def documents_of(
    connection: Connection,
    tenant_id: TenantId,
    namespace: Namespace,
    document_ids: Sequence[DocumentId],
    *,
    lock: bool = False,
) -> dict[str, DocumentRow]:
    """Return the pointers of these documents; ``lock``: locked until the transaction ends."""
    if lock:
        rows_of_documents(connection, _LOCK, tenant_id, namespace, document_ids)
    rows = rows_of_documents(connection, _POINTERS, tenant_id, namespace, document_ids)
    return {row.document_id: record_of(DocumentRow, row, published=row.published_generation) for row in rows}


def chunk_rows(
    connection: Connection, tenant_id: TenantId, namespace: Namespace, document_ids: Sequence[DocumentId]
) -> list[ChunkRow]:
    """Return every chunk of these documents, of any generation."""
    rows = rows_of_documents(connection, _CHUNKS, tenant_id, namespace, document_ids)
    return [record_of(ChunkRow, row, enabled=bool(row.enabled)) for row in rows]


def busy_generations(
    connection: Connection, tenant_id: TenantId, namespace: Namespace, document_ids: Sequence[DocumentId]
) -> set[tuple[str, int]]:
    """Return generations of unfinished jobs and those that wait to be dropped: neither missing nor orphaned."""
    rows = rows_of_documents(connection, _BUSY, tenant_id, namespace, document_ids)
    return {(row.document_id, row.generation) for row in rows}


def vector_rows(
    postgres: Engine, tenant_id: TenantId, namespace: Namespace, document_ids: Sequence[DocumentId], *, table: str
) -> dict[ChunkId, VectorRow]:
    """Return every vector of ``table`` under one of these documents."""
    values = {"tenant": tenant_id, "namespace": namespace, "ids": list(document_ids)}
    with postgres_errors(), postgres.connect() as connection:
        return _vectors(connection.execute(text(_VECTORS.format(table=table)), values))


def vectors_by_id(
    postgres: Engine, tenant_id: TenantId, chunk_ids: Sequence[ChunkId], *, table: str
) -> dict[ChunkId, VectorRow]:
    """Return the vectors of these chunks, under whichever document."""
    vectors: dict[ChunkId, VectorRow] = {}
    with postgres_errors(), postgres.connect() as connection:
        for ids in slices(list(chunk_ids), 1000):
            statement = text(_VECTORS_BY_ID.format(table=table))
            vectors |= _vectors(connection.execute(statement, {"tenant": tenant_id, "ids": list(ids)}))
    return vectors


def _vectors(rows: Iterable[Any]) -> dict[ChunkId, VectorRow]:
    return {ChunkId(row.chunk_id): record_of(VectorRow, row) for row in rows}


def chunks_elsewhere(connection: Connection, tenant_id: TenantId, chunk_ids: Sequence[ChunkId]) -> set[ChunkId]:
    """Return which of these are chunks of another tenant, so that their vectors are under a wrong one. Reads only ids."""
    if not chunk_ids:
        return set()
    return set(connection.execute(_ELSEWHERE, {"tenant": tenant_id, "ids": list(chunk_ids)}).scalars())


def vector_namespaces(postgres: Engine, tenant_id: TenantId, *, table: str) -> set[Namespace]:
    """Return the namespaces that have vectors, known to MySQL or not. Costs one index lookup for each."""
    with postgres_errors(), postgres.connect() as connection:
        rows = connection.execute(text(_VECTOR_NAMESPACES.format(table=table)), {"tenant": tenant_id}).scalars()
        return {Namespace(namespace) for namespace in rows if namespace is not None}


def count_vectors(postgres: Engine, tenant_id: TenantId, *, table: str) -> int:
    """Return the number of the tenant's vectors in ``table``."""
    with postgres_errors(), postgres.connect() as connection:
        statement = sql(f"SELECT count(*) FROM {table} WHERE tenant_id = :tenant")
        return int(connection.execute(statement, {"tenant": tenant_id}).scalar_one())


def count_chunk_rows(connection: Connection, tenant_id: TenantId) -> int:
    """Return the number of the tenant's rows of chunks, of every generation."""
    return int(connection.execute(_COUNT_CHUNK_ROWS, {"tenant": tenant_id}).scalar_one())


def delete_vectors(postgres: Engine, tenant_id: TenantId, chunk_ids: Sequence[ChunkId], *, table: str) -> None:
    """Delete exactly these vectors of ``table``; an empty list deletes nothing."""
    if not chunk_ids:
        return
    with postgres_errors(), postgres.begin() as connection:
        for ids in slices(list(chunk_ids), 1000):
            connection.execute(text(_DELETE.format(table=table)), {"tenant": tenant_id, "ids": list(ids)})


_COUNT_CHUNK_ROWS = sql("SELECT COUNT(*) FROM chunks WHERE tenant_id = :tenant")

_DOCUMENT_PAGE = sql(
    f"SELECT d.document_id, g.chunk_count FROM documents d LEFT JOIN generations g ON {same_document('g', 'd')}"
    " AND g.generation = d.published_generation WHERE d.tenant_id = :tenant AND d.namespace = :namespace"
    " AND d.document_id > :after ORDER BY d.document_id LIMIT :limit"
)

_VECTOR_PAGE = (
    "SELECT document_id, count(*) AS vectors FROM {table}"
    " WHERE tenant_id = :tenant AND namespace = :namespace AND document_id > :after"
    " GROUP BY document_id ORDER BY document_id LIMIT :limit"
)

_LOCK = sql(f"SELECT document_id FROM documents WHERE {OF_DOCUMENTS} ORDER BY document_id FOR UPDATE")

_POINTERS = sql(
    "SELECT d.document_id, d.published_generation, g.chunk_count FROM documents d"
    f" LEFT JOIN generations g ON {same_document('g', 'd')} AND g.generation = d.published_generation"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id IN :ids"
)

_CHUNKS = sql(
    f"SELECT document_id, generation, ordinal, chunk_id, content_hash, enabled FROM chunks WHERE {OF_DOCUMENTS}"
)

_BUSY = sql(
    "SELECT g.document_id, g.generation FROM generations g"
    " JOIN jobs j ON j.tenant_id = g.tenant_id AND j.job_id = g.job_id"
    " WHERE g.tenant_id = :tenant AND g.namespace = :namespace AND g.document_id IN :ids AND j.finished_at IS NULL"
    " UNION SELECT r.document_id, r.generation FROM retired_generations r"
    " WHERE r.tenant_id = :tenant AND r.namespace = :namespace AND r.document_id IN :ids"
)

_VECTOR_COLUMNS = "SELECT chunk_id, namespace, document_id, generation, model, content_hash FROM {table}"
_VECTORS = _VECTOR_COLUMNS + " WHERE tenant_id = :tenant AND namespace = :namespace AND document_id = ANY(:ids)"
_VECTORS_BY_ID = _VECTOR_COLUMNS + " WHERE tenant_id = :tenant AND chunk_id = ANY(CAST(:ids AS uuid[]))"

_ELSEWHERE = sql(
    "SELECT c.chunk_id FROM tenants t JOIN chunks c ON c.tenant_id = t.tenant_id"
    " WHERE t.tenant_id <> :tenant AND c.chunk_id IN :ids"
)

# Jumps from one namespace to the next instead of reading every row.
_VECTOR_NAMESPACES = """
WITH RECURSIVE names AS (
    (SELECT namespace FROM {table} WHERE tenant_id = :tenant ORDER BY namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT e.namespace FROM {table} e WHERE e.tenant_id = :tenant AND e.namespace > names.namespace
            ORDER BY e.namespace LIMIT 1)
    FROM names WHERE names.namespace IS NOT NULL
)
SELECT namespace FROM names
"""

_DELETE = "DELETE FROM {table} WHERE tenant_id = :tenant AND chunk_id = ANY(CAST(:ids AS uuid[]))"
