"""Mend the differences between the stores."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import structlog

from pipeline.administration.edit_chunks import lock_chunks
from pipeline.chunking.strategies.registry import embedding_text_of
from pipeline.database.rows import slices
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits
from pipeline.documents.chunk_store import Chunks
from pipeline.documents.cut_document import Assembled
from pipeline.documents.document_store import Documents, Source
from pipeline.documents.document_views import OwnedChunk
from pipeline.documents.parent_store import Parents
from pipeline.errors import EmbedderRefused, Rejected
from pipeline.ingestion.make_vectors import vectors_of
from pipeline.ingestion.prepare import cut
from pipeline.maintenance.compare import (
    UNNEEDED,
    DeletionLimit,
    NamespaceStores,
    PageDifferences,
    compare_page,
    differences,
)
from pipeline.records import (
    Chunk,
    ChunkId,
    DocumentId,
    EmbeddingSpace,
    Generation,
    Namespace,
    Scope,
    TenantId,
)
from pipeline.resources import Resources
from pipeline.tenants.namespace_store import Namespaces
from pipeline.tenants.usage import Purpose

log = structlog.get_logger(__name__)

_EMBEDDED_AT_ONCE = 500


@retry_conflicts()
def mend(stores: NamespaceStores, page: PageDifferences, *, limit: DeletionLimit | None = None) -> int:
    """Repair differences that still hold; return the numbers of repaired vectors, rows and counts. Raises WrongInstallation.

    Chunks are restored first, then vectors; deletions come last and within ``limit``, so that searches miss nothing. If an
    upload collides with the repair, it begins again: repaired differences are gone by then."""
    tenant_id, namespace, space, use = stores.tenant_id, stores.namespace, stores.space, stores.use
    use.installation.confirm()
    mended = sum(_restore(tenant_id, namespace, DocumentId(miscounted), use) for miscounted in sorted(page.miscounted))
    if page.miscounted:
        second = compare_page(stores, sorted(page.guilty))
        page = replace(page, missing=second.missing, orphaned=second.orphaned, stale=second.stale)
    lacking = [*page.missing, *page.stale, *page.misplaced]
    embedded = sum(_embed_again(tenant_id, chunk_ids, use, space) for chunk_ids in slices(lacking, _EMBEDDED_AT_ONCE))
    guilty = sorted(page.guilty)
    with unit_of_work(use.mysql) as work:
        stores.rows(work.connection).documents(namespace, guilty, lock=True)
        vectors = stores.vectors.of_documents(namespace, guilty)
        current = differences(stores, work.connection, guilty, vectors)
        orphaned = [chunk_id for chunk_id in (*page.orphaned, *page.misplaced) if chunk_id in current.orphaned]
        leftover = {key: count for key, count in page.leftover.items() if key in current.leftover}
        wrong = compare_page(stores, guilty).document_vectors
        unneeded = [key for key, defect in wrong.items() if defect == UNNEEDED]
        if limit is not None and not limit.take(vectors=len(orphaned) + len(unneeded), rows=sum(leftover.values())):
            orphaned, leftover, unneeded = [], {}, []
        use.installation.confirm(work.connection)  # the connection that decided on the deletions
        stores.vectors.delete(orphaned)
        chunks = Chunks(work.connection, tenant_id)
        for document_id, number in leftover:
            chunks.drop(_generation(tenant_id, namespace, document_id, number))
        remade = [key for key, defect in wrong.items() if defect != UNNEEDED]
        use.document_vectors(tenant_id).refresh([_generation(tenant_id, namespace, *key) for key in remade])
        use.document_vectors(tenant_id).drop(namespace, unneeded)
        Namespaces(work.connection, tenant_id).revise(namespace, guilty)
    rows = sum(leftover.values())
    log.info("stores_mended", tenant_id=tenant_id, vectors=embedded, dropped=len(orphaned), rows=rows)
    withheld = sum(defect == UNNEEDED for defect in page.document_vectors.values()) - len(unneeded)
    return mended + embedded + len(orphaned) + rows + len(page.document_vectors) - max(0, withheld)


def _embed_again(tenant_id: TenantId, chunk_ids: Sequence[ChunkId], use: Resources, space: EmbeddingSpace) -> int:
    """Embed these chunks again, unless they change meanwhile or the model refuses them; return how many."""
    with unit_of_work(use.mysql) as work:
        rows = [chunk for chunk in ChunkEdits(work.connection, tenant_id).named(chunk_ids).values() if chunk.enabled]
    if not rows:
        return 0
    chunks = [_chunk(row) for row in rows]
    try:
        texts = [chunk.embedding_text for chunk in chunks]
        embedder = use.spaces.embedder(space)
        vectors = vectors_of(tenant_id, texts, use, purpose=Purpose.REPAIR, embedder=embedder)
    except EmbedderRefused as error:
        guilty = {rows[index].chunk_id for index in error.indexes}
        log.warning("chunks_refused", tenant_id=tenant_id, space=space.number, chunks=len(guilty) or len(rows))
        others = [row.chunk_id for row in rows if row.chunk_id not in guilty]
        return _embed_again(tenant_id, others, use, space) if guilty else 0
    with unit_of_work(use.mysql) as work:
        current = lock_chunks(tenant_id, rows, work)
        unchanged = [i for i, row in enumerate(rows) if _is_unchanged(row, current.get(row.chunk_id))]
        if not unchanged:
            return 0
        use.vectors_in(space, tenant_id).upsert(
            [chunks[i] for i in unchanged],
            np.asarray(vectors)[unchanged],
            fields={rows[i].generation: rows[i].fields for i in unchanged},
            model=space.model,
        )
    return len(unchanged)


def _is_unchanged(before: OwnedChunk, now: OwnedChunk | None) -> bool:
    return now is not None and now.enabled and (now.version, now.content_hash) == (before.version, before.content_hash)


def _chunk(row: OwnedChunk) -> Chunk:
    return Chunk(
        chunk_id=row.chunk_id,
        generation=row.generation,
        ordinal=row.ordinal,
        passage=row.passage,
        terms=row.terms,
        field_terms=row.field_terms,
        content_hash=row.content_hash,
        embedding_text=embedding_text_of(row.passage, row.fields.title, row.chunking.strategy),
    )


def _restore(tenant_id: TenantId, namespace: Namespace, document_id: DocumentId, use: Resources) -> int:
    """Cut a published document again, without a lock, and write missing chunks except those deleted by hand. Without
    its bytes the stored count is corrected; a document with another generation meanwhile stays."""
    with unit_of_work(use.mysql) as work:
        generation = Documents(work.connection, tenant_id).published(namespace, document_id)
        sources = Documents(work.connection, tenant_id).sources([generation] if generation else [])
    if generation is None:
        return 0
    document = _cut_again(sources[generation], use) if generation in sources else Assembled(chunks=())
    with unit_of_work(use.mysql) as work:
        if Documents(work.connection, tenant_id).published(namespace, document_id) != generation:
            return 0
        edits = ChunkEdits(work.connection, tenant_id)
        stored, removed = edits.ordinals(generation)
        lost = [chunk for chunk in document.chunks if chunk.ordinal not in stored and chunk.ordinal not in removed]
        chunks = Chunks(work.connection, tenant_id)
        chunks.write(lost)
        ordinals = {chunk.ordinal for chunk in lost}
        chunks.mark({generation: {ordinal: mark for ordinal, mark in document.marks.items() if ordinal in ordinals}})
        parents = Parents(work.connection, tenant_id).restore(document.parents, generation)
        edits.remove(generation, [])  # notes how many there are now
        Namespaces(work.connection, tenant_id).revise(namespace, [document_id])
    log.warning("chunks_restored", tenant_id=tenant_id, chunks=len(lost), parents=parents)
    return len(lost) + parents or 1


def _cut_again(source: Source, use: Resources) -> Assembled:
    """Return the content as ingestion made it, with its original marks; none if the document is now at fault."""
    try:
        return cut(source, use)
    except Rejected as error:
        tenant_id = source.generation.scope.tenant_id
        log.warning("document_not_cut_again", tenant_id=tenant_id, code=error.code)
        return Assembled(chunks=())


def _generation(tenant_id: TenantId, namespace: Namespace, document_id: str, number: int) -> Generation:
    scope = Scope(tenant_id=tenant_id, namespace=namespace)
    return Generation(scope=scope, document_id=DocumentId(document_id), number=number)
