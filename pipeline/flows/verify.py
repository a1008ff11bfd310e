"""Compare the two stores, and make the vector store what MySQL says it should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.core.chunking import embedding_text
from pipeline.flows.resources import Resources
from pipeline.records import Chunk, ChunkId, DocumentFields, DocumentId, Generation, Namespace, Passage, Scope, TenantId
from pipeline.stores import alignment
from pipeline.stores.chunks import Chunks, StoredChunk
from pipeline.stores.namespaces import Namespaces
from pipeline.stores.rows import slices
from pipeline.stores.work import unit_of_work

_REPAIRED_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceReport:
    """How one namespace stands. ``missing``: chunks without a vector; ``orphaned``: vectors without a chunk;
    ``stale``: vectors of another text or another model."""

    namespace: str
    documents: int
    chunks: int
    vectors: int
    missing: int
    orphaned: int
    stale: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a tenant's stores stand to each other. ``repaired``: vectors made or removed by this run."""

    namespaces: tuple[NamespaceReport, ...]
    missing: int
    orphaned: int
    stale: int
    repaired: int


def verify(tenant_id: TenantId, namespaces: Sequence[Namespace] | None, use: Resources, *, repair: bool) -> Report:
    """Compare every chunk with every vector of these namespaces, or of all the tenant has.

    With ``repair``, missing and stale vectors are made again and orphaned ones removed. What an open job is working
    on counts as neither.
    """
    with unit_of_work(use.mysql) as work:
        documents = {view.namespace: view.documents for view in Namespaces(work.connection, tenant_id).views()}
    wanted = sorted(namespaces if namespaces is not None else _all(tenant_id, documents, use))
    reports, repaired = [], 0
    for namespace in wanted:
        report, mended = _one(tenant_id, namespace, documents.get(namespace, 0), use, repair=repair)
        reports.append(report)
        repaired += mended
    return Report(
        namespaces=tuple(reports),
        missing=sum(report.missing for report in reports),
        orphaned=sum(report.orphaned for report in reports),
        stale=sum(report.stale for report in reports),
        repaired=repaired,
    )


def _all(tenant_id: TenantId, documents: dict[str, int], use: Resources) -> set[Namespace]:
    return {Namespace(name) for name in documents} | alignment.vector_namespaces(use.postgres, tenant_id)


def _one(
    tenant_id: TenantId, namespace: Namespace, documents: int, use: Resources, *, repair: bool
) -> tuple[NamespaceReport, int]:
    # Vectors are read first: what is published between the two reads then looks missing at worst, never orphaned.
    found = {
        chunk_id: (model, digest) for chunk_id, model, digest in alignment.vectors(use.postgres, tenant_id, namespace)
    }
    with unit_of_work(use.mysql) as work:
        expected = alignment.shown_chunks(work.connection, tenant_id, namespace)
        moving = alignment.chunks_on_their_way(work.connection, tenant_id, namespace)
    missing = sorted(chunk_id for chunk_id in expected if chunk_id not in found and chunk_id not in moving)
    orphaned = sorted(chunk_id for chunk_id in found if chunk_id not in expected and chunk_id not in moving)
    stale = sorted(
        chunk_id
        for chunk_id, digest in expected.items()
        if chunk_id in found and found[chunk_id] != (use.embedder.model, digest)
    )
    if repair:
        for chunk_ids in slices([*missing, *stale], _REPAIRED_AT_ONCE):
            _make_again(tenant_id, namespace, chunk_ids, use)
        alignment.delete_vectors(use.postgres, tenant_id, orphaned)
    report = NamespaceReport(
        namespace=namespace,
        documents=documents,
        chunks=len(expected),
        vectors=sum(chunk_id in expected or chunk_id not in moving for chunk_id in found),
        missing=len(missing),
        orphaned=len(orphaned),
        stale=len(stale),
    )
    return report, len(missing) + len(orphaned) + len(stale) if repair else 0


def _make_again(tenant_id: TenantId, namespace: Namespace, chunk_ids: Sequence[ChunkId], use: Resources) -> None:
    with unit_of_work(use.mysql) as work:
        stored = Chunks(work.connection, tenant_id).hydrate(chunk_ids, namespaces=[namespace])
        hashes = alignment.shown_chunks(work.connection, tenant_id, namespace)
    rows = list(stored.values())
    chunks = [_chunk(tenant_id, row, hashes[row.chunk_id]) for row in rows]
    vectors = use.embedder.embed([chunk.embedding_text for chunk in chunks])
    fields = {chunk.generation: _fields(row) for chunk, row in zip(chunks, rows, strict=True)}
    use.vectors(tenant_id).upsert(chunks, vectors, fields=fields, model=use.embedder.model)


def _chunk(tenant_id: TenantId, row: StoredChunk, content_hash: bytes) -> Chunk:
    passage = Passage(
        text=row.text,
        start=row.start,
        end=row.end,
        token_count=row.token_count,
        heading_path=row.heading_path,
        page=row.page,
    )
    scope = Scope(tenant_id=tenant_id, namespace=Namespace(row.namespace))
    return Chunk(
        chunk_id=row.chunk_id,
        generation=Generation(scope=scope, document_id=DocumentId(row.document_id), number=row.generation),
        ordinal=row.ordinal,
        passage=passage,
        terms=(),
        content_hash=content_hash,
        embedding_text=embedding_text(passage, row.title),
    )


def _fields(row: StoredChunk) -> DocumentFields:
    return DocumentFields(
        title=row.title,
        author=row.author,
        type=row.type,
        tags=row.tags,
        published_at=row.published_at,
        story_time=row.story_time,
        metadata=row.metadata,
    )
