"""One vector for each document, the mean of its chunks' vectors with length 1, stored beside them."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, text

from pipeline.database.engines import postgres_errors
from pipeline.database.rows import record_of
from pipeline.database.tenant_presence import RequireTenant, none_required, share_tenant
from pipeline.records import Chunk, DocumentId, Generation, Namespace, TenantId
from pipeline.semantic.vector_store import as_sent, copy_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentVector:
    """The mean vector of a document's chunks, in their embedding space. ``content_hash``: see `hash_of`."""

    generation: Generation
    vector: NDArray[np.float32]
    chunk_count: int
    content_hash: bytes


class Means:
    """Sums the vectors of documents, one slice of chunks at a time; a document's chunks are adjacent."""

    def __init__(self) -> None:
        self._sums: dict[Generation, NDArray[np.float32]] = {}
        self._hashes: dict[Generation, list[tuple[str, bytes]]] = {}

    def add(self, chunks: Sequence[Chunk], vectors: NDArray[np.float32]) -> None:
        """Add these chunks with their vectors, in the chunks' order."""
        starts: list[int] = []
        last: Generation | None = None
        for row, chunk in enumerate(chunks):
            if chunk.generation is not last:
                starts.append(row)
                last = chunk.generation
                hashes = self._hashes.setdefault(last, [])
            hashes.append((chunk.chunk_id, chunk.content_hash))
        if not starts:
            return
        for start, total in zip(starts, np.add.reduceat(vectors, starts, axis=0), strict=True):
            generation = chunks[start].generation
            before = self._sums.get(generation)
            self._sums[generation] = total if before is None else before + total

    def vectors(self) -> list[DocumentVector]:
        """Return the vector of every document that has chunks."""
        return [
            DocumentVector(
                generation=generation,
                vector=_of_length_1(total),
                chunk_count=len(self._hashes[generation]),
                content_hash=hash_of(self._hashes[generation]),
            )
            for generation, total in self._sums.items()
        ]


def hash_of(chunks: Iterable[tuple[str, bytes]]) -> bytes:
    """Return one hash for chunk ids with their content hashes, taken in order of id. It differs after any change."""
    return hashlib.sha256(b"".join(content_hash for _, content_hash in sorted(chunks))).digest()


def _of_length_1(total: NDArray[np.float32]) -> NDArray[np.float32]:
    length = float(np.sqrt(total @ total))
    return total / np.float32(length) if length else total


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentVectorRow:
    """The stored vector of one document and what it was computed from."""

    document_id: str
    generation: int
    model: str
    content_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarDocument:
    """Another document. ``similarity``: the cosine of both vectors, at most 1."""

    document_id: str
    generation: int
    similarity: float


