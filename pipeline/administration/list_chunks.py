"""List chunks for their owner, with the windows that are read with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.chunking.strategies import window_of
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits, OwnedChunk
from pipeline.documents.window_store import windows
from pipeline.records import ChunkId, Namespace, TenantId
from pipeline.resources import Resources


def list_chunks(
    tenant_id: TenantId, namespace: Namespace, use: Resources, **selection: Any
) -> Sequence[tuple[OwnedChunk, str | None]]:
    """Return a page of `ChunkEdits.page`, each chunk with its window where its strategy has one."""
    with unit_of_work(use.mysql) as work:
        chunks = ChunkEdits(work.connection, tenant_id).page(namespace, **selection)
        sizes: dict[ChunkId, int] = {chunk.chunk_id: window_of(chunk.chunking) for chunk in chunks}
        around = windows(work.connection, tenant_id, sizes)
    return [(chunk, around.get(chunk.chunk_id)) for chunk in chunks]
