"""What each store holds of a namespace, told in the same terms, so that the two can be compared."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, Engine, text

from pipeline.records import ChunkId, Namespace, TenantId
from pipeline.stores.engines import postgres_errors

_ROWS_AT_A_TIME = 10_000


def shown_chunks(connection: Connection, tenant_id: TenantId, namespace: Namespace) -> dict[ChunkId, bytes]:
    """Every chunk that searches may see, with the hash of the text its vector was made from."""
    rows = connection.execute(
        text(
            "SELECT c.chunk_id, c.content_hash FROM documents d JOIN chunks c ON c.tenant_id = d.tenant_id"
            " AND c.namespace = d.namespace AND c.document_id = d.document_id AND c.generation = d.published_generation"
            " WHERE d.tenant_id = :tenant AND d.namespace = :namespace"
        ),
        {"tenant": tenant_id, "namespace": namespace},
    )
    return {ChunkId(chunk_id): bytes(content_hash) for chunk_id, content_hash in rows}


def chunks_on_their_way(connection: Connection, tenant_id: TenantId, namespace: Namespace) -> set[ChunkId]:
    """Chunks of generations that an open item is working on, or that wait to be dropped: neither missing nor orphaned."""
    rows = connection.execute(
        text(
            "SELECT c.chunk_id FROM job_items i JOIN chunks c ON c.tenant_id = i.tenant_id AND c.namespace = i.namespace"
            " AND c.document_id = i.document_id AND c.generation = i.generation"
            " WHERE i.tenant_id = :tenant AND i.namespace = :namespace AND i.state IN ('queued', 'running')"
            " UNION SELECT c.chunk_id FROM retired_generations r JOIN chunks c ON c.tenant_id = r.tenant_id"
            " AND c.namespace = r.namespace AND c.document_id = r.document_id AND c.generation = r.generation"
            " WHERE r.tenant_id = :tenant AND r.namespace = :namespace"
        ),
        {"tenant": tenant_id, "namespace": namespace},
    ).scalars()
    return {ChunkId(chunk_id) for chunk_id in rows}


def vectors(postgres: Engine, tenant_id: TenantId, namespace: Namespace) -> Iterator[tuple[ChunkId, str, bytes]]:
    """Every vector of a namespace: its chunk, its model, and the hash of the text it was made from."""
    with postgres_errors(), postgres.connect() as connection:
        rows = connection.execution_options(yield_per=_ROWS_AT_A_TIME).execute(
            text(
                "SELECT chunk_id, model, content_hash FROM chunk_embeddings"
                " WHERE tenant_id = :tenant AND namespace = :namespace"
            ),
            {"tenant": tenant_id, "namespace": namespace},
        )
        for chunk_id, model, content_hash in rows:
            yield ChunkId(str(chunk_id)), model, bytes(content_hash)


def vector_namespaces(postgres: Engine, tenant_id: TenantId) -> set[Namespace]:
    """Namespaces that have vectors, whether MySQL knows them or not."""
    with postgres_errors(), postgres.connect() as connection:
        rows = connection.execute(
            text("SELECT DISTINCT namespace FROM chunk_embeddings WHERE tenant_id = :tenant"), {"tenant": tenant_id}
        ).scalars()
        return {Namespace(namespace) for namespace in rows}


def delete_vectors(postgres: Engine, tenant_id: TenantId, chunk_ids: list[ChunkId]) -> None:
    """Delete exactly these vectors; an empty list deletes nothing."""
    if not chunk_ids:
        return
    with postgres_errors(), postgres.begin() as connection:
        connection.execute(
            text("DELETE FROM chunk_embeddings WHERE tenant_id = :tenant AND chunk_id = ANY(CAST(:ids AS uuid[]))"),
            {"tenant": tenant_id, "ids": list(chunk_ids)},
        )
