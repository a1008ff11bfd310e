"""List chunks for their owner, with the windows that are read with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.chunking.strategies.registry import window_of
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits, Position
from pipeline.documents.document_view_store import DocumentViews
from pipeline.documents.document_views import ChunkBeginning, DocumentView, OwnedChunk
from pipeline.documents.owned_chunk_store import chunk_beginnings
from pipeline.documents.parent_store import windows
from pipeline.records import ChunkId, DocumentId, Namespace, TenantId
from pipeline.resources import Resources

_AT_ONCE = 500  # chunks read at a time


def list_chunks(
    tenant_id: TenantId, namespace: Namespace, use: Resources, **selection: Any
) -> Sequence[tuple[OwnedChunk, str | None]]:
    """Return a page of `ChunkEdits.page`, each chunk with its window where its strategy has one."""
    with unit_of_work(use.mysql) as work:
        chunks = ChunkEdits(work.connection, tenant_id).page(namespace, **selection)
        sizes: dict[ChunkId, int] = {chunk.chunk_id: window_of(chunk.chunking) for chunk in chunks}
        around = windows(work.connection, tenant_id, sizes)
    return [(chunk, around.get(chunk.chunk_id)) for chunk in chunks]


def name_chunks(tenant_id: TenantId, chunk_ids: Sequence[ChunkId], use: Resources) -> Sequence[ChunkBeginning]:
    """Return the beginnings of those of these chunks that exist."""
    with unit_of_work(use.mysql) as work:
        return chunk_beginnings(work.connection, tenant_id, chunk_ids)


def read_passages(
    tenant_id: TenantId, wanted: ChunkId | tuple[Namespace, DocumentId], use: Resources
) -> tuple[DocumentView, list[OwnedChunk]] | None:
    """Return a published document with one passage, or with all that searches see; None if there is no such thing."""
    with unit_of_work(use.mysql) as work:
        edits = ChunkEdits(work.connection, tenant_id)
        chunk: OwnedChunk | None = None
        if isinstance(wanted, tuple):
            namespace, document_id = wanted
        else:
            chunk = edits.named([wanted]).get(wanted)
            if chunk is None or not chunk.enabled:
                return None
            namespace, document_id = chunk.generation.scope.namespace, chunk.generation.document_id
        view = DocumentViews(work.connection, tenant_id).view(namespace, document_id)
        if view is None or view.generation is None:
            return None
        if chunk is not None:
            return view, [chunk]
        chunks: list[OwnedChunk] = []
        after: Position | None = None
        while page := edits.page(namespace, document_id=document_id, after=after, limit=_AT_ONCE):
            chunks += [chunk for chunk in page if chunk.searched and chunk.enabled]
            after = page[-1].position
        return view, chunks
