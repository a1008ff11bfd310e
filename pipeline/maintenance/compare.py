"""Compare the stores for one page of documents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import Any

import structlog
from sqlalchemy import Connection

from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents import alignment_store
from pipeline.documents.alignment_store import AlignedRows, AlignedVectors, ChunkRow, Deletions, VectorRow
from pipeline.records import ChunkId, DocumentId, EmbeddingSpace, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.semantic.document_vector_store import DocumentVectorRow, hash_of

_LOOKED_FOR_ELSEWHERE = 20  # of the orphans of a page; a look costs one step into the index for each tenant
UNNEEDED = "unneeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceStores:
    """One namespace of a tenant in both stores: its rows in MySQL, and its vectors in one space."""

    tenant_id: TenantId
    namespace: Namespace
    space: EmbeddingSpace
    use: Resources

    @property
    def vectors(self) -> AlignedVectors:
        """The tenant's vectors in the space."""
        return AlignedVectors(self.use.postgres, self.tenant_id, table=self.space.table)

    def rows(self, connection: Connection) -> AlignedRows:
        """Return the tenant's rows, read over ``connection``."""
        return AlignedRows(connection, self.tenant_id)


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


def compare_page(stores: NamespaceStores, document_ids: Sequence[DocumentId], *, lock: bool = False) -> PageDifferences:
    """Compare these documents in both stores, vectors first. ``lock`` prevents publishing and edits meanwhile."""
    tenant_id, namespace, space, use = stores.tenant_id, stores.namespace, stores.space, stores.use
    with unit_of_work(use.mysql) as work:
        if lock:
            stores.rows(work.connection).documents(namespace, document_ids, lock=True)
        vectors = stores.vectors.of_documents(namespace, document_ids)
        is_searched = space == use.spaces.live().active  # documents have a vector in the searched space only
        own_vectors = use.document_vectors(tenant_id).of_documents(namespace, document_ids) if is_searched else None
        page = differences(stores, work.connection, document_ids, vectors, own_vectors=own_vectors)
        orphans = list(page.orphaned)[:_LOOKED_FOR_ELSEWHERE]
        elsewhere = stores.rows(work.connection).chunks_elsewhere(orphans)
    lost = stores.vectors.by_id(list(page.missing))
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
    model, store, key = stores.space.model, stores.rows(connection), (stores.namespace, document_ids)
    documents = store.documents(*key)
    rows = store.chunks(*key)
    shown = {(document.document_id, document.published) for document in documents.values()}
    expected = {row.chunk_id: row for row in rows if row.enabled and (row.document_id, row.generation) in shown}
    per_generation = Counter((row.document_id, row.generation) for row in rows)
    parents = store.parent_counts(*key)
    incomplete = store.parents_lost(*key)
    odd = [row for chunk_id, row in vectors.items() if chunk_id not in expected]
    unneeded = {key for key in (*per_generation, *parents) if key not in shown}
    spare = any((row.document_id, row.generation) not in shown for row in own_vectors or ())
    busy = store.busy_generations(*key) if odd or unneeded or spare else set()
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
            and (row.model, row.content_hash, row.readers)
            != (model, expected[chunk_id].content_hash, documents[row.document_id].readers)
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


log = structlog.get_logger(__name__)

_DELETED_SHARE = 0.1  # of a tenant's vectors, and of its rows, without confirmation
DELETED_FREELY = 100  # vectors, or rows of chunks; below this no confirmation is needed, whatever the share


@dataclass(slots=True, kw_only=True)
class DeletionLimit:
    """The limit on one pass over a tenant, with counts of deleted and withheld rows; not thread-safe. ``is_open``
    False: nothing is deleted because the total is too large or was in the previous pass. Withheld deletions decide the
    next pass. ``before`` counts the earlier runs of a pass that is continued; the limit is what they left."""

    vectors: int
    rows: int
    is_open: bool = True
    deleted: int = 0
    withheld: int = 0
    before: Deletions = field(default_factory=Deletions)

    def take(self, *, vectors: int, rows: int) -> bool:
        """Count this many more deletions of vectors and chunk rows, as deleted if allowed (True), else as withheld."""
        wanted = vectors + rows
        if not wanted:
            return True
        self.vectors -= vectors
        self.rows -= rows
        if not self.is_open or self.vectors < 0 or self.rows < 0:
            self.is_open = False
            self.withheld += wanted
            return False
        self.deleted += wanted
        return True

    @property
    def is_exceeded(self) -> bool:
        """Return whether the pass has found more to delete than the limit allows."""
        return self.vectors < 0 or self.rows < 0

    def deletions(self, *, ended: bool) -> Deletions:
        """Return the counts to store after a page, or at the end of the pass."""
        deleted = self.before.pass_deleted + self.deleted
        withheld = self.before.pass_withheld + self.withheld
        if ended:
            return Deletions(withheld=withheld if self.is_exceeded else 0)
        withheld_most = max(self.before.withheld, withheld if self.is_exceeded else 0)
        return Deletions(pass_deleted=deleted, pass_withheld=withheld, withheld=withheld_most)


def measure(tenant_id: TenantId, use: Resources, space: EmbeddingSpace, *, share: float | None = None) -> DeletionLimit:
    """Return the limit for a pass. ``share``: the share of the tenant's vectors and chunk rows that an operator
    confirmed; None: a tenth, if nothing is withheld. If vectors exceed rows by too many, as after restoring an
    old backup, nothing is deleted."""
    with unit_of_work(use.mysql) as work:
        rows = AlignedRows(work.connection, tenant_id).chunk_count()
        earlier = alignment_store.deletions_of(work.connection, tenant_id)
    vectors = AlignedVectors(use.postgres, tenant_id, table=space.table).count()
    allowed = _DELETED_SHARE if share is None else share
    limit = DeletionLimit(
        vectors=max(DELETED_FREELY, int(vectors * allowed)), rows=max(DELETED_FREELY, int(rows * allowed))
    )
    if share is None:
        limit.is_open = not earlier.withheld and vectors - rows <= limit.vectors
    if not limit.is_open:
        log.warning("deletions_withheld", tenant_id=tenant_id, vectors=vectors, rows=rows, withheld=earlier.withheld)
    return limit
