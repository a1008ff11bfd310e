"""Sample queries for a comparison of models."""

import redis
from sqlalchemy import Connection, text

from pipeline.database.engines import redis_errors
from pipeline.embedding.model_comparison import GoldenQuery
from pipeline.query.compression import decompressed
from pipeline.query.query_store import read_query
from pipeline.records import Namespace, TenantId

_LOOKED_AT = 20  # keys for each query wanted
_LENGTH = 200  # characters of a chunk that make a question


def recent(client: redis.Redis, *, limit: int) -> list[GoldenQuery]:
    """Return some of the stored queries, each text once."""
    samples: dict[tuple[str, str], GoldenQuery] = {}
    with redis_errors():
        for seen, key in enumerate(client.scan_iter(match="*:query:*", count=500, _type="HASH")):
            if len(samples) >= limit or seen >= _LOOKED_AT * limit:
                break
            raw = client.hget(key, "query")
            if raw is not None:
                query = read_query(decompressed(raw))  # type: ignore[arg-type]
                sample = GoldenQuery(tenant_id=query.tenant_id, namespaces=query.namespaces, text=query.query_text)
                samples.setdefault((sample.tenant_id, sample.text), sample)
    return list(samples.values())


def tenants(connection: Connection) -> list[TenantId]:
    """Return the tenants with chunks; reads only ids."""
    rows = connection.execute(text("SELECT DISTINCT tenant_id FROM namespaces WHERE chunk_count > 0")).scalars()
    return [TenantId(tenant_id) for tenant_id in rows]


def beginning_of_a_chunk(connection: Connection, tenant_id: TenantId, pivot: str) -> GoldenQuery | None:
    """Return the first words of the published chunk whose id follows ``pivot``, a random UUID; None after the last one."""
    row = connection.execute(_CHUNK, {"tenant": tenant_id, "pivot": pivot}).one_or_none()
    words = "" if row is None else row.text[:_LENGTH].rpartition(" ")[0] or row.text[:_LENGTH]
    if row is None or not words.strip():
        return None
    return GoldenQuery(tenant_id=tenant_id, namespaces=(Namespace(row.namespace),), text=words.strip())


_CHUNK = text(
    "SELECT c.namespace, c.text FROM chunks c JOIN documents d ON d.tenant_id = c.tenant_id"
    " AND d.namespace = c.namespace AND d.document_id = c.document_id AND d.published_generation = c.generation"
    " WHERE c.tenant_id = :tenant AND c.chunk_id >= :pivot AND c.enabled = 1 ORDER BY c.chunk_id LIMIT 1"
)
