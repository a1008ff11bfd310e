"""What the system of record knows of one chunk, shown or not."""

from __future__ import annotations

from sqlalchemy import Connection, text

from pipeline.core.why_not import Standing
from pipeline.records import ChunkId, TenantId
from pipeline.stores.documents import fields_of


def standing_of(connection: Connection, tenant_id: TenantId, chunk_id: ChunkId) -> Standing | None:
    """Where one of the tenant's chunks stands, None if there is none of this id."""
    row = connection.execute(_STANDING, {"tenant": tenant_id, "chunk": chunk_id}).mappings().one_or_none()
    if row is None:
        return None
    return Standing(
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