class DocumentVectors:
    """One tenant's document vectors, of whichever length: those of the embedding space that is searched."""

    def __init__(
        self,
        postgres: Engine,
        tenant_id: TenantId,
        *,
        table: str = "chunk_embeddings",
        require_tenant: RequireTenant = none_required,
    ) -> None:
        """``table``: the chunk vectors they are computed from."""
        self._postgres = postgres
        self._tenant_id = tenant_id
        self._table = table
        self._require_tenant = require_tenant

    def write(self, documents: Sequence[DocumentVector], *, model: str) -> None:
        """Write vectors of generations about to be shown. They are durable when this returns, as the pointer will be."""
        if not documents:
            return
        halves = as_sent(np.stack([document.vector for document in documents]))
        rows = [
            (
                self._tenant_id,
                document.generation.scope.namespace,
                document.generation.document_id,
                document.generation.number,
                half,
                model,
                document.chunk_count,
                document.content_hash,
            )
            for document, half in zip(documents, halves, strict=True)
        ]
        with postgres_errors(), self._postgres.connect() as connection:
            driver: Any = connection.connection
            try:
                with connection.begin(), driver.cursor() as cursor:
                    self._hold(connection)
                    copy_rows(cursor, "document_embeddings", _COLUMNS, _TYPES, rows)
            except psycopg.errors.UniqueViolation:  # an earlier attempt left some of them
                self.refresh([document.generation for document in documents])

    def refresh(self, generations: Sequence[Generation]) -> None:
        """Recompute the vectors of these generations from their chunks' vectors; delete those without any."""
        if not generations:
            return
        values = self._keys(sorted((g.scope.namespace, g.document_id, g.number) for g in generations))
        with postgres_errors(), self._postgres.begin() as connection:
            self._hold(connection)
            connection.execute(_ALONE, values).all()
            connection.execute(text(_REFRESH.format(table=self._table)), values)
            connection.execute(text(_DROP_EMPTY.format(table=self._table)), values)

    def _hold(self, connection: Connection) -> None:
        share_tenant(connection, self._tenant_id)
        self._require_tenant(self._tenant_id)

    def of_documents(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> list[DocumentVectorRow]:
        """Return the vectors of these documents, of any generation."""
        values = {"tenant": self._tenant_id, "namespace": namespace, "ids": list(document_ids)}
        with postgres_errors(), self._postgres.connect() as connection:
            return [record_of(DocumentVectorRow, row) for row in connection.execute(_ROWS, values)]

    def refresh_missing(self, generation: Generation) -> bool:
        """Compute the vector of a generation that has none, and return whether there was one to compute."""
        rows = self.of_documents(generation.scope.namespace, [generation.document_id])
        if any(row.generation == generation.number for row in rows):
            return False
        self.refresh([generation])
        return True

    def similar(self, generation: Generation, *, least: float, limit: int) -> list[SimilarDocument]:
        """Return the stored vectors of the namespace's other documents, of any generation, whose cosine with that of
        ``generation`` is at least ``least``, the most similar first. Reads every vector of the namespace."""
        values = {
            "tenant": self._tenant_id,
            "namespace": generation.scope.namespace,
            "document": generation.document_id,
            "generation": generation.number,
            "furthest": 1 - least,
            "limit": limit,
        }
        with postgres_errors(), self._postgres.connect() as connection:
            return [record_of(SimilarDocument, row) for row in connection.execute(_SIMILAR, values)]

    def drop(self, namespace: Namespace, keys: Sequence[tuple[str, int]]) -> None:
        """Delete the vectors of exactly these documents and generations."""
        if not keys:
            return
        values = self._keys([(namespace, *key) for key in keys])
        with postgres_errors(), self._postgres.begin() as connection:
            connection.execute(_DROP, values)

    def _keys(self, keys: Sequence[tuple[str, str, int]]) -> dict[str, Any]:
        namespaces, documents, numbers = map(list, zip(*keys, strict=True))
        return {"tenant": self._tenant_id, "namespaces": namespaces, "documents": documents, "numbers": numbers}


_COLUMNS = "tenant_id, namespace, document_id, generation, embedding, model, chunk_count, content_hash"
_TYPES = ["text", "text", "text", "int4", "bytea", "text", "int4", "bytea"]

_WANTED = (
    "unnest(CAST(:namespaces AS text[]), CAST(:documents AS text[]), CAST(:numbers AS integer[]))"
    " AS wanted(namespace, document_id, generation)"
)
_SAME = (
    "e.tenant_id = :tenant AND e.namespace = wanted.namespace AND e.document_id = wanted.document_id"
    " AND e.generation = wanted.generation"
)

_ALONE = text(
    "SELECT pg_advisory_xact_lock(hashtextextended(:tenant || chr(31) || wanted.namespace || chr(31)"
    f" || wanted.document_id, 0)) FROM {_WANTED}"
)

_REFRESH = (
    f"INSERT INTO document_embeddings ({_COLUMNS})"
    " SELECT e.tenant_id, e.namespace, e.document_id, e.generation, l2_normalize(avg(e.embedding)), max(e.model),"
    " count(*), sha256(string_agg(e.content_hash, ''::bytea ORDER BY e.chunk_id))"
    f" FROM {_WANTED} JOIN {{table}} e ON {_SAME}"
    " GROUP BY e.tenant_id, e.namespace, e.document_id, e.generation"
    " ON CONFLICT (tenant_id, namespace, document_id, generation) DO UPDATE SET embedding = EXCLUDED.embedding,"
    " model = EXCLUDED.model, chunk_count = EXCLUDED.chunk_count, content_hash = EXCLUDED.content_hash"
)

_DROP = text(f"DELETE FROM document_embeddings e USING {_WANTED} WHERE {_SAME}")

_DROP_EMPTY = (
    f"DELETE FROM document_embeddings e USING {_WANTED} WHERE {_SAME} AND NOT EXISTS (SELECT 1 FROM {{table}} c"
    " WHERE c.tenant_id = e.tenant_id AND c.namespace = e.namespace AND c.document_id = e.document_id"
    " AND c.generation = e.generation)"
)

# The dimensions of two models differ, so vectors are compared only where the model is the same.
_SIMILAR = text(
    "SELECT o.document_id, o.generation, LEAST(1, 1 - o.distance) AS similarity FROM (SELECT o.document_id,"
    " o.generation, CASE WHEN o.model = e.model THEN o.embedding <=> e.embedding END AS distance"
    " FROM document_embeddings e JOIN document_embeddings o ON o.tenant_id = e.tenant_id"
    " AND o.namespace = e.namespace AND o.document_id <> e.document_id WHERE e.tenant_id = :tenant"
    " AND e.namespace = :namespace AND e.document_id = :document AND e.generation = :generation) o"
    " WHERE o.distance <= :furthest ORDER BY o.distance, o.document_id LIMIT :limit"
)

_ROWS = text(
    "SELECT document_id, generation, model, content_hash FROM document_embeddings"
    " WHERE tenant_id = :tenant AND namespace = :namespace AND document_id = ANY(:ids)"
)
