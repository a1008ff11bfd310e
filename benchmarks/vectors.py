"""Tenants with many vectors, without documents, for measurements of PostgreSQL alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import text

from pipeline.database.rows import now
from pipeline.records import Chunk, DocumentFields, DocumentId, Generation, Namespace, Passage, Scope, TenantId
from pipeline.resources import Resources
from pipeline.semantic.vector_store import Vectors

_PER_DOCUMENT = 500


def fill(
    use: Resources,
    tenant_id: TenantId,
    vectors: NDArray[np.float32],
    *,
    namespace: Namespace,
    metadata: Callable[[int], Mapping[str, Any]] = lambda _: {},
    table: str = "chunk_embeddings",
    first: int = 0,
    resized: int | None = None,
) -> None:
    """Insert one chunk for each vector, and the namespace in MySQL. ``metadata`` is that of the n-th chunk; ``first``: the
    number of the first one, ``resized``: how many the namespace has then."""
    scope = Scope(tenant_id=tenant_id, namespace=namespace)
    chunks, fields = [], {}
    for number in range(first, first + len(vectors)):
        generation = Generation(scope=scope, document_id=DocumentId(f"d{number}"), number=1)
        fields[generation] = DocumentFields(metadata=metadata(number))
        passage = Passage(text="x", start=0, end=1, token_count=1)
        chunks.append(
            Chunk(
                chunk_id=generation.chunk_id(0),
                generation=generation,
                ordinal=0,
                passage=passage,
                terms=(),
                content_hash=bytes(32),
                embedding_text="x",
            )
        )
    store = Vectors(use.postgres, tenant_id, distance=use.settings.pgvector_distance, table=table)
    for start in range(0, len(chunks), _PER_DOCUMENT):
        part = slice(start, start + _PER_DOCUMENT)
        store.upsert(chunks[part], vectors[part], fields=fields, model="made-up")
    resize(use, tenant_id, namespace, len(vectors) if resized is None else resized)


def resize(use: Resources, tenant_id: TenantId, namespace: Namespace, chunks: int) -> None:
    """Set a namespace's number of chunks in MySQL."""
    with use.mysql.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO namespaces (tenant_id, namespace, chunk_count, created_at) VALUES (:tenant, :name, :chunks, :now)"
                " ON DUPLICATE KEY UPDATE chunk_count = :chunks"
            ),
            {"tenant": tenant_id, "name": namespace, "chunks": chunks, "now": now()},
        )
