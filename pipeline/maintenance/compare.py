"""Compare the stores for one page of documents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any

from sqlalchemy import Connection

from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents import alignment_store
from pipeline.documents.alignment_store import ChunkRow, VectorRow
from pipeline.documents.parent_store import parent_counts, parents_lost
from pipeline.records import ChunkId, DocumentId, EmbeddingSpace, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.semantic.document_vector_store import DocumentVectorRow
from pipeline.semantic.document_vectors import hash_of

_LOOKED_FOR_ELSEWHERE = 20  # of the orphans of a page; a look costs one step into the index for each tenant
UNNEEDED = "unneeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceStores:
    """One namespace of a tenant in both stores: its rows in MySQL, and its vectors in one space."""

    tenant_id: TenantId
    namespace: Namespace
    space: EmbeddingSpace
    use: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class PageDifferences:
    """Differences of some documents: chunks by id with their document, generations by document and number.
    ``miscounted``: documents whose generation has another number of rows, given here, or lacks a parent.
    ``document_vectors``: documents whose own vector is missing, outdated or unneeded."""

    chunks: int
    vectors: int
    missing: Mapping[ChunkId, str]
    orphaned: Mapping[ChunkId, str]
    stale: Mapping[ChunkId, str]
    misplaced: Mapping[ChunkId, str]
    miscounted: Mapping[str, int]
    leftover: Mapping[tuple[str, int], int]
    document_vectors: Mapping[tuple[str, int], str]

    @property
    def wrong(self) -> bool:
        """Whether anything differs."""
        return bool(self.guilty)

    @property
    def guilty(self) -> set[DocumentId]:
        """The documents with differences."""
        of_chunks = chain.from_iterable(
            group.values() for group in (self.missing, self.orphaned, self.stale, self.misplaced)
        )
        of_generations = (document_id for document_id, _ in (*self.leftover, *self.document_vectors))
        return {DocumentId(document_id) for document_id in chain(of_chunks, self.miscounted, of_generations)}

    def confirmed_by(self, other: PageDifferences) -> PageDifferences:
        """Return the differences that both looks found."""
        kinds = [field.name for field in fields(self) if field.name not in ("chunks", "vectors")]
        common: dict[str, Any] = {
            kind: {key: value for key, value in getattr(self, kind).items() if key in getattr(other, kind)}
            for kind in kinds
        }
        return replace(self, **common)


def look(stores: NamespaceStores, document_ids: Sequence[DocumentId], *, lock: bool = False) -> PageDifferences:
    """Compare these documents in both stores, vectors first. ``lock`` prevents publishing and edits meanwhile."""
    tenant_id, namespace, space, use = stores.tenant_id, stores.namespace, stores.space, stores.use
    with unit_of_work(use.mysql) as work:
        if lock:
            alignment_store.documents_of(work.connection, tenant_id, namespace, document_ids, lock=True)
        vectors = alignment_store.vector_rows(use.postgres, tenant_id, namespace, document_ids, table=space.table)
        is_searched = space == use.spaces.live().active  # documents have a vector in the searched space only
        own_vectors = use.document_vectors(tenant_id).of_documents(namespace, document_ids) if is_searched else None
        page = differences(stores, work.connection, document_ids, vectors, own_vectors=own_vectors)
        orphans = list(page.orphaned)[:_LOOKED_FOR_ELSEWHERE]
        elsewhere = alignment_store.chunks_elsewhere(work.connection, tenant_id, orphans)
    lost = alignment_store.vectors_by_id(use.postgres, tenant_id, list(page.missing), table=space.table)
    misplaced = {chunk_id: page.missing[chunk_id] for chunk_id in lost}
    misplaced |= {chunk_id: document for chunk_id, document in page.orphaned.items() if chunk_id in elsewhere}
    return replace(
        page,
        missing={k: v for k, v in page.missing.items() if k not in lost},
        orphaned={k: v for k, v in page.orphaned.items() if k not in elsewhere},
        misplaced={**page.misplaced, **misplaced},
    )


def differences(
    stores: NamespaceStores,
    connection: Connection,
    document_ids: Sequence[DocumentId],
    vectors: Mapping[ChunkId, VectorRow],
    *,
    own_vectors: Sequence[DocumentVectorRow] | None = None,
) -> PageDifferences:
    """Return the differences between the chunks of these documents, read over ``connection``, and their vectors, read
    before; ``own_vectors``: those of the documents, None to skip them."""
    model, key = stores.space.model, (connection, stores.tenant_id, stores.namespace, document_ids)
    documents = alignment_store.documents_of(*key)
    rows = alignment_store.chunk_rows(*key)
    shown = {(document.document_id, document.published) for document in documents.values()}
    expected = {row.chunk_id: row for row in rows if row.enabled and (row.document_id, row.generation) in shown}
    per_generation = Counter((row.document_id, row.generation) for row in rows)
    parents = parent_counts(*key)
    incomplete = parents_lost(*key)
    odd = [row for chunk_id, row in vectors.items() if chunk_id not in expected]
    unneeded = {key for key in (*per_generation, *parents) if key not in shown}
    spare = any((row.document_id, row.generation) not in shown for row in own_vectors or ())
    busy = alignment_store.busy_generations(*key) if odd or unneeded or spare else set()
    here = {chunk_id: row for chunk_id, row in vectors.items() if chunk_id in expected}
    return PageDifferences(
        chunks=len(expected),
        vectors=len(vectors),
        missing={chunk_id: row.document_id for chunk_id, row in expected.items() if chunk_id not in vectors},
        orphaned={row.chunk_id: row.document_id for row in odd if (row.document_id, row.generation) not in busy},
        stale={
            chunk_id: row.document_id
            for chunk_id, row in here.items()
            if _placed(row, expected[chunk_id])
            and (row.model, row.content_hash) != (model, expected[chunk_id].content_hash)
        },
        misplaced={
            chunk_id: expected[chunk_id].document_id
            for chunk_id, row in here.items()
            if not _placed(row, expected[chunk_id])
        },
        miscounted={
            document.document_id: document.chunk_count
            for document in documents.values()
            if document.published is not None
            and document.chunk_count is not None
            and (
                per_generation[(document.document_id, document.published)] != document.chunk_count
                or document.document_id in incomplete
            )
        },
        leftover={key: per_generation[key] + parents.get(key, 0) for key in unneeded - busy if key[0] in documents},
        document_vectors=wrong_document_vectors(own_vectors, expected.values(), busy, model=model),
    )


def _placed(vector: VectorRow, chunk: ChunkRow) -> bool:
    return (vector.document_id, vector.generation) == (chunk.document_id, chunk.generation)


def wrong_document_vectors(
    own_vectors: Sequence[DocumentVectorRow] | None,
    shown: Iterable[ChunkRow],
    busy: Collection[tuple[str, int]],
    *,
    model: str,
) -> dict[tuple[str, int], str]:
    """Return the defects of the documents' own vectors by generation. ``shown``: the chunks that MySQL shows."""
    if own_vectors is None:
        return {}
    chunks: defaultdict[tuple[str, int], list[tuple[str, bytes]]] = defaultdict(list)
    for row in shown:
        chunks[row.document_id, row.generation].append((row.chunk_id, row.content_hash))
    expected = {key: (model, hash_of(hashes)) for key, hashes in chunks.items()}
    stored = {(row.document_id, row.generation): (row.model, row.content_hash) for row in own_vectors}
    wrong = {key: "missing or stale" for key, value in expected.items() if stored.get(key) != value}
    return wrong | {key: UNNEEDED for key in stored if key not in expected and key not in busy}
