"""Windows: the chunks around a chunk, read together with it. They are not stored, so no edit leaves a stale window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from pipeline.database.statements import same_generation, sql
from pipeline.documents.text import seam
from pipeline.records import ChunkId, TenantId


def windows(connection: Connection, tenant_id: TenantId, sizes: Mapping[ChunkId, int]) -> dict[ChunkId, str]:
    """Return each chunk's text with up to ``sizes`` enabled neighbours on either side; a missing chunk is omitted.
    Joined by a space, at a paragraph or heading by a blank line; overlaps appear once."""
    by_size: defaultdict[int, list[ChunkId]] = defaultdict(list)
    for chunk_id, size in sizes.items():
        if size > 0:
            by_size[size].append(chunk_id)
    texts: dict[ChunkId, str] = {}
    for size, chunk_ids in by_size.items():
        rows = connection.execute(_AROUND, {"tenant": tenant_id, "ids": chunk_ids, "size": size})
        ends: dict[ChunkId, int] = {}
        for row in rows:
            chunk_id = ChunkId(row.chunk_id)
            if chunk_id not in texts:
                texts[chunk_id] = row.text
            elif row.start_offset < ends[chunk_id] and not row.reworded:
                texts[chunk_id] += row.text[ends[chunk_id] - row.start_offset :]
            else:
                texts[chunk_id] += seam(row.start_offset - ends[chunk_id]) + row.text
            ends[chunk_id] = row.end_offset
    return texts


def whole_documents(
    connection: Connection, tenant_id: TenantId, chunk_ids: Sequence[ChunkId], *, most_tokens: int
) -> dict[ChunkId, str]:
    """Return the whole documents of these chunks where they have at most ``most_tokens``, checked before reading."""
    if not chunk_ids:
        return {}
    values = {"tenant": tenant_id, "ids": list(chunk_ids), "most": most_tokens}
    small = connection.execute(_SMALL, values).scalars()
    return windows(connection, tenant_id, {ChunkId(chunk_id): _ANY_NUMBER for chunk_id in small})


_ANY_NUMBER = 1_000_000  # of chunks, more than a document has

_SMALL = sql(
    f"SELECT c.chunk_id FROM chunks c JOIN chunks n ON {same_generation('n', 'c')} AND n.enabled = 1"
    " WHERE c.tenant_id = :tenant AND c.chunk_id IN :ids GROUP BY c.chunk_id HAVING SUM(n.token_count) <= :most"
)

_AROUND = sql(
    "SELECT c.chunk_id, n.text, n.start_offset, n.end_offset, n.reworded FROM chunks c"
    f" JOIN chunks n ON {same_generation('n', 'c')} AND n.ordinal BETWEEN IF(c.ordinal > :size, c.ordinal - :size, 0)"
    " AND c.ordinal + :size WHERE c.tenant_id = :tenant AND c.chunk_id IN :ids AND (n.enabled = 1"
    " OR n.chunk_id = c.chunk_id) ORDER BY c.chunk_id, n.ordinal"
)
